//! `Store`: the indexed cache, and the one way in which it is written.
//!
//! Readers take the newest snapshot; a batch that nobody looks at while it comes is written in
//! place, any other to a copy that then takes the place of the old state.

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
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::{
    Index, IndexError, Lister, Snapshot, Watermark,
    erased::IndexState,
    replace::Relist,
    root::{Batch, Outcome, Root, Source},
};

/// A batch up to this long is written in place if nobody holds a snapshot, and readers that come
/// meanwhile wait for it. A longer one goes to a copy.
const IN_PLACE: usize = 256;

/// An indexed, always consistent cache of one type of objects. Cheap to clone: all clones are one store.
///
/// # Contract
/// 1. [`apply`](Store::apply) is the only way in; the other methods that write are built on it. A
///    batch shows in the objects, in every index and in the watermark in one step, before `apply`
///    returns: a reader sees all of it or nothing.
/// 2. A [`Snapshot`] never changes. Taking one is one reference count; holding one makes writers
///    copy what they touch, never wait. A reader waits at most while a batch of up to 256 deltas is
///    written in place.
/// 3. Identity is the uid: another uid under the same key is a deletion and an addition. An empty
///    uid is no identity.
/// 4. Outside of a relist an object never goes back to a lower version, and the same version again
///    changes nothing; an opaque version always counts as changed. A list is the truth even where
///    it is older.
/// 5. The order of listing is unspecified (it is that of internal slots), but the same for the
///    same history. The memory of the most objects there ever were is kept.
///
/// Writers are serialised. Index functions run under the writers' lock: they may read the store, and
/// must not write to it.
///
/// # A relist
/// Between [`Delta::Begin`] and [`Delta::End`] nothing changes for readers: everything is collected,
/// the last word on each key wins. A further `Begin` discards what was collected. At the `End` what
/// was not listed is deleted, in the order of keys and with `final_state_unknown` (unless its
/// deletion came during the relist, with its last state); then come the changes in the order in
/// which they came. Unchanged objects keep their `Arc` and give no event. An `End` that is not
/// `complete` deletes only what another object has taken the place of. After a `Begin { history_lost: true }` nothing counts as unchanged
/// by its version alone. An `End`
/// or a `Page` without a `Begin` is taken as a bookmark, or as so many single deltas. A `Clear` discards
/// a relist and deletes everything, in the order of keys and with `final_state_unknown`; watermark,
/// epoch and whether a first list was in stay.
pub struct Store<T> {
    pub(crate) shared: Arc<Shared<T>>,
    /// Whatever keeps the store history_lost, for as long as this handle is there.
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

pub(crate) struct Shared<T> {
    /// What readers see. Locked to look at it, to swap it, and while a batch is written in place.
    root: RwLock<Arc<Root<T>>>,
    /// The relist under way; whoever holds this lock is the writer.
    writer: Mutex<Option<Relist<T>>>,
    /// Wakes those who wait for the store to come somewhere.
    pub(crate) moved: Notify,
    /// Nobody will write any more.
    closed: AtomicBool,
    repeats: AtomicU64,
    index_panics: AtomicU64,
    lists: AtomicU64,
    lists_after_lost_history: AtomicU64,
}

/// Counts of a store, for metrics and debug pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoreStats {
    /// Objects in the store.
    pub objects: usize,
    /// Of them, those whose newest state could not be decoded.
    pub stale: usize,
    /// Deltas dropped because they told nothing new, since the store was made.
    pub repeats: u64,
    /// Panics of index functions, since the store was made.
    pub index_panics: u64,
    /// Lists that came to their end, since the store was made.
    pub lists: u64,
    /// Of them, those in which no version was trusted.
    pub lists_after_lost_history: u64,
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), keep: self.keep.clone() }
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> std::fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("objects", &self.shared.root.read().objects.len())
            .finish_non_exhaustive()
    }
}

