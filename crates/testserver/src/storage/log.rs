//! The versioned log: the tables of all resources under one global revision, and the watch caches that
//! follow it. Plain data, without locks and without a clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use crate::storage::entry::{Change, Draft, Entry};
pub(crate) use crate::storage::table::{Compacted, Event, Key, Retention, Table, Window};
use crate::storage::watch_cache::{CacheId, CacheView, Lag, WatchCache};

/// Identifies the table of a resource. A number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Lists,
    Watches,
    Both,
}

/// Returns the key of an object with this namespace and name.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> Key {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}").into(),
        None => name.into(),
    }
}

/// A change to the stored objects, processed in the same write.
#[derive(Clone, Debug)]
pub(crate) enum StoreChange {
    Put(TableId, Arc<Entry>),
    Removed(Arc<Entry>),
    /// A restore, after which any object may differ.
    Everything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreadableState {
    pub revision: u64,
    number: u64,
}

/// The highest revision to which a bump without writes can raise the revision, so that later writes
/// cannot overflow.
const HIGHEST: u64 = 1 << 62;

/// The number of closed tables that keep their history for a restore.
pub(crate) const CLOSED_TABLES: usize = 64;

/// All tables under one revision, which each write increases.
#[derive(Debug)]
pub(crate) struct Store {
    /// The changes since they were last taken. `None` if no consumer exists.
    changes: Option<Vec<StoreChange>>,
    revision: u64,
    tables: Vec<Table>,
    caches: BTreeMap<CacheId, WatchCache>,
    last_cache: CacheId,
    /// The undecodable states by revision. A restore can reuse a revision, so each damage also has a
    /// unique number.
    undecodable: BTreeMap<u64, u64>,
    damages: u64,
    /// The earliest revision to which a restore may return.
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

    /// Serves a table again. A closed table starts a new incarnation. etcd also keeps the history of a name.
    pub(crate) fn open(&mut self, id: TableId) -> u32 {
        let revision = self.revision;
        let table = self.table_mut(id);
        if table.closed.take().is_some() {
            table.incarnation += 1;
            table.opened = revision;
        }
        table.incarnation
    }

    /// Stops serving a table, and wakes its watches.
    pub(crate) fn close(&mut self, id: TableId) {
        let revision = self.revision;
        let table = self.table_mut(id);
        table.closed.get_or_insert(revision);
        table.signal.send();
    }

    /// Drops the history of closed tables, except for the tables that were closed last.
    pub(crate) fn forget_closed(&mut self) {
        let mut closed: Vec<(u64, &mut Table)> = self
            .tables
            .iter_mut()
            .filter(|table| !table.log.is_empty())
            .filter_map(|table| Some((table.closed?, table)))
            .collect();
        closed.sort_by_key(|(revision, _)| std::cmp::Reverse(*revision));
        for (revision, table) in closed.into_iter().skip(CLOSED_TABLES) {
            table.forget(revision);
        }
    }

