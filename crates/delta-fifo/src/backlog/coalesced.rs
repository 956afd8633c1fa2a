//! `CoalescedChanges`: the part of a backlog above its threshold, one pending change per key, oldest
//! first.

use std::collections::{BTreeMap, HashMap};

use kube_object::{Event, ObjectKey};

use super::coalesce::{PendingChange, coalesce};

/// A change keeps the position of its first event. Otherwise a key that changes all the time would
/// never reach the front. A change that is cancelled out loses its position.
pub(super) struct CoalescedChanges<T> {
    changes: HashMap<ObjectKey, PositionedChange<T>>,
    /// Exactly the keys of `changes`, by their positions.
    order: BTreeMap<u64, ObjectKey>,
    /// Above every position in use.
    next_position: u64,
}

struct PositionedChange<T> {
    position: u64,
    change: PendingChange<T>,
}

impl<T> Clone for CoalescedChanges<T> {
    fn clone(&self) -> Self {
        Self { changes: self.changes.clone(), order: self.order.clone(), next_position: self.next_position }
    }
}

impl<T> Clone for PositionedChange<T> {
    fn clone(&self) -> Self {
        Self { position: self.position, change: self.change.clone() }
    }
}

impl<T> Default for CoalescedChanges<T> {
    fn default() -> Self {
        Self { changes: HashMap::new(), order: BTreeMap::new(), next_position: 0 }
    }
}

impl<T> CoalescedChanges<T> {
    /// Adds an event. Returns how many initial Adds were cancelled out.
    pub(super) fn push(&mut self, event: Event<T>) -> usize {
        match self.changes.remove_entry(event.key()) {
            Some((key, older)) => self.coalesce(key, older, event),
            None => {
                self.append(event.key().clone(), event.into());
                0
            }
        }
    }

    fn append(&mut self, key: ObjectKey, change: PendingChange<T>) {
        let position = self.next_position;
        self.next_position += 1;
        self.order.insert(position, key.clone());
        self.changes.insert(key, PositionedChange { position, change });
    }

    fn coalesce(&mut self, key: ObjectKey, older: PositionedChange<T>, event: Event<T>) -> usize {
        let position = older.position;
        let before = usize::from(older.change.is_initial()) + usize::from(is_initial(&event));
        match coalesce(older.change, event) {
            Some(change) => {
                let after = usize::from(change.is_initial());
                self.changes.insert(key, PositionedChange { position, change });
                before - after // coalescing creates no initial Add
            }
            None => {
                self.order.remove(&position);
                before
            }
        }
    }

    /// Removes the oldest change.
    pub(super) fn pop(&mut self) -> Option<PendingChange<T>> {
        let (_, key) = self.order.pop_first()?;
        Some(self.changes.remove(&key)?.change)
    }

    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.changes.contains_key(key)
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn initial_adds(&self) -> usize {
        self.changes.values().filter(|positioned| positioned.change.is_initial()).count()
    }

    pub(super) fn check(&self) {
        assert_eq!(self.changes.len(), self.order.len(), "one position for each key");
        for (key, positioned) in &self.changes {
            assert_eq!(positioned.change.key(), key, "each change is stored under its own key");
            assert_eq!(self.order.get(&positioned.position), Some(key), "each position refers to its key");
            assert!(positioned.position < self.next_position, "a new change is positioned behind all others");
        }
    }
}

pub(super) fn is_initial<T>(event: &Event<T>) -> bool {
    matches!(event, Event::Added { initial: true, .. })
}
