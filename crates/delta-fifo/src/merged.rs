//! `Merged`: the part of a backlog past its mark, one pending change for each key, oldest first.

use std::collections::{BTreeMap, HashMap};

use kube_object::{Event, ObjectKey};

use crate::merge::{Pending, merge};

/// A change keeps the place of the first event that it was merged from, so that a key which
/// changes all the time is not put off for ever. One that merges to nothing loses its place.
pub(crate) struct Merged<T> {
    /// Each change stands under its own key.
    changes: HashMap<ObjectKey, Placed<T>>,
    /// The keys of `changes` and no others, by the place noted there.
    order: BTreeMap<u64, ObjectKey>,
    /// Above every place in use.
    next_place: u64,
}

struct Placed<T> {
    place: u64,
    change: Pending<T>,
}

impl<T> Clone for Merged<T> {
    fn clone(&self) -> Self {
        Self { changes: self.changes.clone(), order: self.order.clone(), next_place: self.next_place }
    }
}

impl<T> Clone for Placed<T> {
    fn clone(&self) -> Self {
        Self { place: self.place, change: self.change.clone() }
    }
}

impl<T> Default for Merged<T> {
    fn default() -> Self {
        Self { changes: HashMap::new(), order: BTreeMap::new(), next_place: 0 }
    }
}

impl<T> Merged<T> {
    /// Takes an event in and returns how many initial Adds are gone because of it.
    pub(crate) fn push(&mut self, event: Event<T>) -> usize {
        match self.changes.remove_entry(event.key()) {
            Some((key, older)) => self.merge(key, older, event),
            None => {
                self.append(event.key().clone(), event.into());
                0
            }
        }
    }

    fn append(&mut self, key: ObjectKey, change: Pending<T>) {
        let place = self.next_place;
        self.next_place += 1;
        self.order.insert(place, key.clone());
        self.changes.insert(key, Placed { place, change });
    }

    fn merge(&mut self, key: ObjectKey, older: Placed<T>, event: Event<T>) -> usize {
        let place = older.place;
        let before = usize::from(older.change.is_initial()) + usize::from(is_initial(&event));
        match merge(older.change, event) {
            Some(change) => {
                let after = usize::from(change.is_initial());
                self.changes.insert(key, Placed { place, change });
                before - after // merging makes no initial Add, it keeps one or none
            }
            None => {
                self.order.remove(&place);
                before
            }
        }
    }

    /// Takes out the change that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Pending<T>> {
        let (_, key) = self.order.pop_first()?;
        Some(self.changes.remove(&key)?.change)
    }

    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.changes.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(crate) fn initial_adds(&self) -> usize {
        self.changes.values().filter(|placed| placed.change.is_initial()).count()
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.changes.len(), self.order.len(), "one place for each key");
        for (key, placed) in &self.changes {
            assert_eq!(placed.change.key(), key, "each change stands under its own key");
            assert_eq!(self.order.get(&placed.place), Some(key), "each place holds its key");
            assert!(placed.place < self.next_place, "a new change goes behind all others");
        }
    }
}

pub(crate) fn is_initial<T>(event: &Event<T>) -> bool {
    matches!(event, Event::Added { initial: true, .. })
}
