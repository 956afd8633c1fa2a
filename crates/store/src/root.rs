//! `Root`: everything that one moment of the store holds, and the rules by which one delta changes it.
//!
//! Plain data without a lock: a copy of it is a snapshot, and writing to it changes no copy.

use std::{collections::BTreeSet, hint::black_box, sync::Arc};

use kube_object::{Delta, Entry, Event, KeyRef, Object, ObjectId, ObjectKey, ResourceVersion};

use crate::{
    Watermark,
    erased::{Evaluated, Indexes},
    hashed::hash_of,
    postings::Postings,
    slots::Slots,
};

/// Invariant: objects, namespaces, indexes and `stale` speak of the same slots.
pub(crate) struct Root<T> {
    pub(crate) objects: Slots<Entry<T>>,
    pub(crate) namespaces: Postings<Arc<str>>,
    pub(crate) indexes: Indexes<T>,
    /// Slots whose object has changed on the server into something that can't be decoded.
    pub(crate) stale: Arc<BTreeSet<u32>>,
    pub(crate) watermark: Watermark,
}

impl<T: 'static> Clone for Root<T> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            namespaces: self.namespaces.clone(),
            indexes: self.indexes.clone(),
            stale: Arc::clone(&self.stale),
            watermark: self.watermark.clone(),
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
        }
    }
}

/// What a batch has led to.
pub(crate) struct Outcome<T> {
    pub(crate) events: Vec<Event<T>>,
    /// What nobody needs any more: dropped after the write, not while readers are kept out.
    pub(crate) discarded: Vec<Entry<T>>,
    /// Deltas that told nothing new.
    pub(crate) repeats: u64,
    /// Calls of index functions that panicked.
    pub(crate) panics: u64,
    /// Lists that came to their end.
    pub(crate) lists: u64,
    /// Of them, those in which no version was trusted.
    pub(crate) lists_after_lost_history: u64,
}

impl<T> Outcome<T> {
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            events: Vec::with_capacity(expected),
            discarded: Vec::new(),
            repeats: 0,
            panics: 0,
            lists: 0,
            lists_after_lost_history: 0,
        }
    }

    fn deleted(&mut self, last: Entry<T>, final_state_unknown: bool) {
        self.events.push(Event::Deleted { last, final_state_unknown });
    }

    fn repeated(&mut self, entry: Option<Entry<T>>) {
        self.repeats += 1;
        self.discarded.extend(entry);
    }
}

/// Where a state of an object comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// An event: what is older than the cached state is a repeat.
    Live,
    /// A list, which is the truth even where it is older.
    List { initial: bool },
}

impl<T: Object> Root<T> {
    pub(crate) fn find(&self, key: KeyRef<'_>) -> Option<u32> {
        self.objects.find(hash_of(&key), |entry| key == *entry.key())
    }

