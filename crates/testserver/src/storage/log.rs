//! The versioned log and what it adds up to: for each resource the objects as they are and the events that made
//! them so, under one global revision. Plain data: no locks, no clock of its own.
//!
//! Invariants, per table: the log is ordered by revision; every event after `start` is in it; the objects are the
//! result of all events. So the state at any revision from `start` on is the objects with later events undone. What
//! may be asked for is less: lists end at what etcd has compacted, watches at what the watch cache remembers.

use std::collections::vec_deque::Iter;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use crate::storage::entry::{Change, Draft, Entry};
use crate::storage::snapshot::Snapshot;
use crate::storage::watch_cache::{CacheId, Lag, Sight, WatchCache};

/// `namespace/name`, or `name` for cluster-scoped objects: the order in which lists go.
pub(crate) type Key = Arc<str>;

/// A resource's place in the store. Never used again for another resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableId(usize);

/// A change as watchers see it.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub change: Change,
    /// The state after the change; for a delete the last state with the delete's revision.
    pub object: Arc<Entry>,
    pub previous: Option<Arc<Entry>>,
    at: Instant,
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
    objects: BTreeMap<Key, Arc<Entry>>,
    log: VecDeque<Event>,
    /// The log holds everything after this revision.
    start: u64,
    /// Lists are of this revision or later.
    lists_from: u64,
    /// When the objects were last written anew; watches start there at the earliest.
    pub reread: u64,
    /// No longer served: watches drain the log and end.
    pub closed: bool,
    /// Wakes the watchers of this table; carries nothing.
    pub signal: watch::Sender<()>,
}

impl Table {
    fn new() -> Self {
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
    fn left(&self, sight: Sight, window: Window) -> u64 {
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

    fn tail(&self, revision: u64) -> Iter<'_, Event> {
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
    fn trim(&mut self, retention: Retention, revision: u64, now: Instant, caches: &[Sight]) {
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
    fn restore(&mut self, revision: u64) {
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

/// Which history is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// What etcd remembers.
    Lists,
    /// What the watch caches remember.
    Watches,
    Both,
}

/// Where an object with this namespace and name is.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> Key {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}").into(),
        None => name.into(),
    }
}

/// Something that happened to the objects, for whoever acts on it in the same write.
#[derive(Clone, Debug)]
pub(crate) enum Changed {
    Put(TableId, Arc<Entry>),
    Removed(Arc<Entry>),
    /// Time went back: anything may be different.
    Everything,
}

/// What was written at this revision can't be read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub revision: u64,
    number: u64,
}

/// The revision is never raised beyond this without writes, so that none overflows.
const HIGHEST: u64 = 1 << 62;

/// Every table under the one revision that each write raises.
#[derive(Debug)]
pub(crate) struct Store {
    /// What changed since it was last taken, where somebody takes it.
    changes: Option<Vec<Changed>>,
    revision: u64,
    tables: Vec<Table>,
    caches: BTreeMap<CacheId, WatchCache>,
    last_cache: CacheId,
    /// What can't be read back, by its revision. That may be given again, so each damage has a number of its own.
    undecodable: BTreeMap<u64, u64>,
    damages: u64,
    /// There is no going back beyond this.
    first: u64,
    retention: Retention,
}

impl Store {
    pub(crate) fn new(retention: Retention) -> Self {
        let caches = BTreeMap::from([(CacheId::MAIN, WatchCache::new(Lag::None, 0))]);
        Self {
            changes: None,
            revision: 1,
            tables: Vec::new(),
            caches,
            last_cache: CacheId::MAIN,
            undecodable: BTreeMap::new(),
            damages: 0,
            first: 1,
            retention,
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn add_table(&mut self) -> TableId {
        self.tables.push(Table::new());
        TableId(self.tables.len() - 1)
    }

    pub(crate) fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0]
    }

    pub(crate) fn table_mut(&mut self, id: TableId) -> &mut Table {
        &mut self.tables[id.0]
    }

    /// From now on changes are kept until they are taken, which must be after each write.
    pub(crate) fn keep_changes(&mut self) {
        self.changes = Some(Vec::new());
    }

    /// What changed since the last time.
    pub(crate) fn take_changes(&mut self) -> Vec<Changed> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn changed(&mut self, change: impl FnOnce() -> Changed) {
        if let Some(changes) = &mut self.changes {
            changes.push(change());
        }
    }

