//! `CoalescedChanges`: the part of a backlog above its threshold. It holds one pending change per
//! key, in the order of the first events.

use std::collections::{BTreeMap, HashMap};

use kube_object::{Event, ObjectKey};

use super::coalesce::{PendingChange, coalesce};

/// Holds one pending change per key. A change has the position of its first event. Otherwise, a key
/// with continuous changes would never reach the front. If a change is cancelled out, its position
/// is removed.
pub(super) struct CoalescedChanges<T> {
    changes: HashMap<ObjectKey, PositionedChange<T>>,
    /// The keys of `changes`, by their positions.
    order: BTreeMap<u64, ObjectKey>,
    /// The position of the next new key. Higher than every position in use.
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
    /// Adds an event. Returns the number of initial Adds that were cancelled out.
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
                before - after // Coalescing never creates an initial Add.
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
        assert_eq!(self.changes.len(), self.order.len(), "each key has one position");
        for (key, positioned) in &self.changes {
            assert_eq!(positioned.change.key(), key, "each change is stored under its own key");
            assert_eq!(self.order.get(&positioned.position), Some(key), "each position refers to its key");
            assert!(positioned.position < self.next_position, "a new change has the highest position");
        }
    }
}

pub(super) fn is_initial<T>(event: &Event<T>) -> bool {
    matches!(event, Event::Added { initial: true, .. })
}
