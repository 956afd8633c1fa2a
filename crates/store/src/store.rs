//! `Store`: the indexed cache and its write path.
//!
//! Readers take the latest snapshot, or get an object from the key table. If no snapshot is held, a small
//! batch is written in place. Otherwise, the batch is written to a copy, which then replaces the root.

use std::{
    any::Any,
    hash::Hash,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use kube_object::{
    CacheProbe, Delta, Digest, Entry, Event, Listed, Object, ObjectIdRef, ResourceVersion, VersionTrust,
};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Notify;

use crate::{
    Index, IndexError, Lister, Snapshot, Watermark,
    current::{Current, MAX_IN_PLACE_DELTAS, puts},
    index_functions::{IndexFunction, IndexFunctions},
    new_index::NewIndex,
    reentrancy::{self, REFUSED, WriteMark},
    replace::Relist,
    root::{ApplyOutcome, Root, StateSource, WriteBatch},
    shard::hold,
    touches::LockedTouches,
};

/// The maximum number of slots that a new index may miss when it is added under the lock of the writers.
pub(crate) const MAX_MISSING_SLOTS: usize = 2048;

/// The number of times that a new index is filled without the lock. Only a store whose objects change faster
/// than the index function runs needs all rounds.
pub(crate) const MAX_FILL_ROUNDS: u32 = 8;

/// Caches the objects of one type, with indexes. A store is cheap to clone, and all clones share
/// the same objects.
///
/// # Contract
/// 1. [`apply`](Store::apply) changes objects, indexes and watermark atomically. When it returns,
///    readers see the complete batch. The other writing methods call `apply`, except
///    [`LargeWrite`](crate::LargeWrite), which applies a large change in two steps.
/// 2. A [`Snapshot`] never changes. To take a snapshot, the store only increments a reference count.
///    While a snapshot exists, writers copy the parts that they change, and never wait for readers. A
///    reader waits at most while a batch of up to 256 deltas, or up to 512 changes of the key table, are
///    written in place.
/// 3. The uid identifies an object. If the store receives another uid for a cached key, it deletes the
///    cached object and adds the new object. An empty uid is unknown and matches each uid.
/// 4. Outside of a relist, the store ignores an object if its resourceVersion is not higher than the
///    cached version. An object with an opaque version (not a decimal number) always counts as changed.
///    A list replaces cached objects even if the list is older. After a list without a resourceVersion,
///    versions have no order. The store then ignores only an event that repeats the cached version of
///    the same object.
/// 5. The order of iteration is unspecified, but two stores with the same history use the same order.
/// 6. If objects are deleted, the memory of the store's tables is reused, but not released.
///
/// Writers are serialized. Index functions run under the lock of the writers, except while
/// [`add_index`](Store::add_index) fills a new index. An index function may read the store. A method
/// that writes to, forks, closes or waits for the store panics within an index function.
///
/// # A relist
/// Between [`Delta::Begin`] and [`Delta::End`], readers see no changes. The store collects the
/// deltas and uses the last delta of each key. A second `Begin` discards the collected deltas.
///
/// At `End`, the store applies the list. First, it deletes the objects that are not in the list, in
/// the order of their keys. These deletions have `Removal::FinalStateUnknown`, unless a delta with the
/// deletion and the last state was received during the relist. Then the store applies the changes
/// in the order in which they were received. Unchanged objects keep their `Arc` and cause no event.
///
/// If `End` is not `complete`, some items of the list were unreadable. The store then deletes an
/// object only if the object was replaced by an object with another uid, or if its deletion was
/// received during the relist. The watermark does not advance, because other deleted objects can
/// still be cached.
///
/// After `Begin { without_reuse: true }`, an equal version does not prove that an object is
/// unchanged. The store then compares the digests of the objects.
///
/// Without a `Begin`, the store treats an `End` as a bookmark, and the items of a `Page` as single
/// deltas. A `Clear` discards a relist and deletes all objects, in the order of their keys and with
/// `Removal::FinalStateUnknown`. A `Clear` does not change the watermark, the epoch or `synced`.
pub struct Store<T> {
    pub(crate) shared: Arc<Shared<T>>,
    /// Keeps the source of the store alive while this handle exists.
    pub(crate) keep_alive: Option<Arc<dyn Any + Send + Sync>>,
}

pub(crate) struct Shared<T> {
    /// The state for readers. Locked to read it, to replace it, and while a batch is written in place.
    pub(crate) current: RwLock<Current<T>>,
    /// The holder of this lock is the writer.
    writer: Mutex<Writer<T>>,
    /// Wakes the tasks that wait for a change of the store.
    pub(crate) changed: Notify,
    /// Whether the store is closed. Written by the writer. A closed store is no longer written to.
    closed: AtomicBool,
    repeats: AtomicU64,
    index_panics: AtomicU64,
    lists: AtomicU64,
    lists_without_reuse: AtomicU64,
}

/// Exists while the lock of the writers is held.
pub(crate) struct LockMark {
    _mark: WriteMark,
    _touches: LockedTouches,
}

/// The state that only the writer needs.
pub(crate) struct Writer<T> {
    /// The relist in progress.
    pub(crate) relist: Option<Relist<T>>,
    pub(crate) functions: IndexFunctions<T>,
}

impl<T> Default for Writer<T> {
    fn default() -> Self {
        Self { relist: None, functions: IndexFunctions::default() }
    }
}

/// Holds counters of a store, for metrics and debug pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoreStats {
    /// The number of objects in the store.
    pub objects: usize,
    /// The number of objects whose latest state could not be decoded.
    pub stale: usize,
    /// The number of deltas without an effect since the store was created.
    pub repeats: u64,
    /// The number of panics in index functions since the store was created.
    pub index_panics: u64,
    /// The number of applied lists since the store was created.
    pub lists: u64,
    /// The number of applied lists with `without_reuse: true` since the store was created. For such
    /// a list, an equal version does not prove that an object is unchanged ([`Delta::Begin`]).
    pub lists_without_reuse: u64,
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), keep_alive: self.keep_alive.clone() }
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> std::fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("objects", &self.root().objects.len()).finish_non_exhaustive()
    }
}

