//! Holds the objects of one resource, and the events that produced these objects.
//!
//! Invariants: the log is ordered by revision, and contains every event after `start`. The objects are
//! the result of all events. The state at a revision from `start` on is therefore the current objects
//! with the later events undone. Lists can read only revisions that etcd has not compacted. Watches can
//! start only within the history of the watch cache.

use std::collections::vec_deque::Iter;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::time::{Duration, Instant};

use crate::storage::entry::{Change, Entry};
use crate::storage::signal::Signal;
use crate::storage::snapshot::Snapshot;
use crate::storage::watch_cache::CacheView;

/// The key of an object: `namespace/name`, or `name` for cluster-scoped objects. Lists have the order of
/// the keys.
pub(crate) type Key = Arc<str>;

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub change: Change,
    /// The state after the change. For a delete, this is the last state with the revision of the delete.
    pub object: Arc<Entry>,
    pub previous: Option<Arc<Entry>>,
    pub(super) at: Instant,
}

impl Event {
    pub(crate) fn revision(&self) -> u64 {
        self.object.revision
    }
}

/// The bounds of one kind of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The maximum number of events per resource.
    pub events: usize,
    /// The maximum age of an event.
    pub age: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// The events in the watch cache. Watches can start from these events.
    pub watches: Window,
    /// The history that etcd has not compacted. Lists can read this history.
    pub lists: Window,
}

/// Reports that the requested history was dropped. `floor` is the oldest revision with a complete
/// history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compacted {
    pub floor: u64,
}

/// All objects of one resource and their recent history.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) objects: BTreeMap<Key, Arc<Entry>>,
    pub(super) log: VecDeque<Event>,
    /// The log contains all events after this revision.
    pub(super) start: u64,
    /// The oldest revision that lists can read.
    pub(super) lists_from: u64,
    /// The revision at which the objects were last rewritten. Watches cannot start from an earlier
    /// revision.
    pub reread: u64,
    /// The revision at which the resource was no longer served. Watches then read the remaining log and
    /// close. `None` if the resource is served.
    pub(super) closed: Option<u64>,
    /// The number of times that the resource was served again. Watches and requests of an earlier
    /// incarnation must not see the current objects.
    pub incarnation: u32,
    /// The revision at which the current incarnation started.
    pub(super) opened: u64,
    /// Wakes the watchers of this table.
    pub signal: Signal,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            start: 0,
            lists_from: 0,
            reread: 0,
            closed: None,
            incarnation: 0,
            opened: 0,
            signal: Signal::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn has_history(&self) -> bool {
        !self.log.is_empty()
    }

    /// Returns whether this incarnation of the resource is served.
    pub(crate) fn serves(&self, incarnation: u32) -> bool {
        self.closed.is_none() && self.incarnation == incarnation
    }

    /// Returns the last revision that an incarnation can see, if the incarnation has ended.
    pub(crate) fn end_of(&self, incarnation: u32) -> Option<u64> {
        match self.incarnation.checked_sub(incarnation) {
            Some(0) => None,
            Some(1) => Some(self.opened),
            // The events of the incarnations in between belong to other resources.
            _ => Some(0),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.objects.get(key)
    }

    pub(crate) fn objects(&self) -> &BTreeMap<Key, Arc<Entry>> {
        &self.objects
    }

    /// Returns the keys with this prefix and their states, in order.
    pub(crate) fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Key, &'a Arc<Entry>)> {
        let from: Key = prefix.into();
        self.objects.range(from..).take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Returns the revision up to which events have left the window of a watch cache. The lag extends the
    /// window.
    pub(super) fn dropped_until(&self, sight: CacheView, window: Window) -> u64 {
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

    /// Returns the events after `revision` that the log still contains, oldest first.
    pub(crate) fn tail(&self, revision: u64) -> Iter<'_, Event> {
        self.log.range(self.log.partition_point(|event| event.revision() <= revision)..)
    }

    pub(crate) fn at(&self, revision: u64) -> Result<Snapshot<'_>, Compacted> {
        if revision < self.lists_from {
            return Err(Compacted { floor: self.lists_from });
        }
        Ok(self.then(revision))
    }

    /// Returns the objects at `revision`, which must not be before `start`. The events that a watch cache
    /// has not seen are always kept.
    pub(crate) fn then(&self, revision: u64) -> Snapshot<'_> {
        let mut undone = BTreeMap::new();
        for event in self.tail(revision) {
            undone.entry(event.object.key().clone()).or_insert_with(|| event.previous.clone());
        }
        Snapshot::new(&self.objects, undone)
    }

    /// Returns an object at `revision`, which must not be before `start`.
    pub(crate) fn get_at(&self, key: &str, revision: u64) -> Option<&Arc<Entry>> {
        match self.tail(revision).find(|event| &**event.object.key() == key) {
            Some(later) => later.previous.as_ref(),
            None => self.get(key),
        }
    }

    /// Ages both histories, and drops events that neither lists nor a watch cache can read.
    pub(super) fn trim(&mut self, retention: Retention, revision: u64, now: Instant, caches: &[CacheView]) {
        let etcd = CacheView { seen: revision, born: 0, clock: Some(now) };
        self.lists_from = self.lists_from.max(self.dropped_until(etcd, retention.lists));
        let kept = caches.iter().map(|sight| self.dropped_until(*sight, retention.watches).max(sight.born));
        let keep_from = kept.min().unwrap_or(revision).min(self.lists_from);
        while self.log.front().is_some_and(|event| event.revision() <= keep_from) {
            let Some(event) = self.log.pop_front() else { break };
            self.start = event.revision();
        }
    }

    /// Drops the history of a closed table, which is empty since `revision`. No earlier state can then be
    /// restored.
    pub(super) fn forget(&mut self, revision: u64) {
        self.log = VecDeque::new();
        self.start = revision;
        self.lists_from = revision;
    }

    /// Undoes all events after `revision`, which must not be before `start`.
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
