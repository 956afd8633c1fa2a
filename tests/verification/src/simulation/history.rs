//! What was seen of one seed: a judge for each informer, and lines for those who want to read it.

use std::{collections::BTreeMap, fmt, mem, sync::Arc, time::Duration};

use fastrand::Rng;
use kube_informer::{Phase, ReflectorOptions, ReflectorStatus, StoreStats};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::{Broken, budget::Budget, scope::Scope};
use crate::properties::{
    CacheState, Cause, Event, HandlerId, Judge, Key, Mark, Object, Observation, Violation,
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

/// Lines with their time; none are kept unless somebody wants to read them.
#[derive(Debug, Default)]
pub(super) struct Lines(Option<Vec<(Duration, String)>>);

impl Lines {
    pub(super) fn new(wanted: bool) -> Self {
        Self(wanted.then(Vec::new))
    }

    pub(super) fn say(&mut self, at: Duration, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push((at, line()));
        }
    }

    pub(super) fn take(&mut self) -> Vec<(Duration, String)> {
        self.0.take().unwrap_or_default()
    }
}

/// All that was observed of one informer.
pub(super) struct Desk {
    pub(super) scope: Scope,
    pub(super) uids: Uids,
    pub(super) lines: Lines,
    /// What did not hold first.
    pub(super) violation: Option<Broken>,
    pub(super) budget: Budget,
    /// Until all is healed, what was given to the informer panics now and then.
    pub(super) panics: Option<Rng>,
    position: Position,
    /// Events may have been lost.
    pub(super) lossy: bool,
    pub(super) snapshots: Snapshots,
    /// etcd was restored, and the cache may be of the lost history.
    restored: Option<Restored>,
    /// The resource was gone, and the cache may be cleared for that.
    cleared: bool,
    began: Instant,
    judge: Judge,
    status: watch::Receiver<ReflectorStatus>,
    /// The last write of the cache, until it is judged.
    written: Option<Seen>,
    synced: bool,
    /// How many lists the cache had when a relist was asked for last.
    asked: Option<u64>,
    /// How many it had when all was healed.
    healed: Option<u64>,
    /// Of the cache at its last write.
    lists: u64,
    lists_after_lost_history: u64,
}

/// How many states of a cache were held to the server's at their watermark, and how many could not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// Those that could.
    pub exact: u64,
    /// Those that could not: events were lost, or a restored history or a cleared cache was not yet listed anew.
    pub inexact: u64,
}

impl Snapshots {
    /// Adds those of others.
    pub fn add(&mut self, other: Self) {
        self.exact += other.exact;
        self.inexact += other.inexact;
    }
}

impl fmt::Display for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.exact + self.inexact;
        let share = self.exact as f64 / all.max(1) as f64 * 100.0;
        write!(f, "{} of {all} snapshots ({share:.1} %) were held to the server's state", self.exact)
    }
}

/// What a write of the cache has led to.
pub(super) struct Seen {
    pub(super) objects: Vec<Object>,
    pub(super) stale: Vec<Key>,
    pub(super) mark: Mark,
    pub(super) synced: bool,
    pub(super) cause: Cause,
    /// The cache can know all up to its watermark.
    pub(super) exact: bool,
}

/// How far the reflector may be: up to what its source has handed to it.
#[derive(Clone, Copy, Default)]
struct Position {
    mark: Mark,
    /// The version of the first page of the list that is read.
    page: u64,
}

/// The cache is of the new history after a list that reuses nothing and has begun since.
#[derive(Clone, Copy)]
struct Restored {
    /// So many lists of the cache may have begun before.
    lists: u64,
}

