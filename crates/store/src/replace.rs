//! `Relist`: what is collected between a relist's begin and its end, and how the end is applied.
//!
//! An object that has not changed costs one bit here; only changed ones wait beside the cached
//! ones. Slots don't move meanwhile: nothing is written between the begin and the end.

use std::{
    collections::{BTreeSet, HashMap, hash_map},
    sync::Arc,
};

use kube_object::{Delta, Entry, Listed, Object, ObjectId, ObjectKey, ResourceVersion};

use crate::{
    root::{Outcome, Root, Source},
    store::same_digest,
};

/// So many changes are put at a time.
const AT_ONCE: usize = 256;

/// A change that waits for the end.
enum Change<T> {
    Put {
        entry: Entry<T>,
        /// A later state of the same object came that could not be decoded.
        stale: bool,
        /// The last state of the cached object, which was deleted before this one came in its place.
        /// Boxed, as hardly any change has one and a first list makes as many changes as there are objects.
        before: Option<Box<Entry<T>>>,
    },
    /// What was there was deleted during the relist; with the last state of the cached object, if that came.
    Gone(Option<Entry<T>>),
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        match self {
            Change::Put { entry, stale, before } => {
                Change::Put { entry: entry.clone(), stale: *stale, before: before.clone() }
            }
            Change::Gone(last) => Change::Gone(last.clone()),
        }
    }
}

/// A relist under way.
///
/// Invariants: `places` has the one place of each key in `changes`, so that a list that repeats its items for ever takes no
/// more memory; a slot is in `seen` if its
/// object, in whatever version, is part of the new state.
pub(crate) struct Relist<T> {
    history_lost: bool,
    seen: Slotted,
    undecodable: BTreeSet<u32>,
    changes: Vec<Option<Change<T>>>,
    places: HashMap<ObjectKey, usize, foldhash::fast::RandomState>,
}

impl<T> Clone for Relist<T> {
    fn clone(&self) -> Self {
        Self {
            history_lost: self.history_lost,
            seen: self.seen.clone(),
            undecodable: self.undecodable.clone(),
            changes: self.changes.clone(),
            places: self.places.clone(),
        }
    }
}

impl<T: Object> Relist<T> {
    pub(crate) fn new(history_lost: bool) -> Self {
        Self {
            history_lost,
            seen: Slotted::default(),
            undecodable: BTreeSet::new(),
            changes: Vec::new(),
            places: HashMap::default(),
        }
    }

    /// Takes what is neither a begin nor an end; a bookmark moves nothing here.
    pub(crate) fn collect(&mut self, delta: Delta<T>, root: &Root<T>) {
        match delta {
            Delta::Page(items) => items.into_iter().for_each(|item| match item {
                Listed::Object(entry) => self.put(entry, root),
                Listed::Undecodable(id) => self.undecodable(&id, root),
            }),
            Delta::Put(entry) => self.put(entry, root),
            Delta::Remove { id, last } => self.remove(&id, last, root),
            Delta::Undecodable(id) => self.undecodable(&id, root),
            Delta::Bookmark(_) | Delta::Begin { .. } | Delta::End { .. } | Delta::Clear => {}
        }
    }

    fn put(&mut self, entry: Entry<T>, root: &Root<T>) {
        let held = root.held(entry.key().as_ref());
        let mut before = self.forget(entry.key(), held);
        if let Some((slot, held)) = held.filter(|(_, held)| !held.uid.differs_from(&entry.id.uid)) {
            before = None;
            self.seen.insert(slot);
            if self.is_unchanged(held, &entry, root, slot) {
                return;
            }
        }
        self.change(entry.key().clone(), Change::Put { entry, stale: false, before: before.map(Box::new) });
    }

    /// The same version and the same JSON. Where the latter is not known: the very value that is cached, or the same version
    /// in the same history. A stale object's version may be one of a history that the server has lost.
    fn is_unchanged(&self, held: &ObjectId, listed: &Entry<T>, root: &Root<T>, slot: u32) -> bool {
        let Some(entry) = root.objects.get(slot).filter(|_| held.version == listed.id.version) else {
            return false;
        };
        let same_history = !self.history_lost && !held.version.is_opaque() && !root.stale.contains(&slot);
        same_digest(entry.digest, listed.digest)
            .unwrap_or(same_history || Arc::ptr_eq(&entry.object, &listed.object))
    }

    fn remove(&mut self, id: &ObjectId, last: Option<Entry<T>>, root: &Root<T>) {
        if self.current(&id.key, root).is_none_or(|current| current.uid.differs_from(&id.uid)) {
            return;
        }
        let held = root.held(id.key.as_ref());
        let before = self.forget(&id.key, held);
        let of_held = |last: &Entry<T>| held.is_some_and(|(_, held)| !held.uid.differs_from(&last.id.uid));
        self.change(id.key.clone(), Change::Gone(last.filter(of_held).or(before)));
    }

    fn undecodable(&mut self, id: &ObjectId, root: &Root<T>) {
        if let Some(Change::Put { entry, stale, .. }) = self.change_of(&id.key)
            && !entry.id.uid.differs_from(&id.uid)
        {
            *stale = true;
            return;
        }
        let held = root.held(id.key.as_ref());
        let before = self.forget(&id.key, held);
        if let Some((slot, _)) = held.filter(|(_, held)| !held.uid.differs_from(&id.uid)) {
            self.seen.insert(slot);
            self.undecodable.insert(slot);
        } else if before.is_some() {
            self.change(id.key.clone(), Change::Gone(before));
        }
    }