impl<T> Store<T> {
    /// An empty store.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                root: RwLock::default(),
                writer: Mutex::new(None),
                moved: Notify::new(),
                closed: AtomicBool::new(false),
                repeats: AtomicU64::new(0),
                index_panics: AtomicU64::new(0),
                lists: AtomicU64::new(0),
                lists_after_lost_history: AtomicU64::new(0),
            }),
            keep: None,
        }
    }

    /// A handle on the same store that holds `guard`, as do its clones and the listers and indexes
    /// that are made from it: an informer goes on while anybody can look into its store.
    #[must_use]
    pub fn with_keep_alive(self, guard: Arc<dyn Any + Send + Sync>) -> Self {
        Self { keep: Some(guard), ..self }
    }

    /// The store as it is now, for as long as it is held.
    pub fn snapshot(&self) -> Snapshot<T> {
        Snapshot { root: Arc::clone(&self.shared.root.read()) }
    }

    /// A store of its own with the same contents, a relist under way included: what is written to one of them does not
    /// show in the other. For those who try several futures of one state.
    pub fn fork(&self) -> Self {
        let relist = self.shared.writer.lock();
        let Shared { repeats, index_panics, lists, lists_after_lost_history, .. } = &*self.shared;
        let same = |count: &AtomicU64| AtomicU64::new(count.load(Relaxed));
        let shared = Shared {
            root: RwLock::new(self.snapshot().root),
            writer: Mutex::new(relist.clone()),
            repeats: same(repeats),
            index_panics: same(index_panics),
            lists: same(lists),
            lists_after_lost_history: same(lists_after_lost_history),
            moved: Notify::new(),
            closed: AtomicBool::new(self.is_closed()),
        };
        Self { shared: Arc::new(shared), keep: None }
    }

    /// Says that nobody will write any more: who waits for the store to come somewhere, or begins to, is told so and does
    /// not wait. It can still be read.
    pub fn close(&self) {
        self.shared.closed.store(true, Release);
        self.shared.moved.notify_waiters();
    }

    /// Whether nobody will write any more: see [`Store::close`].
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Acquire)
    }

    /// A handle that can only read.
    pub fn lister(&self) -> Lister<T> {
        Lister { store: self.clone() }
    }
}

impl<T: Object> Store<T> {
    /// Applies a batch of deltas in one step and says what has changed, in the order in which it has.
    ///
    /// `initial` is set on what the first list adds, and on nothing else.
    pub fn apply(&self, batch: Vec<Delta<T>>) -> Vec<Event<T>> {
        let mut outcome = Outcome::new(batch.len());
        let mut relist = self.shared.writer.lock();
        if relist.is_none() && batch.len() <= IN_PLACE && batch.iter().all(is_single) {
            self.apply_live(batch, &mut outcome);
        } else {
            self.apply_to_copy(batch, &mut relist, &mut outcome);
        }
        drop(relist);
        self.shared.repeats.fetch_add(outcome.repeats, Relaxed);
        self.shared.index_panics.fetch_add(outcome.panics, Relaxed);
        self.shared.lists.fetch_add(outcome.lists, Relaxed);
        self.shared.lists_after_lost_history.fetch_add(outcome.lists_after_lost_history, Relaxed);
        self.shared.moved.notify_waiters();
        outcome.events
    }

    fn apply_live(&self, batch: Vec<Delta<T>>, outcome: &mut Outcome<T>) {
        let mut context = Batch::new(&self.snapshot().root, &puts(&batch), Source::Live, outcome);
        let write = |root: &mut Root<T>| {
            for delta in batch {
                root.apply_live(delta, &mut context);
            }
        };
        let mut root = self.shared.root.write();
        if let Some(root) = Arc::get_mut(&mut root) {
            return write(root);
        }
        let mut copy = Root::clone(&root);
        drop(root);
        write(&mut copy);
        self.publish(Arc::new(copy));
    }

    fn apply_to_copy(&self, batch: Vec<Delta<T>>, relist: &mut Option<Relist<T>>, outcome: &mut Outcome<T>) {
        let before = self.snapshot().root;
        let mut root = Arc::clone(&before);
        for delta in batch {
            match (delta, relist.take()) {
                (Delta::Begin { history_lost }, _) => *relist = Some(Relist::new(history_lost)),
                (Delta::Clear, _) => Arc::make_mut(&mut root).clear(outcome),
                (Delta::End { version, complete }, Some(ended)) => {
                    ended.end(version, complete, Arc::make_mut(&mut root), outcome);
                }
                (delta, Some(mut collecting)) => {
                    collecting.collect(delta, &root);
                    *relist = Some(collecting);
                }
                (Delta::Page(items), None) => {
                    items
                        .into_iter()
                        .for_each(|item| apply_one(single(item), Arc::make_mut(&mut root), outcome));
                }
                (delta, None) => apply_one(delta, Arc::make_mut(&mut root), outcome),
            }
        }
        if !Arc::ptr_eq(&before, &root) {
            self.publish(root);
        }
    }

