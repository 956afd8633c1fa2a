//! The random setup of a seed: the number of informers, their types and their options.

use std::time::Duration;

use fastrand::Rng;
use kube_informer::{FirstList, ReflectorOptions};
use kube_testserver::{Lag, ServerBuilder, StreamingLists};

use super::{scope::Scope, workload::NAMESPACES};

/// The form in which an informer keeps objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representation {
    Typed,
    Dynamic,
    MetadataOnly,
    Projected,
    Lazy,
    Compressed,
}

/// The source of an informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceKind {
    /// kube-apiserver.
    Server,
    /// A server whose lists have no version.
    NoListVersions,
    /// A server whose versions are opaque.
    OpaqueVersions,
    /// Two functions of a program, which may return objects without a name.
    Functions,
}

/// The setup of one informer.
#[derive(Clone, Debug)]
pub(super) struct InformerSetup {
    pub(super) form: Representation,
    pub(super) source: SourceKind,
    pub(super) scope: Scope,
    pub(super) options: ReflectorOptions,
    pub(super) coalesce_threshold: usize,
    pub(super) queue_capacity: usize,
    /// True if a factory creates the informer, with the marks and bounds of the factory.
    pub(super) by_factory: bool,
    /// True if `on_error` panics at random, and the transform for objects that cannot be decoded.
    pub(super) panics: Option<Rng>,
    /// Removes the names of listed objects at random, if functions are the source.
    pub(super) removes_names: Option<Rng>,
    /// It reads from the server and a second replica in turns, which lags like this.
    pub(super) second_replica: Option<Lag>,
    /// The number of handlers before the start.
    pub(super) early_handlers: usize,
}

impl InformerSetup {
    pub(super) fn has_list_versions(&self) -> bool {
        self.source != SourceKind::NoListVersions
    }

    pub(super) fn has_opaque_versions(&self) -> bool {
        self.source == SourceKind::OpaqueVersions
    }
}

/// The history length of the server, and other options that differ between servers.
#[derive(Clone, Debug)]
pub(super) struct ServerSetup {
    /// The number of retained events of each resource. `None` retains all.
    history: Option<usize>,
    watches_expire: Option<Duration>,
    lists_expire: Option<Duration>,
    watch_cache: bool,
    gzip_watches: bool,
}

impl ServerSetup {
    fn draw(rng: &mut Rng) -> Self {
        let age = |rng: &mut Rng| (rng.u8(..4) == 0).then(|| Duration::from_secs(rng.u64(5..600)));
        Self {
            history: (rng.u8(..6) == 0).then(|| rng.usize(1..20)),
            watches_expire: age(rng),
            lists_expire: age(rng),
            watch_cache: rng.u8(..8) > 0,
            gzip_watches: rng.u8(..4) == 0,
        }
    }

    pub(super) fn apply(&self, mut server: ServerBuilder) -> ServerBuilder {
        if let Some(events) = self.history {
            server = server.history(events);
        }
        if let Some(age) = self.watches_expire {
            server = server.expire_watches_after(age);
        }
        if let Some(age) = self.lists_expire {
            server = server.expire_lists_after(age);
        }
        server.watch_cache(self.watch_cache).gzip_watches(self.gzip_watches)
    }
}

/// The setup of a seed.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) server: ServerSetup,
    pub(super) informers: Vec<InformerSetup>,
    pub(super) streaming: StreamingLists,
    /// The number of steps in the first phase.
    pub(super) steps: usize,
    /// True if events may be lost, which only a relist repairs.
    pub(super) loses: bool,
    /// etcd may be restored.
    pub(super) restores: bool,
    /// True if each restore increases the revision and expires all versions. Without numbers, no client
    /// can detect another restore.
    pub(super) bumps: bool,
    /// The watch cache may lag.
    pub(super) lags: bool,
    /// The number of faults in ten steps.
    pub(super) fault: u32,
    /// True if informers are stopped during faults.
    pub(super) stops: bool,
    /// True if the objects change every few seconds during the first list.
    pub(super) is_busy_at_start: bool,
}

