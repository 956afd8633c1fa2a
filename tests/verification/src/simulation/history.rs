//! The observations of one seed: a judge for each informer, and lines for readers.

use std::{collections::BTreeMap, fmt, mem, sync::Arc, time::Duration};

use fastrand::Rng;
use kube_informer::{Phase, ReflectorOptions, ReflectorStatus, Removal, StoreStats};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::{Failure, budget::Budget, disorder::Disorder, scope::Scope, translation::Translation};
use crate::properties::{
    CacheState, Cause, Content, Event, HandlerId, Judge, Key, Mark, Object, Observation, Violation,
};

/// Numbers for uids, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Uids(Arc<Mutex<BTreeMap<String, u64>>>);

impl Uids {
    pub(super) fn number(&self, uid: &str) -> u64 {
        let mut numbers = self.0.lock();
        let next = numbers.len() as u64 + 1;
        *numbers.entry(uid.to_owned()).or_insert(next)
    }
}

/// HistoryLines with their time. They are only kept if a reader needs them.
#[derive(Debug, Default)]
pub(super) struct HistoryLines(Option<Vec<(Duration, String)>>);

impl HistoryLines {
    pub(super) fn new(wanted: bool) -> Self {
        Self(wanted.then(Vec::new))
    }

    pub(super) fn log(&mut self, at: Duration, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push((at, line()));
        }
    }

    pub(super) fn take(&mut self) -> Vec<(Duration, String)> {
        self.0.take().unwrap_or_default()
    }
}

/// The recorded observations of one informer.
pub(super) struct Recorder {
    pub(super) scope: Scope,
    pub(super) uids: Uids,
    pub(super) lines: HistoryLines,
    /// The first violation.
    pub(super) violation: Option<Failure>,
    pub(super) budget: Budget,
    /// Until all faults are repaired, callbacks of the informer panic at random.
    pub(super) panics: Option<Rng>,
    /// Until all faults are repaired, names of listed objects are removed at random.
    pub(super) removes_names: Option<Rng>,
    /// True if the lists of the server have versions.
    pub(super) has_versions: bool,
    /// If the versions of the server are opaque, the judge observes numbers.
    translation: Option<Translation>,
    /// True if the next two events of different objects are swapped.
    pub(super) swaps_next: bool,
    /// The number of swaps.
    pub(super) swaps: u64,
    disorder: Disorder,
    position: Position,
    /// Events may have been lost.
    pub(super) lossy: bool,
    pub(super) snapshots: SnapshotCounts,
    /// etcd was restored, and the cache may be of the lost history.
    restored: Option<Restored>,
    /// The number of lists of the cache that may be incomplete or earlier.
    incomplete: Option<u64>,
    /// True if the resource was removed, so that the cache may be cleared. A complete list ends this.
    cleared: bool,
    began: Instant,
    judge: Judge,
    status: watch::Receiver<ReflectorStatus>,
    /// The last write of the cache, until it is judged.
    written: Option<WriteEffect>,
    synced: bool,
    /// The number of lists of the cache at the last request for a relist.
    asked: Option<u64>,
    /// The number of lists of the cache when all faults were repaired.
    healed: Option<u64>,
    /// The number of lists of the cache at its last write.
    lists: u64,
    lists_without_reuse: u64,
}

/// The number of snapshots that were compared with the state of the server, and the number of the other
/// snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCounts {
    /// The compared snapshots.
    pub exact: u64,
    /// The other snapshots: lists have no version or were incomplete, events were lost or swapped, or a
    /// restored history or a cleared cache was not listed yet.
    pub inexact: u64,
}

impl SnapshotCounts {
    /// Adds the numbers of other seeds.
    pub fn add(&mut self, other: Self) {
        self.exact += other.exact;
        self.inexact += other.inexact;
    }
}

impl fmt::Display for SnapshotCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.exact + self.inexact;
        let share = self.exact as f64 / all.max(1) as f64 * 100.0;
        write!(
            f,
            "{} of {all} snapshots ({share:.1} %) were compared with the state of the server",
            self.exact
        )
    }
}