    pub(crate) fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0]
    }

    pub(crate) fn table_mut(&mut self, id: TableId) -> &mut Table {
        &mut self.tables[id.0]
    }

    /// Starts to collect changes. The caller must then call `take_changes` after each write.
    pub(crate) fn keep_changes(&mut self) {
        self.changes = Some(Vec::new());
    }

    pub(crate) fn take_changes(&mut self) -> Vec<StoreChange> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn changed(&mut self, change: impl FnOnce() -> StoreChange) {
        if let Some(changes) = &mut self.changes {
            changes.push(change());
        }
    }

    pub(crate) fn put(&mut self, id: TableId, draft: Draft) -> Arc<Entry> {
        let key = draft.essentials.key.clone();
        let revision = self.revision + 1;
        let previous = self.table(id).objects.get(&key).cloned();
        let change = if previous.is_some() { Change::Modified } else { Change::Added };
        let object = Arc::new(draft.seal(change, revision));
        self.table_mut(id).objects.insert(key, object.clone());
        self.append(id, change, object.clone(), previous);
        self.changed(|| StoreChange::Put(id, object.clone()));
        object
    }

    pub(crate) fn corrupt(&mut self, id: TableId, key: &str) -> Option<UnreadableState> {
        let previous = self.table(id).objects.get(key).cloned()?;
        let object = Arc::new(previous.with_change(Change::Modified, self.revision + 1));
        self.table_mut(id).objects.insert(object.key().clone(), object.clone());
        self.damages += 1;
        let damage = UnreadableState { revision: object.revision, number: self.damages };
        self.undecodable.insert(damage.revision, damage.number);
        self.append(id, Change::Modified, object.clone(), Some(previous));
        self.changed(|| StoreChange::Put(id, object));
        Some(damage)
    }

    pub(crate) fn heal(&mut self, damage: UnreadableState) {
        if self.undecodable.get(&damage.revision) == Some(&damage.number) {
            self.undecodable.remove(&damage.revision);
        }
    }

    pub(crate) fn decodes(&self, entry: &Entry) -> bool {
        self.undecodable.is_empty() || !self.undecodable.contains_key(&entry.revision)
    }

    pub(crate) fn decodes_event(&self, event: &Event) -> bool {
        self.decodes(&event.object) && event.previous.as_ref().is_none_or(|previous| self.decodes(previous))
    }

    /// Rewrites all objects of a table without a change of their resourceVersions. No watch can start
    /// from an earlier revision, because older events have the old form.
    pub(crate) fn reread(&mut self, id: TableId, read: impl Fn(&Entry) -> Draft) {
        let revision = self.revision;
        let table = self.table_mut(id);
        for entry in table.objects.values_mut() {
            *entry = Arc::new(read(entry).seal(Change::Modified, entry.revision));
        }
        table.reread = revision;
    }

    /// Removes an object. Returns its last state with the revision of the delete.
    pub(crate) fn remove(&mut self, id: TableId, key: &str) -> Option<Arc<Entry>> {
        let previous = self.table_mut(id).objects.remove(key)?;
        let object = Arc::new(previous.with_change(Change::Deleted, self.revision + 1));
        self.append(id, Change::Deleted, object.clone(), Some(previous));
        self.changed(|| StoreChange::Removed(object.clone()));
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
        table.signal.send();
    }

    pub(crate) fn begin(&mut self) {
        self.first = self.revision;
    }

    /// Restores the state at `revision` if it is older than the current one, and discards all later
    /// history. Watch caches restart from there.
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
        self.changed(|| StoreChange::Everything);
        Ok(())
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.tables.iter().map(|table| table.start).fold(self.first, u64::max)
    }

    /// Raises the revision to `revision` without a write. Has no effect if the revision is higher.
    pub(crate) fn advance_to(&mut self, revision: u64) {
        self.revision = self.revision.max(revision.min(HIGHEST));
    }

    /// Raises the revision without a write, and drops the history up to the new revision.
    pub(crate) fn bump(&mut self, by: u64) {
        self.revision = self.revision.saturating_add(by).min(HIGHEST.max(self.revision));
        let revision = self.revision;
        self.caches.values_mut().for_each(|cache| cache.restart(revision));
        self.expire(Expiry::Both, revision);
    }

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

    /// Drops history that exceeds the retention. Before a read, this is necessary only if the history
    /// has a maximum age.
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

    fn sights(&self, now: Instant) -> Vec<CacheView> {
        self.caches.values().map(|cache| cache.sight(self.revision, now)).collect()
    }

    /// Returns the events of a table that a watch cache can see. For an unknown cache, returns all
    /// events.
    fn sight(&self, id: TableId, cache: CacheId) -> CacheView {
        let now = Instant::now();
        let all = CacheView { seen: self.revision, born: 0, clock: Some(now) };
        let sight = self.cache(cache).map_or(all, |cache| cache.sight(self.revision, now));
        CacheView { seen: self.position_of(id, cache, now), ..sight }
    }

    /// Checks that a watch of this table can start from `revision` in this cache.
    pub(crate) fn check_start(&self, id: TableId, cache: CacheId, revision: u64) -> Result<(), Compacted> {
        let sight = self.sight(id, cache);
        let floor = self.table(id).dropped_until(sight, self.retention.watches).max(sight.born);
        if revision < floor { Err(Compacted { floor }) } else { Ok(()) }
    }

    /// Returns the events after `revision` that this cache has seen, oldest first. Fails if the cache has
    /// dropped some of these events.
    pub(crate) fn events(
        &self,
        id: TableId,
        cache: CacheId,
        revision: u64,
    ) -> Result<impl Iterator<Item = &Event> + Clone, Compacted> {
        let (table, sight) = (self.table(id), self.sight(id, cache));
        let left = table.dropped_until(sight, self.retention.watches);
        let events = table.tail(revision);
        // An open watch has seen all events if its table did not change.
        if revision < left || events.clone().next().is_some_and(|event| event.revision() <= sight.born) {
            return Err(Compacted { floor: left.max(sight.born) });
        }
        Ok(events.take_while(move |event| event.revision() <= sight.seen))
    }

    fn wake(&self) {
        for table in &self.tables {
            table.signal.send();
        }
    }

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

    /// Changes the lag of a watch cache. The position of the cache does not move back.
    pub(crate) fn lag(&mut self, id: CacheId, lag: Lag) {
        let revision = self.revision;
        if let Some(cache) = self.caches.get_mut(&id) {
            cache.set_lag(lag, revision, Instant::now());
        }
        self.wake();
    }

    /// Restarts a watch cache. The cache drops all events and reads the current state.
    pub(crate) fn restart_cache(&mut self, id: CacheId) {
        let revision = self.revision;
        if let Some(cache) = self.caches.get_mut(&id) {
            cache.restart(revision);
        }
        self.wake();
    }

    pub(crate) fn position(&self, id: CacheId, now: Instant) -> u64 {
        self.cache(id).map_or(self.revision, |cache| cache.position(self.revision, now))
    }

    /// Returns the latest revision of a table that a watch cache has seen. This is at least the revision
    /// at which the table was last rewritten.
    pub(crate) fn position_of(&self, id: TableId, cache: CacheId, now: Instant) -> u64 {
        self.position(cache, now).max(self.table(id).reread.min(self.revision))
    }
}

#[cfg(test)]
mod tests;
