//! `Relist`: collects the deltas between `Delta::Begin` and `Delta::End`, and applies them at
//! `End`.
//!
//! An unchanged object costs one bit. Only changed objects are held in addition to the cached
//! objects. Slots are stable during a relist, because the store is not written before `End`.

use std::{collections::BTreeSet, sync::Arc};

use kube_object::{
    Delta, Entry, Listed, Object, ObjectId, ObjectKey, Removal, ResourceVersion, Shard, VersionTrust,
};

use crate::{
    hashed::{HashedNumbers, hash_of_key},
    index_functions::IndexFunctions,
    root::{ApplyOutcome, Root, StateSource, WriteBatch},
};

/// The number of changes that are written as one batch, with one evaluation of the indexes.
pub(crate) const PUTS_PER_BATCH: usize = 256;

/// The collected state of one key, which `Delta::End` applies.
enum CollectedChange<T> {
    Put {
        entry: Entry<T>,
        /// A later state of the same object could not be decoded.
        stale: bool,
        /// The last state of the cached object, if it was deleted and this object reuses its key.
        /// Boxed, because this case is rare and an initial list holds one change per object.
        before: Option<Box<Entry<T>>>,
    },
    /// The cached object was deleted during the relist, or replaced by an object that could not be
    /// decoded. Contains the last state of the cached object, if the state was received.
    Gone(Option<Entry<T>>),
}

impl<T> Clone for CollectedChange<T> {
    fn clone(&self) -> Self {
        match self {
            CollectedChange::Put { entry, stale, before } => {
                CollectedChange::Put { entry: entry.clone(), stale: *stale, before: before.clone() }
            }
            CollectedChange::Gone(last) => CollectedChange::Gone(last.clone()),
        }
    }
}

/// The number of changes of the first chunk. Each further chunk has twice the size of the previous chunk.
const FIRST_CHUNK: usize = 1024;

/// The collected changes, in the order in which their keys were received.
///
/// Invariant: each key has one place, and `places` contains this place. A list that repeats its items
/// therefore does not need more memory. A new change moves a bounded number of other changes: the chunks do
/// not grow, and `places` grows in steps.
///
/// The chunks of a large list are large. Allocators return the memory of large blocks to the operating system
/// when the relist is dropped. With chunks of equal size, glibc kept the memory of a million changes.
struct Changes<T> {
    /// All chunks but the last are full. A chunk is allocated with its final capacity.
    chunks: Vec<Vec<Change<T>>>,
    places: HashedNumbers,
}

struct Change<T> {
    key: ObjectKey,
    /// `None` if the change was taken.
    state: Option<CollectedChange<T>>,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), state: self.state.clone() }
    }
}

impl<T> Clone for Changes<T> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), places: self.places.clone() }
    }
}

impl<T> Changes<T> {
    fn new() -> Self {
        Self { chunks: Vec::new(), places: HashedNumbers::default() }
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn iter(&self) -> impl Iterator<Item = &CollectedChange<T>> {
        self.chunks.iter().flatten().filter_map(|change| change.state.as_ref())
    }

    fn change(&self, place: u32) -> &Change<T> {
        let (chunk, index) = position(place as usize);
        &self.chunks[chunk][index]
    }

    fn place(&self, key: &ObjectKey) -> Option<u32> {
        self.places.find(hash_of_key(key.as_ref()), |place| self.change(place).key == *key)
    }

    fn state_mut(&mut self, key: &ObjectKey) -> Option<&mut Option<CollectedChange<T>>> {
        let (chunk, index) = position(self.place(key)? as usize);
        Some(&mut self.chunks[chunk][index].state)
    }

    fn get(&self, key: &ObjectKey) -> Option<&CollectedChange<T>> {
        self.change(self.place(key)?).state.as_ref()
    }

    fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut CollectedChange<T>> {
        self.state_mut(key)?.as_mut()
    }

    /// Removes the change of a key. A later change of the key is stored at the same place.
    fn take(&mut self, key: &ObjectKey) -> Option<CollectedChange<T>> {
        self.state_mut(key)?.take()
    }

    fn set(&mut self, key: ObjectKey, change: CollectedChange<T>) {
        if let Some(state) = self.state_mut(&key) {
            *state = Some(change);
            return;
        }
        let place = self.len() as u32;
        assert!(place < u32::MAX, "fewer than 2^32 objects fit the memory of any machine");
        self.places.insert(hash_of_key(key.as_ref()), place);
        if position(place as usize).1 == 0 {
            self.chunks.push(Vec::with_capacity(FIRST_CHUNK << self.chunks.len()));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(Change { key, state: Some(change) });
        }
    }
}

/// Returns the chunk of a place, and the index in this chunk.
fn position(place: usize) -> (usize, usize) {
    // The chunks before the chunk `n` contain `FIRST_CHUNK * (2^n - 1)` places.
    let chunk = (place / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, place - FIRST_CHUNK * ((1 << chunk) - 1))
}

/// The result of the relist for one cached object, by its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RelistMark {
    /// The object was not received, or was deleted.
    Missing,
    /// The object, in any version, is part of the new state.
    Present,
    /// The object is part of the new state, and its new state could not be decoded.
    Undecodable,
}