/// The effect of a write of the cache.
pub(super) struct WriteEffect {
    pub(super) objects: Vec<Object>,
    pub(super) stale: Vec<Key>,
    pub(super) mark: Mark,
    pub(super) synced: bool,
    pub(super) cause: Cause,
    pub(super) content: Content,
}

/// The maximum position of the reflector: the last version that its source delivered.
#[derive(Clone, Copy, Default)]
struct Position {
    mark: Mark,
    /// The version of the first page of the present list.
    page: u64,
}

/// The cache has the new history after a list without reuse that starts later.
#[derive(Clone, Copy)]
struct Restored {
    /// The number of lists of the cache that may have started before.
    lists: u64,
}

impl Recorder {
    pub(super) fn new(
        scope: Scope,
        uids: Uids,
        lines: HistoryLines,
        began: Instant,
        options: ReflectorOptions,
    ) -> Self {
        Self {
            scope,
            uids,
            lines,
            violation: None,
            budget: Budget::new(options),
            panics: None,
            removes_names: None,
            has_versions: true,
            translation: None,
            swaps_next: false,
            swaps: 0,
            disorder: Disorder::default(),
            position: Position::default(),
            lossy: false,
            snapshots: SnapshotCounts::default(),
            restored: None,
            incomplete: None,
            cleared: false,
            began,
            judge: Judge::new(),
            status: watch::channel(ReflectorStatus::default()).1,
            written: None,
            synced: false,
            asked: None,
            healed: None,
            lists: 0,
            lists_without_reuse: 0,
        }
    }

    /// The informer was created.
    pub(super) fn follows(&mut self, status: watch::Receiver<ReflectorStatus>) {
        self.status = status;
    }

    /// Panics, perhaps.
    pub(super) fn may_panic(recorder: &Mutex<Self>) {
        let mut recorder = recorder.lock();
        let panics = recorder.panics.as_mut().is_some_and(|rng| rng.u8(..6) == 0);
        if panics {
            recorder.budget.panicked();
            recorder.disorder.closed();
            let at = recorder.began.elapsed();
            recorder.lines.log(at, || "on_error panics".to_owned());
            drop(recorder);
            // `resume_unwind` prints no message on standard error.
            std::panic::resume_unwind(Box::new(()));
        }
    }

    /// An object was decoded and is transformed.
    pub(super) fn transformed(&mut self, object: Object, before: bool) {
        if !before {
            self.observe(Observation::Decoded(object));
        }
        self.observe(Observation::Transformed(object));
    }

    /// The source has opaque versions.
    pub(super) fn translates_versions(&mut self) {
        self.translation = Some(Translation::default());
        self.judge = Judge::of_opaque_versions();
    }

    /// Returns whether the versions of the server are opaque.
    pub(super) fn has_opaque_versions(&self) -> bool {
        self.translation.is_some()
    }

    /// Two events of a watch are swapped. The version is of the later event.
    pub(super) fn swapped(&mut self, version: Option<u64>) {
        self.swaps_next = false;
        self.swaps += 1;
        let at = self.began.elapsed();
        self.lines.log(at, || format!("the event {version:?} is swapped with the event before"));
        if let Some(version) = version.filter(|_| self.has_versions) {
            self.disorder.swapped(version);
        }
    }

    /// Returns whether the cache can lack an event of a swap. The next list repairs it.
    pub(super) fn may_lack_event(&self) -> bool {
        self.disorder.may_lack_event()
    }

    /// The reflector requests the version of the server.
    pub(super) fn checks_version(&mut self) {
        self.disorder.checked(self.began.elapsed());
    }

    /// The reflector requests a list or a watch.
    pub(super) fn requests(&mut self, resumes: bool) {
        self.disorder.closed();
        if resumes {
            self.requires(self.disorder.resumed());
        }
    }

    /// Checks that an event out of order had its effects in time.
    pub(super) fn check_disorder(&mut self) {
        self.requires(self.disorder.check(self.began.elapsed()));
    }

    fn requires(&mut self, result: Result<(), &str>) {
        if let Err(how) = result {
            self.broken(Violation { property: 2, how: how.to_owned() });
        }
    }