impl Setup {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        // Each informer has a different path or selector, so that a fault affects one informer.
        let namespaces = [None, Some(NAMESPACES[0]), Some(NAMESPACES[1])];
        let mut places =
            [false, true].map(|labelled| namespaces.map(|namespace| (namespace, labelled))).concat();
        rng.shuffle(&mut places);
        let count = if rng.u8(..4) == 0 { 2 } else { 1 };
        let restores = rng.bool();
        let mut informers: Vec<InformerSetup> = places
            .iter()
            .take(count)
            .map(|(namespace, labelled)| informer(*namespace, *labelled, rng))
            .collect();
        let server = ServerSetup::draw(rng);
        // No client can detect that a server without list versions was restored, or that its watch cache
        // lags.
        let has_list_versions = informers.iter().all(InformerSetup::has_list_versions);
        let is_busy_at_start = has_list_versions && rng.u8(..8) == 0;
        if is_busy_at_start {
            for informer in &mut informers {
                informer.panics = None;
                informer.second_replica = None;
            }
        }
        Self {
            bumps: informers.iter().any(InformerSetup::has_opaque_versions),
            server,
            informers,
            streaming: match rng.u8(..8) {
                0 => StreamingLists::Refused,
                1 => StreamingLists::ErrorEvent,
                2 => StreamingLists::Ignored,
                _ => StreamingLists::Served,
            },
            steps: rng.usize(20..70),
            loses: rng.u8(..10) < 3,
            restores: restores && has_list_versions,
            lags: has_list_versions,
            fault: rng.u32(1..=6),
            stops: rng.u8(..10) == 0,
            is_busy_at_start,
        }
    }
}

fn informer(namespace: Option<&'static str>, labelled: bool, rng: &mut Rng) -> InformerSetup {
    let form = form(rng);
    let by_factory = rng.u8(..8) == 0;
    let source = if by_factory { SourceKind::Server } else { source(form, rng) };
    let options = ReflectorOptions {
        // Only a check of the server's version has a limit of one.
        page_size: (rng.u8(..4) > 0).then(|| rng.u32(2..=4)),
        first_list: if rng.bool() { FirstList::Any } else { FirstList::Consistent },
        streaming_lists: rng.bool() && source != SourceKind::NoListVersions,
        watch_timeout: Duration::from_secs(if rng.bool() { 300 } else { 60 }),
        clear_when_gone: rng.bool(),
        seed: Some(rng.u64(..)),
        ..ReflectorOptions::default()
    };
    InformerSetup {
        form,
        source,
        scope: Scope { namespace, labelled, status: form != Representation::MetadataOnly },
        options,
        coalesce_threshold: rng.usize(1..=8),
        queue_capacity: rng.usize(1..=8),
        by_factory,
        panics: (rng.u8(..10) == 0).then(|| rng.fork()),
        removes_names: (source == SourceKind::Functions).then(|| rng.fork()),
        second_replica: (rng.u8(..4) == 0 && source != SourceKind::NoListVersions).then(|| lag(rng)),
        early_handlers: rng.usize(..3),
    }
}

/// Draws the source of an informer. Only two representations can be returned by a function.
fn source(form: Representation, rng: &mut Rng) -> SourceKind {
    let is_plain = matches!(form, Representation::Dynamic | Representation::MetadataOnly);
    match rng.u8(..10) {
        0 => SourceKind::NoListVersions,
        1..=3 if is_plain => SourceKind::Functions,
        4 => SourceKind::OpaqueVersions,
        _ => SourceKind::Server,
    }
}

/// Draws the same numbers for all representations, so that later draws do not depend on the
/// representation.
fn form(rng: &mut Rng) -> Representation {
    use Representation::{Compressed, Dynamic, Lazy, MetadataOnly, Projected, Typed};
    let kind = rng.usize(..3);
    let mut aside = Rng::with_seed(!rng.clone().u64(..));
    match kind {
        0 => [Typed, Projected, Lazy, Compressed][aside.usize(..4)],
        1 => Dynamic,
        _ => MetadataOnly,
    }
}

/// Draws the lag of a watch cache.
pub(super) fn lag(rng: &mut Rng) -> Lag {
    match rng.u8(..4) {
        0 => Lag::None,
        1 => Lag::Revisions(rng.u64(1..8)),
        2 => Lag::Time(Duration::from_secs(rng.u64(1..20))),
        _ => Lag::Frozen,
    }
}