/// The marks of the cached objects: one bit for each slot, and a set for the rare undecodable
/// objects.
///
/// Invariant: a slot in `undecodable` is also in `present`.
#[derive(Default, Clone)]
struct Marks {
    present: BitSet,
    undecodable: BTreeSet<u32>,
}

impl Marks {
    fn set(&mut self, slot: u32, mark: RelistMark) {
        if mark == RelistMark::Missing {
            self.present.remove(slot);
        } else {
            self.present.insert(slot);
        }
        if mark == RelistMark::Undecodable {
            self.undecodable.insert(slot);
        } else {
            self.undecodable.remove(&slot);
        }
    }

    fn get(&self, slot: u32) -> RelistMark {
        if !self.present.contains(slot) {
            RelistMark::Missing
        } else if self.undecodable.contains(&slot) {
            RelistMark::Undecodable
        } else {
            RelistMark::Present
        }
    }
}

/// A relist in progress.
pub(crate) struct Relist<T> {
    without_reuse: bool,
    cached: Marks,
    changes: Changes<T>,
    /// The slots that the store holds after the list. `None` for a store of all objects.
    shard: Option<Shard>,
}

impl<T> Clone for Relist<T> {
    fn clone(&self) -> Self {
        Self { cached: self.cached.clone(), changes: self.changes.clone(), ..*self }
    }
}

impl<T: Object> Relist<T> {
    pub(crate) fn new(without_reuse: bool) -> Self {
        Self { without_reuse, cached: Marks::default(), changes: Changes::new(), shard: None }
    }

    /// Returns the number of collected changes and undecodable objects.
    pub(crate) fn len(&self) -> usize {
        self.changes.len() + self.cached.undecodable.len()
    }

    /// Changes the slots that the store holds after the list. A slot that was removed from the set must not
    /// be added again, because objects of this slot may be missing.
    pub(crate) fn hold(self, shard: Shard) -> Self {
        Self { shard: Some(shard), ..self }
    }

    /// Collects a delta that was received between `Begin` and `End`. Ignores bookmarks.
    pub(crate) fn collect(&mut self, delta: Delta<T>, root: &Root<T>) {
        match delta {
            Delta::Page(items) => items.into_iter().for_each(|item| match item {
                Listed::Object(entry) => self.put(entry, root),
                Listed::Undecodable(id) => self.undecodable(&id, root),
            }),
            Delta::Put(entry) => self.put(entry, root),
            Delta::Remove { id, last } => self.remove(&id, last, root),
            Delta::Undecodable(id) => self.undecodable(&id, root),
            Delta::Bookmark(_)
            | Delta::Begin { .. }
            | Delta::End { .. }
            | Delta::Hold { .. }
            | Delta::Clear => {}
        }
    }