impl Desk {
    pub(super) fn new(
        scope: Scope,
        uids: Uids,
        lines: Lines,
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
            position: Position::default(),
            lossy: false,
            snapshots: Snapshots::default(),
            restored: None,
            cleared: false,
            began,
            judge: Judge::new(),
            status: watch::channel(ReflectorStatus::default()).1,
            written: None,
            synced: false,
            asked: None,
            healed: None,
            lists: 0,
            lists_after_lost_history: 0,
        }
    }

    /// Its informer is there.
    pub(super) fn follows(&mut self, status: watch::Receiver<ReflectorStatus>) {
        self.status = status;
    }

    /// Panics, perhaps.
    pub(super) fn may_panic(desk: &Mutex<Self>) {
        let mut desk = desk.lock();
        let panics = desk.panics.as_mut().is_some_and(|rng| rng.u8(..6) == 0);
        if panics {
            desk.budget.panicked();
            let at = desk.began.elapsed();
            desk.lines.say(at, || "on_error panics".to_owned());
            drop(desk);
            // Without the words on standard error that a panic has.
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

    /// An event or bookmark is handed to the reflector.
    pub(super) fn handed(&mut self, version: u64) {
        if Some(version) > self.position.mark.version {
            self.position.mark.version = Some(version);
            self.moved(Cause::Changes);
        }
    }

    /// A page of a list is; `first`, `last` or in between. A consistent list may be of an older version.
    pub(super) fn page(&mut self, version: u64, first: bool, last: bool, consistent: bool) {
        let Position { mark, page } = &mut self.position;
        let version = if first { version } else { *page };
        *page = version;
        if last {
            mark.epoch += u64::from(mark.version > Some(version));
            mark.version = Some(version);
            self.moved(Cause::Relist { fresh: consistent });
        }
    }

    fn moved(&mut self, cause: Cause) {
        let mark = self.position.mark;
        self.observe(Observation::Position { mark, cause });
    }

    /// Judges, until something is broken.
    pub(super) fn observe(&mut self, observation: Observation<'_>) {
        if self.violation.is_some() {
            return;
        }
        let at = self.began.elapsed();
        self.lines.say(at, || format!("{}", Line(&observation)));
        if let Err(violation) = self.judge.observe(observation) {
            self.broken(violation);
        }
    }

    pub(super) fn broken(&mut self, violation: impl Into<Broken>) {
        let (violation, at) = (violation.into(), self.began.elapsed());
        self.lines.say(at, || violation.to_string());
        self.violation.get_or_insert(violation);
    }

    /// What would be broken if this were observed now.
    pub(super) fn try_observe(&self, observation: Observation<'_>) -> Result<(), Violation> {
        self.judge.clone().observe(observation)
    }

    /// What has moved the cache since its last write, and whether it can know all up to its watermark.
    pub(super) fn cause(&mut self, stats: StoreStats) -> (Cause, bool) {
        let before = mem::replace(&mut self.lists, stats.lists);
        let fresh = mem::replace(&mut self.lists_after_lost_history, stats.lists_after_lost_history)
            < stats.lists_after_lost_history;
        if fresh && self.restored.is_some_and(|restored| before >= restored.lists) {
            self.restored = None;
        }
        let cause = if before == stats.lists { Cause::Changes } else { Cause::Relist { fresh } };
        // A list shows what was lost; that no more is lost after it, who asks for it knows.
        self.lossy &= self.healed.is_none_or(|healed| stats.lists <= healed);
        self.cleared = self.status.borrow().cleared || (self.cleared && cause == Cause::Changes);
        let exact = !self.lossy && self.restored.is_none() && !self.cleared;
        match exact {
            true => self.snapshots.exact += 1,
            false => self.snapshots.inexact += 1,
        }
        (cause, exact)
    }

    /// The cache was written to.
    pub(super) fn written(&mut self, seen: Seen) {
        self.changed(&[]);
        self.written = Some(seen);
    }

    /// Judges the last write, which has changed this, and the first sync.
    pub(super) fn changed(&mut self, events: &[Event]) {
        let Some(Seen { objects, stale, mark, synced, cause, exact }) = self.written.take() else { return };
        let (objects, stale, events) = (&objects, &stale, Some(events));
        self.observe(Observation::Cache(CacheState { objects, stale, mark, events, cause, exact }));
        if synced && !mem::replace(&mut self.synced, true) {
            self.observe(Observation::InformerSynced);
        }
    }

    /// The reflector does this from now on.
    pub(super) fn does(&mut self, phase: Phase) {
        self.budget.does(self.began.elapsed(), phase);
    }

    /// Somebody asks for a relist.
    pub(super) fn asked(&mut self) {
        self.budget.asked(self.began.elapsed());
        self.asked = Some(self.lists);
    }

    /// No event is lost any more, and all is asked for that was.
    pub(super) fn healed(&mut self) {
        self.healed = Some(self.lists);
    }

    /// Whether a list has ended since one was asked for.
    pub(super) fn relisted(&self) -> Result<(), Violation> {
        match self.asked.is_none_or(|asked| self.lists > asked) {
            true => Ok(()),
            false => Err(Violation { property: 2, how: "a relist was asked for, and none came".to_owned() }),
        }
    }

    /// etcd was restored to a version.
    pub(super) fn restored(&mut self, version: u64) {
        self.changed(&[]);
        self.observe(Observation::Restored { version });
        let listing = self.status.borrow().phase == Phase::Listing;
        // What a list reads may be of any version; else the cache has all that the informer was told.
        if listing || version < self.version() {
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

    /// Whether the handler is being called.
    pub(super) fn is_running(&self, handler: HandlerId) -> bool {
        self.judge.past().handlers.get(&handler).is_some_and(|handler| handler.running.is_some())
    }

    /// The version that the cache has shown last.
    pub(super) fn version(&self) -> u64 {
        self.judge.past().cache.mark.version.unwrap_or(0)
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
                write!(f, "told    handler {handler} ")?;
                match event {
                    Event::Added { object, initial: true } => write!(f, "! {}", short(object)),
                    Event::Added { object, .. } => write!(f, "+ {}", short(object)),
                    Event::Updated { old, new } => write!(f, "~ {} was {}", short(new), short(old)),
                    Event::Deleted { last, unknown: true } => write!(f, "? {}", short(last)),
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
