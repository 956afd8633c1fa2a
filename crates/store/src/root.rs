//! `Root`: the complete state of a store, and the rules by which a delta changes the state.
//!
//! A root is plain data without a lock. A clone is a snapshot. Writes to a root never change its
//! clones.

use std::{collections::BTreeSet, hint::black_box, sync::Arc};

use kube_object::{
    Delta, Digest, Entry, Event, KeyRef, Object, ObjectId, ObjectKey, Removal, ResourceVersion, Shard,
    VersionTrust,
};

use crate::{
    Watermark,
    cow::Counted,
    erased::Indexes,
    hashed::{hash_of, hash_of_key},
    index_functions::{Evaluated, IndexFunctions},
    postings::Postings,
    slots::Slots,
};

/// Holds the objects, and the data that is derived from the objects.
///
/// Invariant: `objects`, `namespaces`, `indexes` and `stale` refer to the same slots.
pub(crate) struct Root<T> {
    pub(crate) objects: Slots<Entry<T>>,
    pub(crate) namespaces: Postings<Arc<str>>,
    pub(crate) indexes: Indexes,
    /// Slots of objects whose latest state on the server could not be decoded.
    pub(crate) stale: Arc<BTreeSet<u32>>,
    pub(crate) watermark: Watermark,
    /// Like `watermark`, but incomplete lists also advance this version. Cached versions are higher only
    /// if they belong to a lost history, or if a list contained objects that are newer than the list.
    pub(crate) position: Watermark,
    /// The slots that the store holds. `None` for a store of all objects.
    pub(crate) shard: Option<Shard>,
}

impl<T: 'static> Clone for Root<T> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            namespaces: self.namespaces.clone(),
            indexes: self.indexes.clone(),
            stale: Arc::clone(&self.stale),
            watermark: self.watermark.clone(),
            position: self.position.clone(),
            shard: self.shard,
        }
    }
}

impl<T> Default for Root<T> {
    fn default() -> Self {
        Self {
            objects: Slots::default(),
            namespaces: Postings::default(),
            indexes: Indexes::default(),
            stale: Arc::default(),
            watermark: Watermark::default(),
            position: Watermark::default(),
            shard: None,
        }
    }
}

/// Collects the results of one call of `Store::apply`.
pub(crate) struct ApplyOutcome<T> {
    pub(crate) events: Vec<Event<T>>,
    /// Entries that are no longer needed. They are dropped after the write, when readers are not
    /// blocked.
    pub(crate) discarded: Vec<Entry<T>>,
    /// The number of deltas without an effect.
    pub(crate) repeats: u64,
    /// The number of panics of index functions.
    pub(crate) panics: u64,
    /// The number of lists that were applied.
    pub(crate) lists: u64,
    /// The number of lists without reuse that were applied.
    pub(crate) lists_without_reuse: u64,
}

impl<T> ApplyOutcome<T> {
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            events: Vec::with_capacity(expected),
            discarded: Vec::new(),
            repeats: 0,
            panics: 0,
            lists: 0,
            lists_without_reuse: 0,
        }
    }

    fn deleted(&mut self, last: Entry<T>, removal: Removal) {
        self.events.push(Event::Deleted { last, removal });
    }

    fn repeated(&mut self, entry: Option<Entry<T>>) {
        self.repeats += 1;
        self.discarded.extend(entry);
    }
}

/// The origin of an object's state.
#[derive(Clone, Copy)]
pub(crate) enum StateSource {
    /// A watch event. It is ignored if it is not newer than the cached state.
    Live,
    /// A list. It replaces the cached state even if it is older.
    List { initial: bool },
}

/// The context in which several objects are stored: the evaluated index values, and the outcome.
///
/// The index functions run in [`WriteBatch::new`], before the root is locked for the write.
pub(crate) struct WriteBatch<'a, T> {
    evaluated: Evaluated,
    /// The likely slot of each object. An earlier write of the batch can change it.
    likely: Vec<Option<u32>>,
    /// The position of the next object in `evaluated`.
    next: usize,
    source: StateSource,
    pub(crate) outcome: &'a mut ApplyOutcome<T>,
}

