//! What a seed draws: how many informers, of what, and how each is set up.

use std::time::Duration;

use fastrand::Rng;
use kube_informer::{FirstList, ReflectorOptions};
use kube_testserver::{Lag, ServerBuilder, StreamingLists};

use super::{scope::Scope, things::NAMESPACES};

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

/// One informer.
#[derive(Clone, Debug)]
pub(super) struct InformerSetup {
    pub(super) form: Representation,
    pub(super) scope: Scope,
    pub(super) options: ReflectorOptions,
    pub(super) coalesce_threshold: usize,
    pub(super) queue_capacity: usize,
    /// It comes from a factory, which has marks and bounds of its own.
    pub(super) by_factory: bool,
    /// Its `on_error` panics now and then, and its transform over what can't be decoded.
    pub(super) panics: Option<Rng>,
    /// It reads from the server and a second replica in turns, which lags like this.
    pub(super) second_replica: Option<Lag>,
    /// Handlers that are there before the start.
    pub(super) early_handlers: usize,
}

/// How long the server remembers, and what else differs from server to server.
#[derive(Clone, Debug)]
pub(super) struct ServerSetup {
    /// So many events of each resource; else all.
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

/// A whole seed.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) server: ServerSetup,
    pub(super) informers: Vec<InformerSetup>,
    pub(super) streaming: StreamingLists,
    /// How many steps the first phase has.
    pub(super) steps: usize,
    /// Events may be lost, which only a relist can heal.
    pub(super) loses: bool,
    /// etcd may be restored.
    pub(super) restores: bool,
    /// How many of ten steps are troubles.
    pub(super) trouble: u32,
    /// Whether all is stopped amid troubles.
    pub(super) stops: bool,
}

impl Setup {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        // Each has a path or a selector of its own, so that a fault can be for one of them.
        let namespaces = [None, Some(NAMESPACES[0]), Some(NAMESPACES[1])];
        let mut places =
            [false, true].map(|labelled| namespaces.map(|namespace| (namespace, labelled))).concat();
        rng.shuffle(&mut places);
        let count = if rng.u8(..4) == 0 { 2 } else { 1 };
        let restores = rng.bool();
        let informers: Vec<InformerSetup> = places
            .iter()
            .take(count)
            .map(|(namespace, labelled)| informer(*namespace, *labelled, rng))
            .collect();
        Self {
            server: ServerSetup::draw(rng),
            informers,
            streaming: match rng.u8(..8) {
                0 => StreamingLists::Refused,
                1 => StreamingLists::ErrorEvent,
                2 => StreamingLists::Ignored,
                _ => StreamingLists::Served,
            },
            steps: rng.usize(20..70),
            loses: rng.u8(..10) < 3,
            restores,
            trouble: rng.u32(1..=6),
            stops: rng.u8(..10) == 0,
        }
    }
}

fn informer(namespace: Option<&'static str>, labelled: bool, rng: &mut Rng) -> InformerSetup {
    let form = form(rng);
    let options = ReflectorOptions {
        page_size: (rng.u8(..4) > 0).then(|| rng.u32(1..=4)),
        first_list: if rng.bool() { FirstList::Any } else { FirstList::Consistent },
        streaming_lists: rng.bool(),
        watch_timeout: Duration::from_secs(if rng.bool() { 300 } else { 60 }),
        clear_when_gone: rng.bool(),
        seed: Some(rng.u64(..)),
        ..ReflectorOptions::default()
    };
    InformerSetup {
        form,
        scope: Scope { namespace, labelled, status: form != Representation::MetadataOnly },
        options,
        coalesce_threshold: rng.usize(1..=8),
        queue_capacity: rng.usize(1..=8),
        by_factory: rng.u8(..8) == 0,
        panics: (rng.u8(..10) == 0).then(|| rng.fork()),
        second_replica: (rng.u8(..4) == 0).then(|| lag(rng)),
        early_handlers: rng.usize(..3),
    }
}

/// What comes after is the same, whatever whole form an informer has.
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

/// How far a watch cache is behind.
pub(super) fn lag(rng: &mut Rng) -> Lag {
    match rng.u8(..4) {
        0 => Lag::None,
        1 => Lag::Revisions(rng.u64(1..8)),
        2 => Lag::Time(Duration::from_secs(rng.u64(1..20))),
        _ => Lag::Frozen,
    }
}