    /// Stores an object, new or changed.
    pub(crate) fn put(&mut self, id: TableId, draft: Draft) -> Arc<Entry> {
        let key = draft.essentials.key.clone();
        let revision = self.revision + 1;
        let previous = self.table(id).objects.get(&key).cloned();
        let change = if previous.is_some() { Change::Modified } else { Change::Added };
        let object = Arc::new(draft.seal(change, revision));
        self.table_mut(id).objects.insert(key, object.clone());
        self.append(id, change, object.clone(), previous);
        self.changed(|| Changed::Put(id, object.clone()));
        object
    }

    /// Stores an object once more, as it is, but so that it can't be read back.
    pub(crate) fn corrupt(&mut self, id: TableId, key: &str) -> Option<Damage> {
        let previous = self.table(id).objects.get(key).cloned()?;
        let object = Arc::new(previous.again(Change::Modified, self.revision + 1));
        self.table_mut(id).objects.insert(object.key().clone(), object.clone());
        self.damages += 1;
        let damage = Damage { revision: object.revision, number: self.damages };
        self.undecodable.insert(damage.revision, damage.number);
        self.append(id, Change::Modified, object.clone(), Some(previous));
        self.changed(|| Changed::Put(id, object));
        Some(damage)
    }

    /// What was damaged so can be read again.
    pub(crate) fn heal(&mut self, damage: Damage) {
        if self.undecodable.get(&damage.revision) == Some(&damage.number) {
            self.undecodable.remove(&damage.revision);
        }
    }

    pub(crate) fn decodes(&self, entry: &Entry) -> bool {
        self.undecodable.is_empty() || !self.undecodable.contains_key(&entry.revision)
    }

    /// Whether both states of an event can be read.
    pub(crate) fn decodes_event(&self, event: &Event) -> bool {
        self.decodes(&event.object) && event.previous.as_ref().is_none_or(|previous| self.decodes(previous))
    }

    /// Writes all objects of a table anew, without a change: their versions stay. What happened before was written
    /// the old way, so no watch may start there any more.
    pub(crate) fn reread(&mut self, id: TableId, read: impl Fn(&Entry) -> Draft) {
        let revision = self.revision;
        let table = self.table_mut(id);
        for entry in table.objects.values_mut() {
            *entry = Arc::new(read(entry).seal(Change::Modified, entry.revision));
        }
        table.reread = revision;
    }

    /// Removes an object; gives its last state with the revision of the delete.
    pub(crate) fn remove(&mut self, id: TableId, key: &str) -> Option<Arc<Entry>> {
        let previous = self.table_mut(id).objects.remove(key)?;
        let object = Arc::new(previous.again(Change::Deleted, self.revision + 1));
        self.append(id, Change::Deleted, object.clone(), Some(previous));
        self.changed(|| Changed::Removed(object.clone()));
        Some(object)
    }

    fn append(&mut self, id: TableId, change: Change, object: Arc<Entry>, previous: Option<Arc<Entry>>) {
        let at = Instant::now();
        self.revision = object.revision;
        for cache in self.caches.values_mut() {
            cache.wrote(self.revision, at);
        }
        let (sights, retention, revision) = (self.sights(at), self.retention, self.revision);
        let table = self.table_mut(id);
        table.log.push_back(Event { change, object, previous, at });
        table.trim(retention, revision, at, &sights);
        table.signal.send_replace(());
    }

    /// What is there now was there from the start.
    pub(crate) fn begin(&mut self) {
        self.first = self.revision;
    }

    /// Goes back to `revision`, if it is not the present one or later: everything after it has never been. Watch caches
    /// start anew there.
    pub(crate) fn restore(&mut self, revision: u64) -> Result<(), Compacted> {
        let (floor, revision) = (self.oldest(), revision.min(self.revision));
        if revision < floor {
            return Err(Compacted { floor });
        }
        for table in &mut self.tables {
            table.restore(revision);
        }
        self.revision = revision;
        self.undecodable.retain(|at, _| *at <= revision);
        self.caches.values_mut().for_each(|cache| cache.restart(revision));
        self.changed(|| Changed::Everything);
        Ok(())
    }

    /// The earliest revision whose state is known.
    pub(crate) fn oldest(&self) -> u64 {
        self.tables.iter().map(|table| table.start).fold(self.first, u64::max)
    }

    /// Raises the revision without a write, and forgets all history up to it.
    pub(crate) fn bump(&mut self, by: u64) {
        self.revision = self.revision.saturating_add(by).min(HIGHEST.max(self.revision));
        let revision = self.revision;
        self.caches.values_mut().for_each(|cache| cache.restart(revision));
        self.expire(Expiry::Both, revision);
    }

