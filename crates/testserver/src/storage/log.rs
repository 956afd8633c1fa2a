//! The versioned log and what it adds up to: for each resource the objects as they are and the events that made
//! them so, under one global revision. Plain data: no locks, no clock of its own.
//!
//! Invariants, per table: the log is ordered by revision; every event after `floor` is in it; the objects are the
//! result of all events. So the state at any revision from `floor` on is the objects with later events undone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use crate::storage::entry::{Change, Draft, Entry};
use crate::storage::snapshot::Snapshot;

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

/// How much history is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    /// At most so many events for each resource.
    pub events: usize,
    /// None older than this.
    pub age: Option<Duration>,
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
    floor: u64,
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
        Self { objects: BTreeMap::new(), log: VecDeque::new(), floor: 0, reread: 0, closed: false, signal }
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

    /// The events after `revision`, oldest first.
    pub(crate) fn after(&self, revision: u64) -> Result<impl Iterator<Item = &Event>, Compacted> {
        if revision < self.floor {
            return Err(Compacted { floor: self.floor });
        }
        let start = self.log.partition_point(|event| event.revision() <= revision);
        Ok(self.log.range(start..))
    }

    /// The objects as they were at `revision`.
    pub(crate) fn at(&self, revision: u64) -> Result<Snapshot<'_>, Compacted> {
        let mut undone = BTreeMap::new();
        for event in self.after(revision)? {
            undone.entry(event.object.key().clone()).or_insert_with(|| event.previous.clone());
        }
        Ok(Snapshot::new(&self.objects, undone))
    }

    fn append(&mut self, event: Event, retention: Retention) {
        let now = event.at;
        self.log.push_back(event);
        self.trim(now, retention);
        self.signal.send_replace(());
    }

    fn trim(&mut self, now: Instant, retention: Retention) {
        let old = |event: &Event| retention.age.is_some_and(|age| event.at + age <= now);
        while self.log.len() > retention.events || self.log.front().is_some_and(old) {
            let Some(event) = self.log.pop_front() else { break };
            self.floor = event.revision();
        }
    }

    /// Undoes everything after `revision`, which must not be before `floor`.
    fn restore(&mut self, revision: u64) {
        while self.log.back().is_some_and(|event| event.revision() > revision) {
            let Some(event) = self.log.pop_back() else { break };
            let key = event.object.key().clone();
            match event.previous {
                Some(previous) => self.objects.insert(key, previous),
                None => self.objects.remove(&key),
            };
        }
    }

    fn compact(&mut self, revision: u64) {
        while self.log.front().is_some_and(|event| event.revision() <= revision) {
            self.log.pop_front();
        }
        self.floor = self.floor.max(revision);
    }
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

/// Every table under the one revision that each write raises.
#[derive(Debug)]
pub(crate) struct Store {
    /// What changed since it was last taken, where somebody takes it.
    changes: Option<Vec<Changed>>,
    revision: u64,
    tables: Vec<Table>,
    retention: Retention,
}

impl Store {
    pub(crate) fn new(retention: Retention) -> Self {
        Self { changes: None, revision: 1, tables: Vec::new(), retention }
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
        self.revision += 1;
        let (revision, retention) = (self.revision, self.retention);
        let table = self.table_mut(id);
        let key = draft.essentials.key.clone();
        let previous = table.objects.get(&key).cloned();
        let change = if previous.is_some() { Change::Modified } else { Change::Added };
        let object = Arc::new(draft.seal(change, revision));
        table.objects.insert(key, object.clone());
        table.append(Event { change, object: object.clone(), previous, at: Instant::now() }, retention);
        self.changed(|| Changed::Put(id, object.clone()));
        object
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
        self.revision += 1;
        let (revision, retention) = (self.revision, self.retention);
        let object = Arc::new(previous.again(Change::Deleted, revision));
        let event = Event {
            change: Change::Deleted,
            object: object.clone(),
            previous: Some(previous),
            at: Instant::now(),
        };
        self.table_mut(id).append(event, retention);
        self.changed(|| Changed::Removed(object.clone()));
        Some(object)
    }

    /// Goes back to `revision`: everything after it has never been.
    pub(crate) fn restore(&mut self, revision: u64) -> Result<(), Compacted> {
        let floor = self.tables.iter().map(|table| table.floor).max().unwrap_or(0);
        if revision < floor {
            return Err(Compacted { floor });
        }
        for table in &mut self.tables {
            table.restore(revision);
        }
        self.revision = self.revision.min(revision);
        self.changed(|| Changed::Everything);
        Ok(())
    }

    /// Forgets the history up to and including `revision`.
    pub(crate) fn compact(&mut self, revision: u64) {
        let revision = revision.min(self.revision);
        for table in &mut self.tables {
            table.compact(revision);
        }
    }

    /// Forgets what is older than the retention allows now. Needed before reads only where history ages.
    pub(crate) fn age(&mut self) {
        let (now, retention) = (Instant::now(), self.retention);
        for table in &mut self.tables {
            table.trim(now, retention);
        }
    }

    pub(crate) fn ages(&self) -> bool {
        self.retention.age.is_some()
    }
}

#[cfg(test)]
mod tests;
