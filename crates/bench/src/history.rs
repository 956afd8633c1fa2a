//! Which event changes which object: a pure function of the event's number, so that any number of events can be sent,
//! and sent again, without remembering them.
//!
//! Events change the objects in a fixed order that looks random, all of them before the first comes again.

use fastrand::Rng;

/// The order of events, which are numbered from 1; after event 0 all objects are as they were listed.
pub(crate) struct History {
    /// The version of the list.
    base: u64,
    /// The object that each event of a round changes, and the event of a round that changes each object.
    order: Vec<usize>,
    place: Vec<u64>,
}

impl History {
    /// The events of so many objects, which were listed at this version.
    pub(crate) fn new(base: u64, objects: usize) -> Self {
        let mut order: Vec<usize> = (0..objects).collect();
        Rng::with_seed(1).shuffle(&mut order);
        let mut place = vec![0; objects];
        for (at, &object) in (0..).zip(&order) {
            place[object] = at;
        }
        Self { base, order, place }
    }

    /// How many objects there are.
    pub(crate) fn objects(&self) -> usize {
        self.order.len()
    }

    /// The version of the server after this event.
    pub(crate) fn version(&self, event: u64) -> u64 {
        self.base + event
    }

    /// The version of an object that no event has changed yet, where the objects have come to be by a round of events
    /// before the list.
    pub(crate) fn version_before(&self, object: usize) -> u64 {
        self.base + 1 + self.place[object] - self.order.len() as u64
    }

    /// The event after which the server had this version.
    pub(crate) fn event(&self, version: u64) -> u64 {
        version.saturating_sub(self.base)
    }

    /// The object that an event changes.
    pub(crate) fn object(&self, event: u64) -> usize {
        self.order[((event - 1) % self.order.len() as u64) as usize]
    }

    /// The last event up to this one that changed an object; `None` while it is as it was listed.
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
    fn the_last_change_of_an_object_is_the_last_event_that_changes_it() {
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
    fn before_the_first_event_each_object_has_a_version_of_its_own() {
        let history = History::new(100, 50);
        let mut versions: Vec<u64> = (0..50).map(|object| history.version_before(object)).collect();
        versions.sort_unstable();
        assert_eq!(versions, (51..=100).collect::<Vec<_>>());
    }

    #[test]
    fn all_objects_change_before_the_first_changes_again() {
        let history = History::new(100, 50);
        let mut changed: Vec<usize> = (51..=100).map(|event| history.object(event)).collect();
        assert_ne!(changed, (0..50).collect::<Vec<_>>());
        changed.sort_unstable();
        assert_eq!(changed, (0..50).collect::<Vec<_>>());
    }
}
