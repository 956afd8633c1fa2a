//! Delayed keys in the order of their deadlines, with at most one deadline per key. Plain data: the
//! caller passes the time.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use foldhash::quality::RandomState;
use tokio::time::Instant;

use crate::priority::Priority;

/// A deadline, and a sequence number that orders equal deadlines.
type Slot = (Instant, u64);

/// The delayed keys of a queue: one entry per distinct key.
#[derive(Debug)]
pub(crate) struct Delayed<T> {
    /// The keys in the order of their deadlines.
    by_deadline: BTreeMap<Slot, (T, Priority)>,
    /// The slot of each key in `by_deadline`. Both maps always hold the same keys.
    slots: HashMap<T, Slot, RandomState>,
    next_sequence: u64,
}

impl<T> Delayed<T> {
    pub(crate) fn new() -> Self {
        Delayed { by_deadline: BTreeMap::new(), slots: HashMap::default(), next_sequence: 0 }
    }

    /// Returns the earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// Returns the number of delayed keys.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn clear(&mut self) {
        self.by_deadline.clear();
        self.slots.clear();
    }
}

impl<T: Eq + Hash + Clone> Delayed<T> {
    /// Delays `key` until `deadline`. A key that is delayed already keeps the earlier deadline and
    /// the higher priority.
    pub(crate) fn set(&mut self, key: T, priority: Priority, deadline: Instant) {
        let mut highest = priority;
        if let Some(slot) = self.slots.get(&key) {
            if let Some((_, known)) = self.by_deadline.get_mut(slot) {
                *known = priority.max(*known);
                highest = *known;
            }
            if slot.0 <= deadline {
                return;
            }
            self.by_deadline.remove(slot);
        }
        let slot = (deadline, self.next_sequence);
        self.next_sequence += 1;
        self.by_deadline.insert(slot, (key.clone(), highest));
        self.slots.insert(key, slot);
    }

    /// Removes and returns the selected keys.
    pub(crate) fn remove_where(&mut self, is_selected: impl Fn(&T) -> bool) -> Vec<T> {
        let removed: Vec<(T, Slot)> = self.slots.extract_if(|key, _| is_selected(key)).collect();
        removed.iter().for_each(|(_, slot)| _ = self.by_deadline.remove(slot));
        removed.into_iter().map(|(key, _)| key).collect()
    }

    /// Removes the key with the earliest deadline if `now` has reached it. Returns the key, its
    /// priority and deadline.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(T, Priority, Instant)> {
        let first = self.by_deadline.first_entry().filter(|entry| entry.key().0 <= now)?;
        let deadline = first.key().0;
        let (key, priority) = first.remove();
        self.slots.remove(&key);
        Some((key, priority, deadline))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn drain(delayed: &mut Delayed<&'static str>, now: Instant) -> Vec<&'static str> {
        std::iter::from_fn(|| delayed.pop_due(now)).map(|(key, _, _)| key).collect()
    }

    fn times() -> [Instant; 4] {
        let start = Instant::now();
        [0, 10, 20, 30].map(|ms| start + Duration::from_millis(ms))
    }

    #[test]
    fn keys_become_due_in_order_of_deadlines() {
        let [t0, t1, t2, t3] = times();
        let mut delayed = Delayed::new();
        delayed.set("c", Priority::NORMAL, t3);
        delayed.set("a", Priority::NORMAL, t1);
        delayed.set("b", Priority::NORMAL, t2);
        assert_eq!(delayed.next_deadline(), Some(t1));
        assert_eq!(drain(&mut delayed, t0), Vec::<&str>::new());
        assert_eq!(drain(&mut delayed, t2), ["a", "b"]);
        assert_eq!(delayed.next_deadline(), Some(t3));
    }

    #[test]
    fn keys_with_equal_deadlines_become_due_in_order_of_adds() {
        let [_, t1, ..] = times();
        let mut delayed = Delayed::new();
        for key in ["z", "a", "m"] {
            delayed.set(key, Priority::NORMAL, t1);
        }
        assert_eq!(drain(&mut delayed, t1), ["z", "a", "m"]);
    }

    #[test]
    fn only_earlier_deadline_replaces_existing_one() {
        let [_, t1, t2, t3] = times();
        let mut delayed = Delayed::new();
        delayed.set("a", Priority::NORMAL, t2);
        delayed.set("a", Priority::NORMAL, t1);
        delayed.set("a", Priority::NORMAL, t3);
        assert_eq!(drain(&mut delayed, t1), ["a"]);
        assert_eq!(drain(&mut delayed, t3), Vec::<&str>::new());
        assert_eq!((delayed.by_deadline.len(), delayed.slots.len()), (0, 0));
    }

    #[test]
    fn due_key_can_be_delayed_again() {
        let [_, t1, t2, _] = times();
        let mut delayed = Delayed::new();
        delayed.set("a", Priority::NORMAL, t1);
        assert_eq!(delayed.pop_due(t2), Some(("a", Priority::NORMAL, t1)));
        delayed.set("a", Priority::NORMAL, t2);
        assert_eq!(delayed.next_deadline(), Some(t2));
    }

    #[test]
    fn higher_priority_applies_with_either_deadline() {
        let [_, t1, t2, _] = times();
        for (first, then) in [((t1, 5), (t2, 7)), ((t2, 5), (t1, 7)), ((t2, 7), (t1, 5))] {
            let mut delayed = Delayed::new();
            delayed.set("a", Priority(first.1), first.0);
            delayed.set("a", Priority(then.1), then.0);
            assert_eq!(delayed.pop_due(t2), Some(("a", Priority(7), t1)));
        }
    }

    #[test]
    fn clear_removes_everything() {
        let [_, t1, ..] = times();
        let mut delayed = Delayed::new();
        delayed.set("a", Priority::NORMAL, t1);
        delayed.clear();
        assert_eq!((delayed.next_deadline(), delayed.pop_due(t1)), (None, None));
    }
}