impl<T> Store<T> {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                current: RwLock::default(),
                writer: Mutex::default(),
                changed: Notify::new(),
                closed: AtomicBool::new(false),
                repeats: AtomicU64::new(0),
                index_panics: AtomicU64::new(0),
                lists: AtomicU64::new(0),
                lists_without_reuse: AtomicU64::new(0),
            }),
            keep_alive: None,
        }
    }

    /// Returns a handle on the same store that keeps `guard` alive. All clones, listers and indexes of
    /// this handle also keep `guard` alive. An informer uses a guard to run as long as a handle on its
    /// store exists.
    #[must_use]
    pub fn with_keep_alive(self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        Self { keep_alive: Some(guard), ..self }
    }

    /// Returns a snapshot of the current state. Later changes of the store do not change the snapshot.
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot { root: self.root() }
    }

    /// Returns whether this thread writes to the store, because it runs an index function. The function
    /// must not call a method that waits for the write.
    pub(crate) fn is_written_by_this_thread(&self) -> bool {
        reentrancy::is_written_by_this_thread(self.address())
    }

    /// Panics if this thread runs an index function of this store. The panic stops the index function.
    #[doc(hidden)]
    pub fn refuse_index_function(&self) {
        if self.is_written_by_this_thread() {
            std::panic::panic_any(REFUSED);
        }
    }

    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.shared) as usize
    }

    pub(crate) fn lock_writer(&self) -> (MutexGuard<'_, Writer<T>>, LockMark) {
        self.refuse_index_function();
        let writer = self.shared.writer.lock();
        (writer, LockMark { _mark: WriteMark::new(self.address()), _touches: LockedTouches::new() })
    }

    /// Returns an independent copy of this store for tests, including a relist in progress. Changes
    /// of one store do not affect the other store.
    pub fn fork(&self) -> Self {
        let (writer, _mark) = self.lock_writer();
        let Shared { repeats, index_panics, lists, lists_without_reuse, .. } = &*self.shared;
        let copy = |count: &AtomicU64| AtomicU64::new(count.load(Relaxed));
        let shared = Shared {
            current: RwLock::new(self.shared.current.read().clone()),
            writer: Mutex::new(Writer { relist: writer.relist.clone(), functions: writer.functions.clone() }),
            repeats: copy(repeats),
            index_panics: copy(index_panics),
            lists: copy(lists),
            lists_without_reuse: copy(lists_without_reuse),
            changed: Notify::new(),
            closed: AtomicBool::new(self.is_closed()),
        };
        Self { shared: Arc::new(shared), keep_alive: None }
    }

    /// Closes the store. Current and later calls of [`Store::wait_until`] and [`Store::wait_for`]
    /// return immediately, and later writes have no effect. The store can still be read.
    ///
    /// Drops the index functions and a relist in progress. An index function that captures a handle
    /// of the same store therefore does not keep a closed store in memory.
    ///
    /// # Panics
    /// Panics if an index function of this store calls this method.
    pub fn close(&self) {
        let (mut writer, mark) = self.lock_writer();
        self.shared.closed.store(true, Release);
        let dropped = std::mem::take(&mut *writer);
        drop((writer, mark));
        // Runs without the lock, because user code can run when the functions are dropped.
        drop(dropped);
        self.shared.changed.notify_waiters();
    }

    /// Returns whether the store was closed with [`Store::close`].
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Acquire)
    }

    /// Returns a read-only handle on this store.
    pub fn lister(&self) -> Lister<T> {
        Lister { store: self.clone() }
    }
}