    fn put(&mut self, entry: Entry<T>, root: &Root<T>) {
        let held = root.held(entry.key().as_ref());
        let mut before = self.discard(entry.key(), held);
        if let Some((slot, _)) = held.filter(|(_, held)| !held.uid.differs_from(&entry.id.uid)) {
            before = None;
            self.cached.set(slot, RelistMark::Present);
            if self.is_unchanged(slot, &entry, root) {
                return;
            }
        }
        self.changes.set(
            entry.key().clone(),
            CollectedChange::Put { entry, stale: false, before: before.map(Box::new) },
        );
    }

    /// Returns whether a listed object is equal to the cached object.
    ///
    /// If the object is stale, an equal version does not prove this, because the cached version may
    /// belong to a lost history.
    fn is_unchanged(&self, slot: u32, listed: &Entry<T>, root: &Root<T>) -> bool {
        let Some(held) = root.objects.get(slot) else { return false };
        let is_same_history =
            || !self.without_reuse && !held.id.version.is_opaque() && !root.stale.contains(&slot);
        let trust = if Arc::ptr_eq(&held.object, &listed.object) || is_same_history() {
            VersionTrust::SameHistory
        } else {
            VersionTrust::AnyHistory
        };
        held.is_unchanged(&listed.id.version, listed.digest, trust)
    }

    fn remove(&mut self, id: &ObjectId, last: Option<Entry<T>>, root: &Root<T>) {
        if self.current(&id.key, root).is_none_or(|current| current.uid.differs_from(&id.uid)) {
            return;
        }
        let held = root.held(id.key.as_ref());
        let before = self.discard(&id.key, held);
        let of_held = |last: &Entry<T>| held.is_some_and(|(_, held)| !held.uid.differs_from(&last.id.uid));
        self.changes.set(id.key.clone(), CollectedChange::Gone(last.filter(of_held).or(before)));
    }

    fn undecodable(&mut self, id: &ObjectId, root: &Root<T>) {
        if let Some(CollectedChange::Put { entry, stale, .. }) = self.changes.get_mut(&id.key)
            && !entry.id.uid.differs_from(&id.uid)
        {
            *stale = true;
            return;
        }
        let held = root.held(id.key.as_ref());
        let before = self.discard(&id.key, held);
        if let Some((slot, _)) = held.filter(|(_, held)| !held.uid.differs_from(&id.uid)) {
            self.cached.set(slot, RelistMark::Undecodable);
        } else if held.is_some() {
            self.changes.set(id.key.clone(), CollectedChange::Gone(before));
        }
    }

    /// Returns the collected identity of this key. If there is none, returns the cached identity.
    fn current<'a>(&'a self, key: &ObjectKey, root: &'a Root<T>) -> Option<&'a ObjectId> {
        match self.changes.get(key) {
            Some(CollectedChange::Put { entry, .. }) => Some(&entry.id),
            Some(CollectedChange::Gone(_)) => None,
            None => root.held(key.as_ref()).map(|(_, held)| held),
        }
    }

    /// Discards the collected state of this key and of its cached object. Returns the last state of
    /// the cached object, if its deletion was received.
    fn discard(&mut self, key: &ObjectKey, held: Option<(u32, &ObjectId)>) -> Option<Entry<T>> {
        if let Some((slot, _)) = held {
            self.cached.set(slot, RelistMark::Missing);
        }
        match self.changes.take(key)? {
            CollectedChange::Gone(last) => last,
            CollectedChange::Put { before, .. } => before.map(|before| *before),
        }
    }

    /// Applies the list: first deletions in the order of keys, then changes in the order in which
    /// their keys were received.
    pub(crate) fn apply(
        &self,
        version: ResourceVersion,
        complete: bool,
        functions: &IndexFunctions<T>,
        root: &mut Root<T>,
        outcome: &mut ApplyOutcome<T>,
    ) {
        self.delete_missing(complete, root, outcome);
        outcome.lists += 1;
        outcome.lists_without_reuse += u64::from(self.without_reuse);
        self.refresh_stale(root);
        self.put_changes(functions, root, outcome);
        root.shard = self.shard.or(root.shard);
        root.listed(version, complete);
    }

