//! One resource: its objects as they are, and the events that made them so.
//!
//! Invariants: the log is ordered by revision; every event after `start` is in it; the objects are the result of all
//! events. So the state at any revision from `start` on is the objects with later events undone. What may be asked for is
//! less: lists end at what etcd has compacted, watches at what the watch cache remembers.

use std::collections::vec_deque::Iter;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use crate::storage::entry::{Change, Entry};
use crate::storage::snapshot::Snapshot;
use crate::storage::watch_cache::Sight;

/// `namespace/name`, or `name` for cluster-scoped objects: the order in which lists go.
pub(crate) type Key = Arc<str>;

/// A change as watchers see it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub change: Change,
    /// The state after the change; for a delete the last state with the delete's revision.
    pub object: Arc<Entry>,
    pub previous: Option<Arc<Entry>>,
    pub(super) at: Instant,
}

impl Event {
    pub(crate) fn revision(&self) -> u64 {
        self.object.revision
    }
}

/// How long one kind of history is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// At most so many events for each resource.
    pub events: usize,
    /// None older than this.
    pub age: Option<Duration>,
}

/// How much history is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// What a watch can start from: the window of the watch cache.
    pub watches: Window,
    /// What a list can be of: the history that etcd has not compacted.
    pub lists: Window,
}

/// The history asked for is gone; `floor` is the oldest revision that is still complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compacted {
    pub floor: u64,
}

/// All objects of one resource and their recent history.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) objects: BTreeMap<Key, Arc<Entry>>,
    pub(super) log: VecDeque<Event>,
    /// The log holds everything after this revision.
    pub(super) start: u64,
    /// Lists are of this revision or later.
    pub(super) lists_from: u64,
    /// When the objects were last written anew; watches start there at the earliest.
    pub reread: u64,
    /// No longer served: watches drain the log and end.
    pub closed: bool,
    /// Wakes the watchers of this table; carries nothing.
    pub signal: watch::Sender<()>,
}

impl Table {
    pub(super) fn new() -> Self {
        let signal = watch::Sender::new(());
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            start: 0,
            lists_from: 0,
            reread: 0,
            closed: false,
            signal,
        }
    }

    /// An empty one of the same name, once the objects of this one are deleted: etcd keeps the history of a name.
    pub(super) fn anew(&self) -> Self {
        Self { log: self.log.clone(), start: self.start, lists_from: self.lists_from, ..Self::new() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.objects.get(key)
    }

    pub(crate) fn objects(&self) -> &BTreeMap<Key, Arc<Entry>> {
        &self.objects
    }

    /// Keys and states whose key starts with `prefix`, in order.
    pub(crate) fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Key, &'a Arc<Entry>)> {
        let from: Key = prefix.into();
        self.objects.range(from..).take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// The revision up to which the events have left the window of a watch cache, which is as long as it lags.
    pub(super) fn left(&self, sight: Sight, window: Window) -> u64 {
        let seen = match self.log.back() {
            Some(last) if last.revision() > sight.seen => {
                self.log.partition_point(|event| event.revision() <= sight.seen)
            }
            _ => self.log.len(),
        };
        let revision =
            |count: usize| count.checked_sub(1).and_then(|at| self.log.get(at)).map(Event::revision);
        let surplus = revision(seen.saturating_sub(window.events)).unwrap_or(0);
        let aged = window.age.and_then(|age| {
            let last = || seen.checked_sub(1).and_then(|at| self.log.get(at)).map(|event| event.at);
            let now = sight.clock.or_else(last)?;
            let old =
                self.log.partition_point(|event| event.at.checked_add(age).is_some_and(|end| end <= now));
            revision(old.min(seen))
        });
        surplus.max(aged.unwrap_or(0)).max(self.start)
    }

    pub(super) fn tail(&self, revision: u64) -> Iter<'_, Event> {
        self.log.range(self.log.partition_point(|event| event.revision() <= revision)..)
    }

    /// The objects as they were at `revision`, for a list.
    pub(crate) fn at(&self, revision: u64) -> Result<Snapshot<'_>, Compacted> {
        if revision < self.lists_from {
            return Err(Compacted { floor: self.lists_from });
        }
        Ok(self.then(revision))
    }

    /// The objects as they were at `revision`, which must not be before `start`: what a watch cache is behind by is
    /// kept for it.
    pub(crate) fn then(&self, revision: u64) -> Snapshot<'_> {
        let mut undone = BTreeMap::new();
        for event in self.tail(revision) {
            undone.entry(event.object.key().clone()).or_insert_with(|| event.previous.clone());
        }
        Snapshot::new(&self.objects, undone)
    }

    /// An object as it was at `revision`, which must not be before `start`.
    pub(crate) fn get_then(&self, key: &str, revision: u64) -> Option<&Arc<Entry>> {
        match self.tail(revision).find(|event| &**event.object.key() == key) {
            Some(later) => later.previous.as_ref(),
            None => self.get(key),
        }
    }

    /// Lets both histories age, and drops what is neither in that of lists nor in the window of a watch cache.
    pub(super) fn trim(&mut self, retention: Retention, revision: u64, now: Instant, caches: &[Sight]) {
        let etcd = Sight { seen: revision, born: 0, clock: Some(now) };
        self.lists_from = self.lists_from.max(self.left(etcd, retention.lists));
        let kept = caches.iter().map(|sight| self.left(*sight, retention.watches).max(sight.born));
        let keep_from = kept.min().unwrap_or(revision).min(self.lists_from);
        while self.log.front().is_some_and(|event| event.revision() <= keep_from) {
            let Some(event) = self.log.pop_front() else { break };
            self.start = event.revision();
        }
    }

    /// Undoes everything after `revision`, which must not be before `start`.
    pub(super) fn restore(&mut self, revision: u64) {
        while self.log.back().is_some_and(|event| event.revision() > revision) {
            let Some(event) = self.log.pop_back() else { break };
            let key = event.object.key().clone();
            match event.previous {
                Some(previous) => self.objects.insert(key, previous),
                None => self.objects.remove(&key),
            };
        }
        self.lists_from = self.lists_from.min(revision);
    }
}