impl<T: Object> Store<T> {
    /// Applies a batch of deltas atomically. Returns the resulting events, in the order of the changes.
    ///
    /// Only additions of the initial list have `initial: true`. A closed store ignores the batch.
    ///
    /// # Panics
    /// Panics if an index function of this store calls this method.
    pub fn apply(&self, batch: Vec<Delta<T>>) -> Vec<Event<T>> {
        let mut outcome = ApplyOutcome::new(batch.len());
        let (mut writer, mark) = self.lock_writer();
        if self.is_closed() {
            return Vec::new();
        }
        if writer.relist.is_none() && batch.len() <= MAX_IN_PLACE_DELTAS && batch.iter().all(is_single) {
            self.apply_live(batch, &writer.functions, &mut outcome);
        } else {
            self.apply_to_copy(batch, &mut writer, &mut outcome);
        }
        drop((writer, mark));
        self.count(&outcome);
        self.shared.changed.notify_waiters();
        outcome.events
    }

    /// Adds the results of a write to the counters.
    pub(crate) fn count(&self, outcome: &ApplyOutcome<T>) {
        self.shared.repeats.fetch_add(outcome.repeats, Relaxed);
        self.shared.index_panics.fetch_add(outcome.panics, Relaxed);
        self.shared.lists.fetch_add(outcome.lists, Relaxed);
        self.shared.lists_without_reuse.fetch_add(outcome.lists_without_reuse, Relaxed);
    }

    fn apply_to_copy(&self, batch: Vec<Delta<T>>, writer: &mut Writer<T>, outcome: &mut ApplyOutcome<T>) {
        let Writer { relist, functions } = writer;
        let before = self.root();
        let mut root = Arc::clone(&before);
        for delta in batch {
            match (delta, relist.take()) {
                (Delta::Begin { without_reuse }, _) => *relist = Some(Relist::new(without_reuse)),
                (Delta::Clear, _) => Arc::make_mut(&mut root).clear(outcome),
                (Delta::Hold { shard, gained }, collecting) => {
                    let root = Arc::make_mut(&mut root);
                    *relist = hold(shard, gained, collecting, functions, root, outcome);
                }
                (Delta::End { version, complete }, Some(ended)) => {
                    ended.apply(version, complete, functions, Arc::make_mut(&mut root), outcome);
                }
                (delta, Some(mut collecting)) => {
                    collecting.collect(delta, &root);
                    *relist = Some(collecting);
                }
                (Delta::Page(items), None) => {
                    for item in items {
                        apply_one(single(item), functions, Arc::make_mut(&mut root), outcome);
                    }
                }
                (delta, None) => apply_one(delta, functions, Arc::make_mut(&mut root), outcome),
            }
        }
        if !Arc::ptr_eq(&before, &root) {
            self.publish(root, &outcome.events);
        }
    }