    /// Deletes the objects that are not part of the new state. After an incomplete list, deletes
    /// only the objects whose deletion was received, or that were replaced by an object with another
    /// uid.
    fn delete_missing(&self, complete: bool, root: &mut Root<T>, outcome: &mut ApplyOutcome<T>) {
        for (key, slot) in root.slots_by_key(|slot| self.cached.get(slot) == RelistMark::Missing) {
            if !complete && self.changes.get(&key).is_none() {
                continue;
            }
            let last = self.last_state(&key, root);
            let removal = if last.is_some() { Removal::Deleted } else { Removal::FinalStateUnknown };
            root.delete(slot, last, removal, outcome);
        }
    }

    /// Returns the last state of a cached object, if its deletion was received during the relist.
    fn last_state(&self, key: &ObjectKey, root: &Root<T>) -> Option<Entry<T>> {
        let (_, held) = root.held(key.as_ref())?;
        let last = match self.changes.get(key)? {
            CollectedChange::Gone(last) => last.as_ref(),
            CollectedChange::Put { before, .. } => before.as_deref(),
        };
        last.filter(|last| !held.uid.differs_from(&last.id.uid)).cloned()
    }

    /// Updates the stale marks: an object is stale if its listed state could not be decoded.
    fn refresh_stale(&self, root: &mut Root<T>) {
        let stale = root.stale.iter().copied();
        let refreshed: Vec<u32> =
            stale.filter(|slot| self.cached.get(*slot) == RelistMark::Present).collect();
        for slot in refreshed {
            root.set_stale(slot, false);
        }
        // An object of a lost slot was removed during the list.
        for slot in &self.cached.undecodable {
            if root.objects.get(*slot).is_some() {
                root.set_stale(*slot, true);
            }
        }
    }

    /// Returns whether the object was collected before its slot was lost.
    fn is_of_lost_slot(&self, id: &ObjectId) -> bool {
        self.shard.is_some_and(|shard| !shard.contains(&id.as_id()))
    }

    fn put_changes(&self, functions: &IndexFunctions<T>, root: &mut Root<T>, outcome: &mut ApplyOutcome<T>) {
        outcome.events.reserve(self.changes.len());
        let source = StateSource::List { initial: !root.watermark.synced };
        let mut changes = self.changes.iter().filter_map(|change| match change {
            CollectedChange::Put { entry, .. } if self.is_of_lost_slot(&entry.id) => None,
            CollectedChange::Put { entry, stale, .. } => Some((entry.clone(), *stale)),
            CollectedChange::Gone(_) => None,
        });
        loop {
            let puts: Vec<(Entry<T>, bool)> = changes.by_ref().take(PUTS_PER_BATCH).collect();
            if puts.is_empty() {
                return;
            }
            put_all(puts, source, functions, root, outcome);
        }
    }
}

pub(crate) fn put_all<T: Object>(
    puts: Vec<(Entry<T>, bool)>,
    source: StateSource,
    functions: &IndexFunctions<T>,
    root: &mut Root<T>,
    outcome: &mut ApplyOutcome<T>,
) {
    let entries: Vec<&Entry<T>> = puts.iter().map(|(entry, _)| entry).collect();
    let mut batch = WriteBatch::new(functions, root, &entries, source, outcome);
    for (entry, stale) in puts {
        let key = stale.then(|| entry.key().clone());
        root.put(entry, &mut batch);
        if let Some(slot) = key.and_then(|key| root.find(key.as_ref())) {
            root.set_stale(slot, true);
        }
    }
}

/// A set of slots, with one bit for each slot.
#[derive(Default, Clone)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn insert(&mut self, slot: u32) {
        let at = slot as usize / 64;
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] |= 1 << (slot % 64);
    }

    fn remove(&mut self, slot: u32) {
        if let Some(bits) = self.0.get_mut(slot as usize / 64) {
            *bits &= !(1 << (slot % 64));
        }
    }

    fn contains(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|bits| bits >> (slot % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests;