    /// The slot and the identity of what is held under this key.
    pub(crate) fn held(&self, key: KeyRef<'_>) -> Option<(u32, &ObjectId)> {
        let slot = self.find(key)?;
        Some((slot, &self.objects.get(slot)?.id))
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<&Entry<T>> {
        self.objects.get(self.find(key)?)
    }

    /// Looks at what putting these objects will look at, and changes nothing. Objects that change together are far apart in
    /// memory: in loops as short as these the processor waits for many places at once, and not for one after the other.
    pub(crate) fn fetch(&self, puts: &[&Entry<T>]) {
        let hashes: Vec<u64> = puts.iter().map(|put| hash_of(put.key())).collect();
        let slots: Vec<u32> = hashes.iter().filter_map(|hash| self.objects.likely(*hash)).collect();
        let look = |entry: &Entry<T>| {
            let of_key = entry.key().as_str().as_bytes().first();
            Arc::strong_count(&entry.object) ^ usize::from(*of_key.unwrap_or(&0))
        };
        let entries = slots.iter().filter_map(|slot| self.objects.get(*slot));
        black_box(entries.fold(0, |seen, entry| seen ^ look(entry)));
        self.indexes.fetch(&slots);
    }

    /// Applies a delta outside of a relist. `at` is the place of a [`Delta::Put`]'s object among
    /// the evaluated.
    pub(crate) fn live(
        &mut self,
        delta: Delta<T>,
        evaluated: &mut Evaluated,
        at: usize,
        outcome: &mut Outcome<T>,
    ) {
        match delta {
            Delta::Put(entry) => {
                let version = entry.id.version.clone();
                self.put(entry, evaluated, at, Source::Live, outcome);
                self.watermark.advance(&version);
            }
            Delta::Remove { id, last } => {
                self.watermark.advance(&id.version);
                self.remove(&id, last, outcome);
            }
            Delta::Undecodable(id) => {
                self.watermark.advance(&id.version);
                self.undecodable(&id, outcome);
            }
            Delta::Bookmark(version) | Delta::End { version, .. } => self.watermark.advance(&version),
            Delta::Clear => self.clear(outcome),
            Delta::Begin { .. } | Delta::Page(_) => {}
        }
    }

    /// Deletes everything, unseen.
    pub(crate) fn clear(&mut self, outcome: &mut Outcome<T>) {
        for (_, slot) in self.slots_by_key(|_| true) {
            self.delete(slot, None, true, outcome);
        }
    }

    /// These slots, in the order of their objects' keys.
    pub(crate) fn slots_by_key(&self, wanted: impl Fn(u32) -> bool) -> Vec<(ObjectKey, u32)> {
        let mut slots: Vec<(ObjectKey, u32)> = (self.objects.iter())
            .filter(|(slot, _)| wanted(*slot))
            .map(|(slot, entry)| (entry.key().clone(), slot))
            .collect();
        slots.sort_unstable();
        slots
    }

    /// Makes this the state of its object.
    pub(crate) fn put(
        &mut self,
        entry: Entry<T>,
        evaluated: &mut Evaluated,
        at: usize,
        source: Source,
        outcome: &mut Outcome<T>,
    ) {
        let held = self.held(entry.key().as_ref());
        if let (Some((_, held)), Source::Live) = (held, source)
            && is_repeat(held, &entry.id)
            && !self.is_news_of_another_history(held, &entry.id)
        {
            return outcome.repeated(Some(entry));
        }
        match held.map(|(slot, held)| (slot, held.uid.differs_from(&entry.id.uid))) {
            None => self.insert(entry, evaluated, at, source, outcome),
            Some((slot, false)) => self.update(slot, entry, evaluated, at, outcome),
            Some((slot, true)) => {
                self.delete(slot, None, true, outcome);
                self.insert(entry, evaluated, at, source, outcome);
            }
        }
    }

    /// Whether what is held has a version of a history that the server has lost, and an event tells what comes after all
    /// that was seen of the present one. After a list that began a new epoch only an object whose listed state could not be
    /// decoded has such a version.
    fn is_news_of_another_history(&self, held: &ObjectId, event: &ObjectId) -> bool {
        let beyond = |seen: &ResourceVersion| held.version > *seen && !seen.at_least(&event.version);
        self.watermark.version.as_ref().is_some_and(beyond)
    }

    fn insert(
        &mut self,
        entry: Entry<T>,
        evaluated: &mut Evaluated,
        at: usize,
        source: Source,
        outcome: &mut Outcome<T>,
    ) {
        let slot = self.objects.insert(hash_of(entry.key()), entry.clone());
        if let Some(namespace) = entry.key().namespace() {
            self.namespaces.set(slot, std::iter::once((hash_of(namespace), namespace.into())));
        }
        self.indexes.set(slot, evaluated, at);
        let initial = matches!(source, Source::List { initial: true });
        outcome.events.push(Event::Added { object: entry, initial });
    }

    fn update(
        &mut self,
        slot: u32,
        new: Entry<T>,
        evaluated: &mut Evaluated,
        at: usize,
        outcome: &mut Outcome<T>,
    ) {
        let Some(held) = self.objects.get_mut(slot) else { return };
        let old = std::mem::replace(held, new.clone());
        self.indexes.set(slot, evaluated, at);
        self.set_stale(slot, false);
        outcome.events.push(Event::Updated { old, new });
    }

    fn remove(&mut self, id: &ObjectId, last: Option<Entry<T>>, outcome: &mut Outcome<T>) {
        match self.held(id.key.as_ref()) {
            Some((slot, held)) if !held.uid.differs_from(&id.uid) => self.delete(slot, last, false, outcome),
            _ => outcome.repeated(last),
        }
    }

    /// Empties a slot; without a `last` state the cached one is the last known.
    pub(crate) fn delete(
        &mut self,
        slot: u32,
        last: Option<Entry<T>>,
        final_state_unknown: bool,
        outcome: &mut Outcome<T>,
    ) {
        let Some(hash) = self.objects.get(slot).map(|entry| hash_of(entry.key())) else { return };
        let Some(cached) = self.objects.remove(hash, slot) else { return };
        self.namespaces.clear(slot);
        self.indexes.clear(slot);
        self.set_stale(slot, false);
        match last {
            None => outcome.deleted(cached, final_state_unknown),
            Some(last) => {
                outcome.discarded.push(cached);
                outcome.deleted(last, final_state_unknown);
            }
        }
    }

    fn undecodable(&mut self, id: &ObjectId, outcome: &mut Outcome<T>) {
        match self.held(id.key.as_ref()) {
            Some((_, held)) if is_repeat(held, id) => outcome.repeated(None),
            Some((slot, held)) if held.uid.differs_from(&id.uid) => self.delete(slot, None, true, outcome),
            Some((slot, _)) => self.set_stale(slot, true),
            None => {}
        }
    }

    pub(crate) fn set_stale(&mut self, slot: u32, stale: bool) {
        if self.stale.contains(&slot) == stale {
            return;
        }
        match stale {
            true => Arc::make_mut(&mut self.stale).insert(slot),
            false => Arc::make_mut(&mut self.stale).remove(&slot),
        };
    }

    /// Panics unless all parts speak of the same objects; for tests.
    pub(crate) fn check(&self) {
        self.objects.check(|entry| hash_of(entry.key()));
        let slots: Vec<u32> = self.objects.iter().map(|(slot, _)| slot).collect();
        self.namespaces.check(slots.iter().copied());
        self.indexes.check(&slots);
        for (slot, entry) in self.objects.iter() {
            assert_eq!(self.find(entry.key().as_ref()), Some(slot), "{} is found elsewhere", entry.key());
            let namespaced =
                entry.key().namespace().map(|name| self.namespaces.slots(name).any(|s| s == slot));
            assert_ne!(namespaced, Some(false), "{} is missing in its namespace", entry.key());
        }
        assert!(self.stale.iter().all(|slot| slots.binary_search(slot).is_ok()), "a free slot is stale");
    }
}

/// Whether an event tells what the held state has told already, or something older. The same holds
/// for another incarnation: versions of one type are ordered over all its objects, so one with
/// a lower version is the one before. An opaque version is never known to be a repeat.
fn is_repeat(held: &ObjectId, event: &ObjectId) -> bool {
    match held.uid.differs_from(&event.uid) {
        true => event.version < held.version,
        false => held.version.at_least(&event.version),
    }
}