    /// Swaps the state; what nobody holds any more is dropped after the lock.
    fn publish(&self, root: Arc<Root<T>>) {
        let old = std::mem::replace(&mut *self.shared.root.write(), root);
        drop(old);
    }

    /// Adds an index and fills it from what is there, in one step.
    ///
    /// `values` gives the values under which an object is found: none, one (an `Option`) or several
    /// (a `Vec`); the same value twice counts once. Where it panics the object has no values; the
    /// panic is caught, counted and logged with the object's key. The values' `Hash`, `Eq` and
    /// `Clone` must not panic.
    ///
    /// # Errors
    /// [`IndexError::AlreadyExists`] if there is an index of this name.
    pub fn add_index<V, I>(
        &self,
        name: &'static str,
        values: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Result<Index<T, V>, IndexError>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        let _writer = self.shared.writer.lock();
        let before = self.snapshot().root;
        if before.indexes.position(name).is_some() {
            return Err(IndexError::AlreadyExists(name.to_owned()));
        }
        let mut root = Root::clone(&before);
        let objects: Vec<_> = before.objects.iter().collect();
        let panics = root.indexes.add(IndexState::new(name, values), &objects);
        self.shared.index_panics.fetch_add(panics, Relaxed);
        self.publish(Arc::new(root));
        Ok(Index::new(self.clone(), name, before.indexes.len()))
    }

    /// The index of this name; `None` if there is none, or if its values are not of this type.
    pub fn index<V>(&self, name: &str) -> Option<Index<T, V>>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
    {
        let root = self.snapshot().root;
        let position = root.indexes.position(name)?;
        let state = root.indexes.state::<V>(position)?;
        Some(Index::new(self.clone(), state.name(), position))
    }

    /// How far the store has come; `None` until anything with a version was applied.
    pub fn watermark(&self) -> Option<ResourceVersion> {
        self.position().version
    }

    /// The watermark with its epoch, and whether a first list is in.
    pub fn position(&self) -> Watermark {
        self.shared.root.read().watermark.clone()
    }

    /// Whether a first list is in the store, complete or not.
    pub fn is_synced(&self) -> bool {
        self.shared.root.read().watermark.synced
    }

    /// Counts for metrics and debug pages.
    pub fn stats(&self) -> StoreStats {
        let snapshot = self.snapshot();
        StoreStats {
            objects: snapshot.len(),
            stale: snapshot.stale(),
            repeats: self.shared.repeats.load(Relaxed),
            index_panics: self.shared.index_panics.load(Relaxed),
            lists: self.shared.lists.load(Relaxed),
            lists_after_lost_history: self.shared.lists_after_lost_history.load(Relaxed),
        }
    }

    /// Panics unless the key map, the slots, the free list and every index agree; for tests.
    #[doc(hidden)]
    pub fn check(&self) {
        self.snapshot().root.check();
    }
}

impl<T: Object> CacheProbe<T> for Store<T> {
    fn unchanged(&self, id: &ObjectIdRef<'_>, digest: Option<Digest>) -> Option<Entry<T>> {
        let snapshot = self.snapshot();
        let entry = snapshot.get(id.key)?;
        let same = !id.version.is_opaque()
            && !snapshot.is_stale(entry.key())
            && !entry.id.uid.differs_from(&id.uid)
            && entry.is_unchanged(&id.version, digest, VersionTrust::SameHistory);
        same.then(|| entry.clone())
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

fn puts<T>(batch: &[Delta<T>]) -> Vec<&Entry<T>> {
    batch.iter().filter_map(|delta| if let Delta::Put(entry) = delta { Some(entry) } else { None }).collect()
}

fn apply_one<T: Object>(delta: Delta<T>, root: &mut Root<T>, outcome: &mut Outcome<T>) {
    let puts = puts(std::slice::from_ref(&delta));
    let mut context = Batch::new(root, &puts, Source::Live, outcome);
    root.apply_live(delta, &mut context);
}

#[cfg(test)]
mod tests;