    /// Forgets history up to and including `revision`.
    pub(crate) fn expire(&mut self, expiry: Expiry, revision: u64) {
        let (expired, now, revision) = (revision.min(self.revision), Instant::now(), self.revision);
        if matches!(expiry, Expiry::Lists | Expiry::Both) {
            self.tables.iter_mut().for_each(|table| table.lists_from = table.lists_from.max(expired));
        }
        if matches!(expiry, Expiry::Watches | Expiry::Both) {
            self.caches.values_mut().for_each(|cache| cache.forget(expired, revision, now));
        }
        self.age();
    }

    /// Forgets what is older than the retention allows now. Needed before reads only where history ages.
    pub(crate) fn age(&mut self) {
        let (now, retention, revision) = (Instant::now(), self.retention, self.revision);
        let sights = self.sights(now);
        for table in &mut self.tables {
            table.trim(retention, revision, now, &sights);
        }
    }

    pub(crate) fn ages(&self) -> bool {
        self.retention.watches.age.is_some() || self.retention.lists.age.is_some()
    }

    fn sights(&self, now: Instant) -> Vec<Sight> {
        self.caches.values().map(|cache| cache.sight(self.revision, now)).collect()
    }

    /// How far a watch cache sees; one of another store sees everything.
    fn sight(&self, id: CacheId) -> Sight {
        let now = Instant::now();
        let all = Sight { seen: self.revision, born: 0, clock: Some(now) };
        self.cache(id).map_or(all, |cache| cache.sight(self.revision, now))
    }

    /// Whether a watch of this table can start from `revision` in this cache.
    pub(crate) fn check_start(&self, id: TableId, cache: CacheId, revision: u64) -> Result<(), Compacted> {
        let sight = self.sight(cache);
        let floor = self.table(id).left(sight, self.retention.watches).max(sight.born);
        if revision < floor { Err(Compacted { floor }) } else { Ok(()) }
    }

    /// The events after `revision` that this cache has seen, oldest first, unless it has forgotten some of them.
    pub(crate) fn events(
        &self,
        id: TableId,
        cache: CacheId,
        revision: u64,
    ) -> Result<impl Iterator<Item = &Event> + Clone, Compacted> {
        let (table, sight) = (self.table(id), self.sight(cache));
        let left = table.left(sight, self.retention.watches);
        let events = table.tail(revision);
        // A watch that is open has missed nothing where nothing happened to its table.
        if revision < left || events.clone().next().is_some_and(|event| event.revision() <= sight.born) {
            return Err(Compacted { floor: left.max(sight.born) });
        }
        Ok(events.take_while(move |event| event.revision() <= sight.seen))
    }

    /// Wakes the watchers of all tables.
    fn wake(&self) {
        for table in &self.tables {
            table.signal.send_replace(());
        }
    }

    /// A watch cache that has lagged like this all along.
    pub(crate) fn add_cache(&mut self, lag: Lag) -> CacheId {
        let seen = if lag == Lag::Frozen { self.revision } else { self.oldest() };
        let mut cache = WatchCache::new(lag, seen);
        let mut writes: Vec<_> = self.tables.iter().flat_map(|table| &table.log).collect();
        writes.sort_by_key(|event| event.revision());
        writes.iter().for_each(|event| cache.wrote(event.revision(), event.at));
        self.last_cache = self.last_cache.next();
        self.caches.insert(self.last_cache, cache);
        self.last_cache
    }

    pub(crate) fn remove_cache(&mut self, id: CacheId) {
        self.caches.remove(&id);
    }

    pub(crate) fn cache(&self, id: CacheId) -> Option<&WatchCache> {
        self.caches.get(&id)
    }

    /// Lets a watch cache lag from now on; what it has seen it does not forget.
    pub(crate) fn lag(&mut self, id: CacheId, lag: Lag) {
        let revision = self.revision;
        if let Some(cache) = self.caches.get_mut(&id) {
            cache.set_lag(lag, revision, Instant::now());
        }
        self.wake();
    }

    /// A watch cache forgets all, and reads the present state.
    pub(crate) fn restart_cache(&mut self, id: CacheId) {
        let revision = self.revision;
        if let Some(cache) = self.caches.get_mut(&id) {
            cache.restart(revision);
        }
        self.wake();
    }

    /// What a watch cache has seen.
    pub(crate) fn position(&self, id: CacheId, now: Instant) -> u64 {
        self.cache(id).map_or(self.revision, |cache| cache.position(self.revision, now))
    }
}

#[cfg(test)]
mod tests;