impl<'a, T: Object> WriteBatch<'a, T> {
    /// Evaluates the indexes for these objects. The caller must store the objects in this order.
    pub(crate) fn new(
        functions: &IndexFunctions<T>,
        root: &Root<T>,
        puts: &[&Entry<T>],
        source: StateSource,
        outcome: &'a mut ApplyOutcome<T>,
    ) -> Self {
        let evaluated = functions.evaluate(puts);
        outcome.panics += evaluated.panics;
        let likely = root.prefetch(puts);
        Self { evaluated, likely, next: 0, source, outcome }
    }
}

impl<T: Object> Root<T> {
    pub(crate) fn find(&self, key: KeyRef<'_>) -> Option<u32> {
        self.objects.find(hash_of_key(key), |entry| key == *entry.key())
    }

    /// Returns the slot and the identity of the cached object with this key.
    pub(crate) fn held(&self, key: KeyRef<'_>) -> Option<(u32, &ObjectId)> {
        let slot = self.find(key)?;
        Some((slot, &self.objects.get(slot)?.id))
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<&Entry<T>> {
        self.objects.get(self.find(key)?)
    }

    /// Loads the memory that the next writes need into the processor's cache, and returns their likely slots.
    ///
    /// The entries are scattered in memory. In short loops like these, the processor waits for many
    /// cache misses concurrently.
    fn prefetch(&self, puts: &[&Entry<T>]) -> Vec<Option<u32>> {
        let likely: Vec<_> =
            puts.iter().map(|put| self.objects.likely(hash_of_key(put.key().as_ref()))).collect();
        if puts.len() > 1 {
            let slots: Vec<u32> = likely.iter().copied().flatten().collect();
            let entries = slots.iter().filter_map(|slot| self.objects.get(*slot));
            black_box(entries.fold(0, |all, entry| all ^ entry.read_counts()));
            self.indexes.prefetch(&slots);
        }
        likely
    }

    /// Returns the slot and the identity of the cached object with this key. `likely` is probably its slot.
    fn held_at(&self, likely: Option<u32>, key: &ObjectKey) -> Option<(u32, &ObjectId)> {
        match likely.and_then(|slot| Some((slot, &self.objects.get(slot)?.id))) {
            Some((slot, held)) if held.key == *key => Some((slot, held)),
            _ => self.held(key.as_ref()),
        }
    }

    /// Applies a delta outside of a relist.
    pub(crate) fn apply_live(&mut self, delta: Delta<T>, batch: &mut WriteBatch<'_, T>) {
        match delta {
            Delta::Put(entry) => {
                let version = entry.id.version.clone();
                self.put(entry, batch);
                self.advance(&version);
            }
            Delta::Remove { id, last } => {
                self.advance(&id.version);
                self.remove(&id, last, batch.outcome);
            }
            Delta::Undecodable(id) => {
                self.mark_undecodable(&id, batch.outcome);
                self.advance(&id.version);
            }
            Delta::Bookmark(version) | Delta::End { version, .. } => self.advance(&version),
            Delta::Clear => self.clear(batch.outcome),
            Delta::Begin { .. } | Delta::Page(_) | Delta::Hold { .. } => {}
        }
    }

    fn advance(&mut self, version: &ResourceVersion) {
        self.watermark.advance(version);
        self.position.advance(version);
    }

    /// Sets the version of a list that was applied.
    pub(crate) fn listed(&mut self, version: ResourceVersion, complete: bool) {
        self.position.listed(version.clone());
        if complete {
            self.watermark.listed(version);
        } else {
            self.watermark.listed_incompletely(&version);
        }
    }

    /// Deletes all objects, in the order of their keys, with [`Removal::FinalStateUnknown`].
    pub(crate) fn clear(&mut self, outcome: &mut ApplyOutcome<T>) {
        if self.objects.len() == 0 {
            return; // The free slots need no visit.
        }
        for (_, slot) in self.slots_by_key(|_| true) {
            self.delete(slot, None, Removal::FinalStateUnknown, outcome);
        }
    }

    /// Returns the slots that `wanted` accepts, in the order of their objects' keys.
    pub(crate) fn slots_by_key(&self, wanted: impl Fn(u32) -> bool) -> Vec<(ObjectKey, u32)> {
        let mut slots: Vec<(ObjectKey, u32)> = (self.objects.iter())
            .filter(|(slot, _)| wanted(*slot))
            .map(|(slot, entry)| (entry.key().clone(), slot))
            .collect();
        slots.sort_unstable();
        slots
    }

    /// Stores this state of an object. Ignores a repeat.
    pub(crate) fn put(&mut self, entry: Entry<T>, batch: &mut WriteBatch<'_, T>) {
        self.put_next(entry, batch);
        batch.next += 1;
    }

    fn put_next(&mut self, entry: Entry<T>, batch: &mut WriteBatch<'_, T>) {
        let held = self.held_at(batch.likely.get(batch.next).copied().flatten(), entry.key());
        if let (Some((slot, held)), StateSource::Live) = (held, batch.source)
            && self.is_repeat(slot, held, &entry.id, entry.digest)
        {
            return batch.outcome.repeated(Some(entry));
        }
        match held.map(|(slot, held)| (slot, held.uid.differs_from(&entry.id.uid))) {
            None => self.insert(entry, batch),
            Some((slot, false)) => self.update(slot, entry, batch),
            Some((slot, true)) => {
                self.delete(slot, None, Removal::FinalStateUnknown, batch.outcome);
                self.insert(entry, batch);
            }
        }
    }

    /// Returns whether an event is not newer than the cached state.
    ///
    /// This also holds for another uid. The resourceVersions of all objects of a type have one order,
    /// so the object with the lower version is the older object. An opaque version never counts as a
    /// repeat. If versions have no order, only an equal state of the same object is a repeat. An equal state
    /// of a stale object is not a repeat, because the undecodable state can be older.
    fn is_repeat(&self, slot: u32, held: &ObjectId, event: &ObjectId, digest: Option<Digest>) -> bool {
        if self.has_version_of_lost_history(slot, held, event) {
            return false;
        }
        let is_other = held.uid.differs_from(&event.uid);
        match (self.position.orders_events(), is_other) {
            (true, true) => event.version < held.version,
            (true, false) => held.version.at_least(&event.version),
            (false, true) => false,
            (false, false) => {
                !event.version.is_opaque()
                    && !self.stale.contains(&slot)
                    && self.objects.get(slot).is_some_and(|cached| {
                        cached.is_unchanged(&event.version, digest, VersionTrust::SameHistory)
                    })
            }
        }
    }

    /// Returns whether the cached version belongs to a lost history, and the event to the current
    /// history.
    ///
    /// After a list that started a new epoch, an object keeps a version of the lost history only if
    /// its listed state could not be decoded. The object is then stale, and its version is above the
    /// position. An event above the position is new, even if its version is lower than the cached
    /// version. An object that is not stale can also be above the position, because some servers
    /// return objects that are newer than the list. The events of such an object are repeats.
    fn has_version_of_lost_history(&self, slot: u32, held: &ObjectId, event: &ObjectId) -> bool {
        let both_above =
            |position: &ResourceVersion| held.version > *position && !position.at_least(&event.version);
        self.stale.contains(&slot) && self.position.version.as_ref().is_some_and(both_above)
    }

    fn insert(&mut self, entry: Entry<T>, batch: &mut WriteBatch<'_, T>) {
        let slot = self.objects.insert(hash_of_key(entry.key().as_ref()), entry.clone());
        if let Some(namespace) = entry.key().namespace() {
            self.namespaces.set(slot, std::iter::once((hash_of(namespace), namespace.into())));
        }
        self.indexes.set(slot, &mut batch.evaluated, batch.next);
        let initial = matches!(batch.source, StateSource::List { initial: true });
        batch.outcome.events.push(Event::Added { object: entry, initial });
    }

    fn update(&mut self, slot: u32, mut new: Entry<T>, batch: &mut WriteBatch<'_, T>) {
        let Some(held) = self.objects.get_mut(slot) else { return };
        // All states of an object share the text of its key, also with the key table.
        new.id.key = held.id.key.clone();
        let old = std::mem::replace(held, new.clone());
        self.indexes.set(slot, &mut batch.evaluated, batch.next);
        self.set_stale(slot, false);
        batch.outcome.events.push(Event::Updated { old, new });
    }

    fn remove(&mut self, id: &ObjectId, last: Option<Entry<T>>, outcome: &mut ApplyOutcome<T>) {
        match self.held(id.key.as_ref()) {
            Some((slot, held)) if !held.uid.differs_from(&id.uid) => {
                self.delete(slot, last, Removal::Deleted, outcome);
            }
            _ => outcome.repeated(last),
        }
    }

    /// Deletes the object in a slot. Without `last`, the event contains the cached state.
    pub(crate) fn delete(
        &mut self,
        slot: u32,
        last: Option<Entry<T>>,
        removal: Removal,
        outcome: &mut ApplyOutcome<T>,
    ) {
        let Some(hash) = self.objects.get(slot).map(|entry| hash_of_key(entry.key().as_ref())) else {
            return;
        };
        let Some(cached) = self.objects.remove(hash, slot) else { return };
        self.namespaces.clear(slot);
        self.indexes.clear(slot);
        self.set_stale(slot, false);
        // The event must identify the deleted object, even if a source sends another object.
        match last.filter(|last| last.key() == cached.key()) {
            None => outcome.deleted(cached, removal),
            Some(last) => {
                outcome.discarded.push(cached);
                outcome.deleted(last, removal);
            }
        }
    }

    pub(crate) fn mark_undecodable(&mut self, id: &ObjectId, outcome: &mut ApplyOutcome<T>) {
        match self.held(id.key.as_ref()) {
            Some((slot, held)) if self.is_repeat(slot, held, id, None) => outcome.repeated(None),
            Some((slot, held)) if held.uid.differs_from(&id.uid) => {
                self.delete(slot, None, Removal::FinalStateUnknown, outcome);
            }
            Some((slot, _)) => self.set_stale(slot, true),
            None => {}
        }
    }

    pub(crate) fn set_stale(&mut self, slot: u32, stale: bool) {
        if self.stale.contains(&slot) == stale {
            return;
        }
        let slots = Arc::make_mut(&mut self.stale);
        if stale {
            slots.insert(slot);
        } else {
            slots.remove(&slot);
        }
    }

    /// Panics unless all parts refer to the same objects. For tests.
    pub(crate) fn check(&self) {
        self.objects.check(|entry| hash_of_key(entry.key().as_ref()));
        let slots: Vec<u32> = self.objects.iter().map(|(slot, _)| slot).collect();
        self.namespaces.check(slots.iter().copied());
        self.indexes.check(&slots);
        for (slot, entry) in self.objects.iter() {
            assert_eq!(
                self.find(entry.key().as_ref()),
                Some(slot),
                "a lookup of {} returns another slot",
                entry.key()
            );
            let namespaced =
                entry.key().namespace().map(|name| self.namespaces.slots(name).any(|s| s == slot));
            assert_ne!(namespaced, Some(false), "{} is missing from its namespace", entry.key());
        }
        assert!(
            self.stale.iter().all(|slot| slots.binary_search(slot).is_ok()),
            "a free slot has a stale mark"
        );
    }
}