    /// An event (or a bookmark) is handed to the reflector.
    pub(super) fn handed(&mut self, version: u64, is_bookmark: bool) {
        let at_most = self.position.mark.version.map(|position| position.saturating_sub(is_bookmark.into()));
        if !self.has_opaque_versions() && Some(version) <= at_most {
            self.disorder.received(self.began.elapsed());
        }
        if Some(version) > self.position.mark.version {
            self.position.mark.version = Some(version);
            self.moved(Cause::Changes);
        }
    }

    /// Records a page of a list: `first`, `last` or in between. A consistent list may have an older
    /// version.
    pub(super) fn page(&mut self, version: u64, first: bool, last: bool, consistent: bool) {
        let Position { mark, page } = &mut self.position;
        let version = if first { version } else { *page };
        *page = version;
        if last {
            mark.epoch += u64::from(mark.version > Some(version));
            mark.version = Some(version);
            self.disorder.listed();
            self.moved(Cause::Relist { fresh: consistent });
        }
    }

    /// An item of a list has no name.
    pub(super) fn list_is_incomplete(&mut self) {
        self.incomplete = Some(self.lists + 1);
    }

    fn moved(&mut self, cause: Cause) {
        let mark = self.position.mark;
        self.observe(Observation::Position { mark, cause });
    }

    /// Checks an observation, until a property is violated.
    pub(super) fn observe(&mut self, observation: Observation<'_>) {
        if self.violation.is_some() {
            return;
        }
        let at = self.began.elapsed();
        self.lines.log(at, || format!("{}", Line(&observation)));
        if let Err(violation) = self.judge.observe(observation) {
            self.broken(violation);
        }
    }

    pub(super) fn broken(&mut self, violation: impl Into<Failure>) {
        let (violation, at) = (violation.into(), self.began.elapsed());
        self.lines.log(at, || violation.to_string());
        self.violation.get_or_insert(violation);
    }

    /// Returns the violation that this observation would cause.
    pub(super) fn try_observe(&self, observation: Observation<'_>) -> Result<(), Violation> {
        self.judge.clone().observe(observation)
    }

    /// Returns the cause of the last write of the cache, and whether the cache can have all changes up
    /// to its watermark.
    pub(super) fn cause(&mut self, stats: StoreStats, version: Option<u64>) -> (Cause, Content) {
        let before = mem::replace(&mut self.lists, stats.lists);
        let fresh = mem::replace(&mut self.lists_without_reuse, stats.lists_without_reuse)
            < stats.lists_without_reuse;
        if self.incomplete.is_some_and(|incomplete| stats.lists > incomplete) {
            self.incomplete = None;
        }
        let complete = fresh && self.incomplete.is_none();
        if complete && self.restored.is_some_and(|restored| before >= restored.lists) {
            self.restored = None;
        }
        let cause = if before == stats.lists { Cause::Changes } else { Cause::Relist { fresh } };
        if self.incomplete.is_none() && cause != Cause::Changes {
            self.disorder.applied(version);
        }
        // A list recovers lost events. The caller ensures that no later event is lost.
        self.lossy &= self.healed.is_none_or(|healed| stats.lists <= healed);
        // A restore can undo the deletion of the resource. An incomplete list then adds only some of the
        // objects that the watermark of the cleared cache includes.
        let listed = cause != Cause::Changes && self.incomplete.is_none();
        self.cleared = self.status.borrow().cleared || (self.cleared && !listed);
        let is_same_history = !self.lossy && self.restored.is_none() && !self.cleared;
        let known = self.has_versions && is_same_history && !self.may_lack_event();
        let content = match (known, self.incomplete) {
            (true, None) => Content::AtWatermark,
            (true, Some(_)) => Content::NotOlder,
            (false, _) => Content::Unknown,
        };
        (cause, content)
    }

    /// The cache was written to.
    pub(super) fn written(&mut self, seen: WriteEffect) {
        self.changed(&[]);
        self.written = Some(seen);
    }