    /// Adds an index and fills it with the cached objects. During this time, readers and writers
    /// continue. The index becomes visible when it is complete.
    ///
    /// `values` returns the index values of an object, for example as an `Option` or a `Vec`. A
    /// value that occurs twice counts once. If `values` panics, the object has no values in this
    /// index. The panic is caught, counted in [`StoreStats::index_panics`], and logged with the key
    /// of the object. `Hash`, `Eq` and `Clone` of the values must not panic.
    ///
    /// # Errors
    /// Returns [`IndexError::AlreadyExists`] if the store has an index with this name. Returns
    /// [`IndexError::WithinIndexFunction`] if an index function of this store calls this method.
    pub fn add_index<V, I>(
        &self,
        name: &'static str,
        values: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Result<Index<T, V>, IndexError>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        if self.is_written_by_this_thread() {
            return Err(IndexError::WithinIndexFunction(name.to_owned()));
        }
        let mut index = NewIndex::new(name, IndexFunction::new(name, values));
        let exists = |root: &Root<T>| root.indexes.position(name).is_some();
        let mut rounds = 0;
        loop {
            let root = self.root();
            if exists(&root) {
                return Err(IndexError::AlreadyExists(name.to_owned()));
            }
            let mark = WriteMark::new(self.address());
            index.follow(&root);
            drop((mark, root));
            rounds += 1;
            let (mut writer, _mark) = self.lock_writer();
            let before = self.root();
            if exists(&before) {
                return Err(IndexError::AlreadyExists(name.to_owned()));
            }
            if rounds < MAX_FILL_ROUNDS && !index.differs_at_most(&before, MAX_MISSING_SLOTS) {
                continue;
            }
            index.follow(&before);
            let (function, state, panics) = index.finish();
            let mut root = Root::clone(&before);
            root.indexes.push(state);
            self.publish(Arc::new(root), &[]);
            self.shared.index_panics.fetch_add(panics, Relaxed);
            if !self.is_closed() {
                writer.functions.push(function);
            }
            return Ok(Index::new(self.clone(), name, before.indexes.len()));
        }
    }

    /// Returns the index with this name. Returns `None` if the index does not exist, or if its
    /// values have another type than `V`.
    pub fn index<V>(&self, name: &str) -> Option<Index<T, V>>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
    {
        let root = self.root();
        let position = root.indexes.position(name)?;
        let state = root.indexes.state::<V>(position)?;
        Some(Index::new(self.clone(), state.name(), position))
    }

    /// Returns the resourceVersion up to which the store contains all changes. Returns `None` if the
    /// store has no position ([`Watermark::version`]).
    pub fn resource_version(&self) -> Option<ResourceVersion> {
        self.watermark().version
    }

    /// Returns the resourceVersion, the epoch and the sync state of the store.
    pub fn watermark(&self) -> Watermark {
        self.shared.current.read().root.watermark.clone()
    }

    /// Returns whether an initial list was applied. The list may be incomplete, because some of its
    /// items were unreadable.
    pub fn is_synced(&self) -> bool {
        self.shared.current.read().root.watermark.synced
    }

    /// Returns counters for metrics and debug pages.
    pub fn stats(&self) -> StoreStats {
        let snapshot = self.snapshot();
        StoreStats {
            objects: snapshot.len(),
            stale: snapshot.stale_len(),
            repeats: self.shared.repeats.load(Relaxed),
            index_panics: self.shared.index_panics.load(Relaxed),
            lists: self.shared.lists.load(Relaxed),
            lists_without_reuse: self.shared.lists_without_reuse.load(Relaxed),
        }
    }

    /// Panics unless the key table, the key map, the slots, the free list and all indexes agree. For tests.
    #[doc(hidden)]
    pub fn check(&self) {
        self.shared.current.read().clone().check();
    }
}

impl<T: Object> CacheProbe<T> for Store<T> {
    fn find_unchanged(&self, id: &ObjectIdRef<'_>, digest: Option<Digest>) -> Option<Entry<T>> {
        let snapshot = self.snapshot();
        let entry = snapshot.get(id.key)?;
        let is_unchanged = !id.version.is_opaque()
            && !snapshot.is_stale(entry.key())
            && !entry.id.uid.differs_from(&id.uid)
            && entry.is_unchanged(&id.version, digest, VersionTrust::SameHistory);
        is_unchanged.then(|| entry.clone())
    }
}

fn is_single<T>(delta: &Delta<T>) -> bool {
    matches!(delta, Delta::Put(_) | Delta::Remove { .. } | Delta::Undecodable(_) | Delta::Bookmark(_))
}

fn single<T>(item: Listed<T>) -> Delta<T> {
    match item {
        Listed::Object(entry) => Delta::Put(entry),
        Listed::Undecodable(id) => Delta::Undecodable(id),
    }
}

fn apply_one<T: Object>(
    delta: Delta<T>,
    functions: &IndexFunctions<T>,
    root: &mut Root<T>,
    outcome: &mut ApplyOutcome<T>,
) {
    let puts = puts(std::slice::from_ref(&delta));
    let mut context = WriteBatch::new(functions, root, &puts, StateSource::Live, outcome);
    root.apply_live(delta, &mut context);
}

#[cfg(test)]
mod tests;
