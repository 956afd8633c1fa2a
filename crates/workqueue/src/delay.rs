//! Keys that come later: at most one timer per key, the earliest deadline first. Plain data; the clock is the
//! caller's.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

use crate::priority::Priority;

/// When, and which of those with the same deadline was asked for first.
type Slot = (Instant, u64);

/// The timers of a queue. Bound: one per distinct key.
#[derive(Debug)]
pub(crate) struct Delayed<T> {
    /// Canonical: deadline to key, in the order in which they come due.
    by_deadline: BTreeMap<Slot, (T, Priority)>,
    /// Where each key stands in `by_deadline`; the two always hold the same keys.
    slots: HashMap<T, Slot>,
    /// Breaks ties between equal deadlines in the order of asking.
    asked: u64,
}

impl<T> Delayed<T> {
    pub(crate) fn new() -> Self {
        Delayed { by_deadline: BTreeMap::new(), slots: HashMap::new(), asked: 0 }
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// How many keys come later.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn clear(&mut self) {
        self.by_deadline.clear();
        self.slots.clear();
    }
}

impl<T: Eq + Hash + Clone> Delayed<T> {
    /// Sets the timer of `key` to `deadline`, unless it is set to that time or an earlier one. Of two priorities the
    /// higher counts.
    pub(crate) fn set(&mut self, key: T, priority: Priority, deadline: Instant) {
        let mut wanted = priority;
        if let Some(slot) = self.slots.get(&key) {
            if let Some((_, before)) = self.by_deadline.get_mut(slot) {
                *before = priority.max(*before);
                wanted = *before;
            }
            if slot.0 <= deadline {
                return;
            }
            self.by_deadline.remove(slot);
        }
        let slot = (deadline, self.asked);
        self.asked += 1;
        self.by_deadline.insert(slot, (key.clone(), wanted));
        self.slots.insert(key, slot);
    }

    /// Takes out the key with the earliest deadline, if that is not later than `now`; says when that was.
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
    fn keys_come_due_in_the_order_of_their_deadlines() {
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
    fn equal_deadlines_come_due_in_the_order_of_asking() {
        let [_, t1, ..] = times();
        let mut delayed = Delayed::new();
        for key in ["z", "a", "m"] {
            delayed.set(key, Priority::NORMAL, t1);
        }
        assert_eq!(drain(&mut delayed, t1), ["z", "a", "m"]);
    }

    #[test]
    fn an_earlier_deadline_replaces_a_later_one_and_not_the_other_way_round() {
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
    fn a_key_that_came_due_can_be_delayed_again() {
        let [_, t1, t2, _] = times();
        let mut delayed = Delayed::new();
        delayed.set("a", Priority::NORMAL, t1);
        assert_eq!(delayed.pop_due(t2), Some(("a", Priority::NORMAL, t1)));
        delayed.set("a", Priority::NORMAL, t2);
        assert_eq!(delayed.next_deadline(), Some(t2));
    }

    #[test]
    fn of_two_priorities_the_higher_counts_whichever_deadline_does() {
        let [_, t1, t2, _] = times();
        for (first, then) in [((t1, 5), (t2, 7)), ((t2, 5), (t1, 7)), ((t2, 7), (t1, 5))] {
            let mut delayed = Delayed::new();
            delayed.set("a", Priority(first.1), first.0);
            delayed.set("a", Priority(then.1), then.0);
            assert_eq!(delayed.pop_due(t2), Some(("a", Priority(7), t1)));
        }
    }

    #[test]
    fn nothing_is_left_after_clear() {
        let [_, t1, ..] = times();
        let mut delayed = Delayed::new();
        delayed.set("a", Priority::NORMAL, t1);
        delayed.clear();
        assert_eq!((delayed.next_deadline(), delayed.pop_due(t1)), (None, None));
    }
}
