//! Maps events to objects: a pure function of the event number. The server can therefore send any
//! number of events again without storing them.
//!
//! Events change the objects in a fixed pseudo-random order. Each object changes once before the
//! order repeats.

use fastrand::Rng;

/// The order of the events. Event numbers start at 1; event 0 is the state of the list.
pub(crate) struct History {
    /// The resourceVersion of the list.
    base: u64,
    /// For each event of a round, the object that it changes.
    order: Vec<usize>,
    /// For each object, the event of a round that changes it.
    place: Vec<u64>,
}

impl History {
    /// Creates the events of `objects` objects with a list at resourceVersion `base`.
    pub(crate) fn new(base: u64, objects: usize) -> Self {
        let mut order: Vec<usize> = (0..objects).collect();
        Rng::with_seed(1).shuffle(&mut order);
        let mut place = vec![0; objects];
        for (at, &object) in (0..).zip(&order) {
            place[object] = at;
        }
        Self { base, order, place }
    }

    /// Returns the number of objects.
    pub(crate) fn objects(&self) -> usize {
        self.order.len()
    }

    /// Returns the resourceVersion of the server after `event`.
    pub(crate) fn version(&self, event: u64) -> u64 {
        self.base + event
    }

    /// Returns the resourceVersion of an object before its first event, if one round of events
    /// before the list created the objects.
    pub(crate) fn version_before(&self, object: usize) -> u64 {
        self.base + 1 + self.place[object] - self.order.len() as u64
    }

    /// Returns the event after which the server has this resourceVersion.
    pub(crate) fn event(&self, version: u64) -> u64 {
        version.saturating_sub(self.base)
    }

    /// Returns the object that `event` changes.
    pub(crate) fn object(&self, event: u64) -> usize {
        self.order[((event - 1) % self.order.len() as u64) as usize]
    }

    /// Returns the last event up to `event` that changed an object, or `None` if no event has
    /// changed it.
    pub(crate) fn last_change(&self, object: usize, event: u64) -> Option<u64> {
        let (place, round) = (self.place[object], self.order.len() as u64);
        let rounds = event.checked_sub(place + 1)? / round;
        Some(rounds * round + place + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_change_is_the_last_event_of_an_object() {
        let history = History::new(100, 7);
        let mut last = [None; 7];
        for event in 1..40 {
            last[history.object(event)] = Some(event);
            for (object, last) in last.iter().enumerate() {
                assert_eq!(history.last_change(object, event), *last, "object {object} after event {event}");
            }
        }
    }

    #[test]
    fn versions_before_first_event_are_unique() {
        let history = History::new(100, 50);
        let mut versions: Vec<u64> = (0..50).map(|object| history.version_before(object)).collect();
        versions.sort_unstable();
        assert_eq!(versions, (51..=100).collect::<Vec<_>>());
    }

    #[test]
    fn each_object_changes_once_per_round() {
        let history = History::new(100, 50);
        let mut changed: Vec<usize> = (51..=100).map(|event| history.object(event)).collect();
        assert_ne!(changed, (0..50).collect::<Vec<_>>());
        changed.sort_unstable();
        assert_eq!(changed, (0..50).collect::<Vec<_>>());
    }
}