    /// The object under this key as far as is known by now: collected, or else cached.
    fn current<'a>(&'a mut self, key: &ObjectKey, root: &'a Root<T>) -> Option<&'a ObjectId> {
        match self.change_of(key) {
            Some(Change::Put { entry, .. }) => Some(&entry.id),
            Some(Change::Gone(_)) => None,
            None => root.held(key.as_ref()).map(|(_, held)| held),
        }
    }

    fn change_of(&mut self, key: &ObjectKey) -> Option<&mut Change<T>> {
        self.changes[*self.places.get(key)?].as_mut()
    }

    fn change(&mut self, key: ObjectKey, change: Change<T>) {
        match self.places.entry(key) {
            hash_map::Entry::Occupied(place) => self.changes[*place.get()] = Some(change),
            hash_map::Entry::Vacant(place) => {
                place.insert(self.changes.len());
                self.changes.push(Some(change));
            }
        }
    }

    /// Takes back what was collected for this key and for what is held under it; gives the last state of the latter, if
    /// its deletion has come.
    fn forget(&mut self, key: &ObjectKey, held: Option<(u32, &ObjectId)>) -> Option<Entry<T>> {
        if let Some((slot, _)) = held {
            self.seen.remove(slot);
            self.undecodable.remove(&slot);
        }
        match self.changes[*self.places.get(key)?].take()? {
            Change::Gone(last) => last,
            Change::Put { before, .. } => before.map(|before| *before),
        }
    }

    /// Makes the list the state: deletions in the order of keys, then changes in the order in which their keys came.
    pub(crate) fn end(
        mut self,
        version: ResourceVersion,
        complete: bool,
        root: &mut Root<T>,
        outcome: &mut Outcome<T>,
    ) {
        self.delete_unseen(complete, root, outcome);
        outcome.lists += 1;
        outcome.lists_after_lost_history += u64::from(self.history_lost);
        self.refresh_stale(root);
        self.put_changes(root, outcome);
        root.watermark.listed(version);
    }

    /// What is not part of the new state; where that is not all of it, only what something else is there instead of.
    fn delete_unseen(&mut self, complete: bool, root: &mut Root<T>, outcome: &mut Outcome<T>) {
        for (key, slot) in root.slots_by_key(|slot| !self.seen.contains(slot)) {
            if !complete && !matches!(self.change_of(&key), Some(Change::Put { .. })) {
                continue;
            }
            let last = self.last_state(&key, root);
            let unknown = last.is_none();
            root.delete(slot, last, unknown, outcome);
        }
    }

    /// The last state of a cached object, if its deletion came during the relist.
    fn last_state(&mut self, key: &ObjectKey, root: &Root<T>) -> Option<Entry<T>> {
        let (_, held) = root.held(key.as_ref())?;
        let last = match self.change_of(key)? {
            Change::Gone(last) => last.as_ref(),
            Change::Put { before, .. } => before.as_deref(),
        };
        last.filter(|last| !held.uid.differs_from(&last.id.uid)).cloned()
    }

    /// What was listed in a state that can be decoded is not stale any more.
    fn refresh_stale(&self, root: &mut Root<T>) {
        let refreshed: Vec<u32> =
            root.stale.iter().copied().filter(|slot| self.seen.contains(*slot)).collect();
        for slot in refreshed {
            root.set_stale(slot, false);
        }
        for slot in &self.undecodable {
            root.set_stale(*slot, true);
        }
    }

    fn put_changes(self, root: &mut Root<T>, outcome: &mut Outcome<T>) {
        outcome.events.reserve(self.changes.len());
        let source = Source::List { initial: !root.watermark.synced };
        let mut changes = self.changes.into_iter().flatten().filter_map(|change| match change {
            Change::Put { entry, stale, .. } => Some((entry, stale)),
            Change::Gone(_) => None,
        });
        loop {
            let puts: Vec<(Entry<T>, bool)> = changes.by_ref().take(AT_ONCE).collect();
            if puts.is_empty() {
                return;
            }
            put_all(puts, source, root, outcome);
        }
    }
}

fn put_all<T: Object>(
    puts: Vec<(Entry<T>, bool)>,
    source: Source,
    root: &mut Root<T>,
    outcome: &mut Outcome<T>,
) {
    let entries: Vec<&Entry<T>> = puts.iter().map(|(entry, _)| entry).collect();
    let mut evaluated = root.indexes.evaluate(&entries);
    outcome.panics += evaluated.panics;
    root.fetch(&entries);
    for (at, (entry, stale)) in puts.into_iter().enumerate() {
        let key = stale.then(|| entry.key().clone());
        root.put(entry, &mut evaluated, at, source, outcome);
        if let Some(slot) = key.and_then(|key| root.find(key.as_ref())) {
            root.set_stale(slot, true);
        }
    }
}

/// A set of slots: one bit each.
#[derive(Default, Clone)]
struct Slotted(Vec<u64>);

impl Slotted {
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