    /// Judges the last write, which has changed this, and the first sync.
    pub(super) fn changed(&mut self, events: &[Event]) {
        let Some(mut write) = self.written.take() else { return };
        let before = self.mark();
        if let Some(translation) = &mut self.translation {
            translation.translate(before, &mut write, events);
        }
        let WriteEffect { objects, stale, mark, synced, cause, content } = write;
        match content {
            Content::AtWatermark => self.snapshots.exact += 1,
            _ => self.snapshots.inexact += 1,
        }
        let (objects, stale, events) = (&objects, &stale, Some(events));
        self.observe(Observation::Cache(CacheState { objects, stale, mark, events, cause, content }));
        if synced && !mem::replace(&mut self.synced, true) {
            self.observe(Observation::InformerSynced);
        }
    }

    /// The reflector does this from now on.
    pub(super) fn does(&mut self, phase: Phase) {
        if phase != Phase::Watching {
            self.disorder.closed();
        }
        self.budget.does(self.began.elapsed(), phase);
    }

    /// The program requests a relist.
    pub(super) fn asked(&mut self) {
        self.budget.asked(self.began.elapsed());
        self.asked = Some(self.lists);
    }

    /// No further event is lost, and all necessary relists are requested.
    pub(super) fn healed(&mut self) {
        self.healed = Some(self.lists);
    }

    /// Checks that a list completed after the last request.
    pub(super) fn relisted(&self) -> Result<(), Violation> {
        match self.asked.is_none_or(|asked| self.lists > asked) {
            true => Ok(()),
            false => {
                Err(Violation { property: 2, how: "no list followed the request for a relist".to_owned() })
            }
        }
    }

    /// etcd was restored to a version.
    pub(super) fn restored(&mut self, version: u64) {
        self.changed(&[]);
        self.observe(Observation::Restored { version });
        let listing = self.status.borrow().phase == Phase::Listing;
        // A list can have any version, and an incomplete list can be ahead of the watermark. Otherwise,
        // the cache has all events that the informer received.
        if listing || self.incomplete.is_some() || version < self.version() {
            self.restored = Some(Restored { lists: self.lists + u64::from(listing) });
        }
    }

    /// The cache may be of a history that was lost in a restore.
    pub(super) fn may_be_misled(&self) -> bool {
        self.restored.is_some()
    }

    pub(super) fn status(&self) -> ReflectorStatus {
        self.status.borrow().clone()
    }

    /// True if the handler is being called.
    pub(super) fn is_running(&self, handler: HandlerId) -> bool {
        self.judge.past().handlers.get(&handler).is_some_and(|handler| handler.running.is_some())
    }

    /// Returns the last version of the cache.
    pub(super) fn version(&self) -> u64 {
        self.mark().version.unwrap_or(0)
    }

    /// Returns the last watermark of the cache.
    pub(super) fn mark(&self) -> Mark {
        self.judge.past().cache.mark
    }
}

/// An observation on one line.
struct Line<'a>(&'a Observation<'a>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Observation::Cache(shown) => {
                let objects: Vec<String> = shown.objects.iter().map(short).collect();
                let version = shown.mark.version.unwrap_or(0);
                write!(f, "cache   epoch {} version {version} [{}]", shown.mark.epoch, objects.join(" "))?;
                if !shown.stale.is_empty() {
                    write!(f, " stale {:?}", shown.stale)?;
                }
                Ok(())
            }
            Observation::Called { handler, event, .. } => {
                write!(f, "called  handler {handler} ")?;
                match event {
                    Event::Added { object, initial: true } => write!(f, "! {}", short(object)),
                    Event::Added { object, .. } => write!(f, "+ {}", short(object)),
                    Event::Updated { old, new } => write!(f, "~ {} was {}", short(new), short(old)),
                    Event::Deleted { last, removal: Removal::FinalStateUnknown } => {
                        write!(f, "? {}", short(last))
                    }
                    Event::Deleted { last, .. } => write!(f, "- {}", short(last)),
                }
            }
            Observation::Written { object, decodable } => {
                write!(f, "server  wrote {}{}", short(object), if *decodable { "" } else { " undecodable" })
            }
            Observation::Deleted { key, version } => write!(f, "server  erased key {key} at {version}"),
            other => write!(f, "        {other:?}"),
        }
    }
}

fn short(object: &Object) -> String {
    format!("{}:u{}@{}={}", object.key, object.uid, object.version, object.value)
}
