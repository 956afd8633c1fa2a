//! `Merged`: the part of a backlog past its mark, one pending change for each key, oldest first.

use std::collections::{BTreeMap, HashMap};

use kube_object::{Event, ObjectKey};

use crate::merge::{Pending, merge};

/// A change keeps the place of the first event that it was merged from, so that a key which
/// changes all the time is not put off for ever. One that merges to nothing loses its place.
pub(crate) struct Merged<T> {
    /// By place; what the first has waited for longest.
    changes: BTreeMap<u64, Pending<T>>,
    /// The place of each key in `changes`, and no other key.
    places: HashMap<ObjectKey, u64>,
    /// Above every place in use.
    next_place: u64,
}

impl<T> Merged<T> {
    pub(crate) fn new() -> Self {
        Self { changes: BTreeMap::new(), places: HashMap::new(), next_place: 0 }
    }

    /// Takes an event in and returns how many initial Adds are gone because of it (merging never
    /// makes one).
    pub(crate) fn push(&mut self, event: Event<T>) -> usize {
        match self.places.get(event.key()) {
            Some(&place) => self.merge_at(place, event),
            None => {
                self.append(event.into());
                0
            }
        }
    }

    fn append(&mut self, change: Pending<T>) {
        self.places.insert(change.key().clone(), self.next_place);
        self.changes.insert(self.next_place, change);
        self.next_place += 1;
    }

    fn merge_at(&mut self, place: u64, event: Event<T>) -> usize {
        let Some(older) = self.changes.remove(&place) else {
            return 0; // `places` knows only places in use
        };
        let key = event.key().clone();
        let offered = usize::from(older.is_initial()) + usize::from(is_initial(&event));
        let kept = merge(older, event);
        let gone = offered - kept.as_ref().map_or(0, |change| usize::from(change.is_initial()));
        match kept {
            Some(change) => drop(self.changes.insert(place, change)),
            None => drop(self.places.remove(&key)),
        }
        gone
    }

    /// Takes out the change that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Pending<T>> {
        let (_, change) = self.changes.pop_first()?;
        self.places.remove(change.key());
        Some(change)
    }

    pub(crate) fn contains(&self, key: &ObjectKey) -> bool {
        self.places.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(crate) fn initial_adds(&self) -> usize {
        self.changes.values().filter(|change| change.is_initial()).count()
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.changes.len(), self.places.len(), "one place for each key");
        for (place, change) in &self.changes {
            assert_eq!(self.places.get(change.key()), Some(place), "each change is found by its key");
            assert!(*place < self.next_place, "a new change goes behind all others");
        }
    }
}

pub(crate) fn is_initial<T>(event: &Event<T>) -> bool {
    matches!(event, Event::Added { initial: true, .. })
}
