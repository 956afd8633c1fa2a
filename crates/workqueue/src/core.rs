//! What waits and what runs: client-go's dirty set, processing set and queue, as one map and one line.
//! Plain data: no clock, no lock, no waiting.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::priority::Priority;

/// Where a key stands. A key without a stage is unknown to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In the line, exactly once (dirty, not processing).
    Waiting(Waiting),
    /// With a worker (processing, not dirty).
    Running { since: Instant },
    /// With a worker, and added again since it got there (processing and dirty).
    RunningAgain { since: Instant, priority: Priority },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    place: Place,
    priority: Priority,
    since: Instant,
}

/// Where in the line. No two places are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// When it came, earlier by its priority; in nanoseconds since the queue was made.
    rank: i64,
    /// How many have entered the line before it.
    entered: u64,
}

/// A key that was taken from the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken<T> {
    pub(crate) key: T,
    pub(crate) priority: Priority,
    /// How long it has waited.
    pub(crate) waited: Duration,
}

/// The keys that need work and those being worked on.
#[derive(Debug)]
pub(crate) struct Core<T> {
    /// Canonical: what is not in here is nowhere else.
    stages: HashMap<T, Stage>,
    /// The keys whose stage is `Waiting`, each once, at the place that is said there.
    line: BTreeMap<Place, T>,
    /// How many keys have the stage `RunningAgain`.
    again: usize,
    entered: u64,
    made: Instant,
}

impl<T> Core<T> {
    pub(crate) fn new(now: Instant) -> Self {
        Core { stages: HashMap::new(), line: BTreeMap::new(), again: 0, entered: 0, made: now }
    }

    /// How many keys wait in the line.
    pub(crate) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Nothing waits and nothing that runs will wait again, unless somebody adds.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.line.is_empty() && self.again == 0
    }

    /// Nothing waits and nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.stages.is_empty()
    }

    /// The keys that run, and since when.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&T, Instant)> {
        self.stages.iter().filter_map(|(key, stage)| match stage {
            Stage::Waiting(_) => None,
            Stage::Running { since } | Stage::RunningAgain { since, .. } => Some((key, *since)),
        })
    }

    /// A place for a key that comes `now`.
    fn place(&mut self, priority: Priority, now: Instant) -> Place {
        let came = i64::try_from(now.duration_since(self.made).as_nanos()).unwrap_or(i64::MAX);
        let ahead = i64::from(priority.0) * 1_000_000_000;
        self.entered += 1;
        Place { rank: came.saturating_sub(ahead), entered: self.entered }
    }
}

impl<T: Eq + Hash + Clone> Core<T> {
    /// Asks for a run of `key` that starts after this call; says whether none was asked for yet. Of two priorities the
    /// higher counts, and a key keeps its place unless the new one is before it.
    pub(crate) fn add(&mut self, key: T, priority: Priority, now: Instant) -> bool {
        match self.stages.get_mut(&key) {
            None => {
                self.enter(key, priority, now);
                true
            }
            Some(Stage::Running { since }) => {
                let stage = Stage::RunningAgain { since: *since, priority };
                self.stages.insert(key, stage);
                self.again += 1;
                true
            }
            Some(Stage::RunningAgain { priority: wanted, .. }) => {
                *wanted = priority.max(*wanted);
                false
            }
            Some(Stage::Waiting(waiting)) => {
                if priority > waiting.priority {
                    self.hurry(key, priority, now);
                }
                false
            }
        }
    }

    /// The first of the line, which runs from now on.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Taken<T>> {
        let (_, key) = self.line.pop_first()?;
        let stage = self.stages.insert(key.clone(), Stage::Running { since: now });
        let Some(Stage::Waiting(Waiting { priority, since, .. })) = stage else { return None };
        Some(Taken { key, priority, waited: now.duration_since(since) })
    }

    /// The run of `key` is over; says how long it was. A key that does not run is left as it is.
    pub(crate) fn done(&mut self, key: &T, now: Instant) -> Option<Duration> {
        let since = match *self.stages.get(key)? {
            Stage::Waiting(_) => return None,
            Stage::Running { since } => {
                self.stages.remove(key);
                since
            }
            Stage::RunningAgain { since, priority } => {
                self.again -= 1;
                self.enter(key.clone(), priority, now);
                since
            }
        };
        Some(now.duration_since(since))
    }

    fn enter(&mut self, key: T, priority: Priority, now: Instant) {
        let place = self.place(priority, now);
        self.stages.insert(key.clone(), Stage::Waiting(Waiting { place, priority, since: now }));
        self.line.insert(place, key);
    }

    /// A key that waits comes once more, with a higher priority.
    fn hurry(&mut self, key: T, priority: Priority, now: Instant) {
        let better = self.place(priority, now);
        let Some(Stage::Waiting(waiting)) = self.stages.get_mut(&key) else { return };
        waiting.priority = priority;
        if better < waiting.place {
            self.line.remove(&waiting.place);
            waiting.place = better;
            self.line.insert(better, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngSeed};

    use super::*;

    impl Core<u8> {
        /// The relations that the fields' comments state.
        fn check(&self) {
            let waiting: BTreeMap<Place, u8> = (self.stages.iter())
                .filter_map(|(key, stage)| match stage {
                    Stage::Waiting(Waiting { place, .. }) => Some((*place, *key)),
                    Stage::Running { .. } | Stage::RunningAgain { .. } => None,
                })
                .collect();
            assert_eq!(waiting, self.line);
            let again = self.stages.values().filter(|stage| matches!(stage, Stage::RunningAgain { .. }));
            assert_eq!(again.count(), self.again);
        }
    }

    /// client-go's description taken literally: two sets and a list, searched from end to end. With each key its priority
    /// and, in the list, when it came, both in seconds.
    #[derive(Default)]
    struct Naive {
        dirty: Vec<(u8, i32)>,
        processing: Vec<u8>,
        queue: Vec<(u8, i32)>,
    }

    impl Naive {
        fn add(&mut self, key: u8, priority: i32, now: i32) {
            let runs = self.processing.contains(&key);
            let Some((_, wanted)) = self.dirty.iter_mut().find(|(other, _)| *other == key) else {
                self.dirty.push((key, priority));
                if !runs {
                    self.queue.push((key, now - priority));
                }
                return;
            };
            if priority <= *wanted {
                return;
            }
            *wanted = priority;
            let place = self.queue.iter().position(|(other, _)| *other == key);
            if let Some(place) = place.filter(|place| now - priority < self.queue[*place].1) {
                self.queue.remove(place);
                self.queue.push((key, now - priority));
            }
        }

        fn take(&mut self) -> Option<(u8, i32)> {
            // The first of those that are equal.
            let (place, _) = self.queue.iter().enumerate().min_by_key(|(_, (_, came))| *came)?;
            let (key, _) = self.queue.remove(place);
            self.processing.push(key);
            let place = self.dirty.iter().position(|(other, _)| *other == key)?;
            Some(self.dirty.remove(place))
        }

        fn done(&mut self, key: u8, now: i32) {
            if !self.processing.contains(&key) {
                return;
            }
            self.processing.retain(|other| *other != key);
            if let Some((_, priority)) = self.dirty.iter().find(|(other, _)| *other == key) {
                self.queue.push((key, now - priority));
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Add(u8, i32),
        Take,
        Done(u8),
        Wait,
    }

    fn op() -> impl Strategy<Value = Op> {
        let priority = prop_oneof![2 => Just(0), 1 => -3..3];
        prop_oneof![
            3 => (0..6u8, priority).prop_map(|(key, priority)| Op::Add(key, priority)),
            2 => Just(Op::Take),
            2 => (0..6u8).prop_map(Op::Done),
            1 => Just(Op::Wait),
        ]
    }

    fn config() -> Config {
        Config { cases: 1000, rng_seed: RngSeed::Fixed(19), failure_persistence: None, ..Config::default() }
    }

    fn second(number: i32) -> Duration {
        Duration::from_secs(number.unsigned_abs().into())
    }

    proptest! {
        #![proptest_config(config())]

        /// Property 19: one worker per item, at least one run after each add, first in first out.
        #[test]
        fn the_core_does_what_two_sets_and_a_list_do(ops in prop::collection::vec(op(), 0..200)) {
            let (made, mut seconds) = (Instant::now(), 0);
            let (mut core, mut naive) = (Core::new(made), Naive::default());
            for op in ops {
                let now = made + second(seconds);
                match op {
                    Op::Add(key, priority) => {
                        let dirty = naive.dirty.len();
                        naive.add(key, priority, seconds);
                        prop_assert_eq!(core.add(key, Priority(priority), now), naive.dirty.len() > dirty);
                    }
                    Op::Take => {
                        let taken = core.take(now).map(|taken| (taken.key, taken.priority.0));
                        prop_assert_eq!(taken, naive.take());
                    }
                    Op::Done(key) => {
                        let runs = naive.processing.contains(&key);
                        naive.done(key, seconds);
                        prop_assert_eq!(core.done(&key, now).is_some(), runs);
                    }
                    Op::Wait => seconds += 1,
                }
                core.check();
                prop_assert_eq!(core.waiting(), naive.queue.len());
                prop_assert_eq!(core.running().count(), naive.processing.len());
                prop_assert_eq!(core.is_idle(), naive.dirty.is_empty() && naive.processing.is_empty());
                prop_assert_eq!(core.is_exhausted(), naive.dirty.is_empty());
            }
        }
    }

    /// A queue with these keys in the line, in the order of their adds, all at once.
    fn line(keys: &[(u8, i32)]) -> (Core<u8>, Instant) {
        let now = Instant::now();
        let mut core = Core::new(now);
        for (key, priority) in keys {
            core.add(*key, Priority(*priority), now);
        }
        (core, now)
    }

    fn taken(core: &mut Core<u8>, now: Instant) -> Option<u8> {
        core.take(now).map(|taken| taken.key)
    }

    #[test]
    fn a_key_added_twice_is_taken_once() {
        let (mut core, now) = line(&[(1, 0), (1, 0)]);
        assert_eq!((taken(&mut core, now), taken(&mut core, now)), (Some(1), None));
    }

    #[test]
    fn a_key_added_while_it_runs_waits_behind_the_others_after_its_run() {
        let (mut core, now) = line(&[(1, 0)]);
        assert_eq!(taken(&mut core, now), Some(1));
        core.add(1, Priority::NORMAL, now);
        core.add(2, Priority::NORMAL, now + second(1));
        assert_eq!(core.waiting(), 1, "a running key does not wait");
        assert_eq!(core.done(&1, now + second(2)), Some(second(2)));
        let now = now + second(3);
        assert_eq!([(); 3].map(|()| taken(&mut core, now)), [Some(2), Some(1), None]);
    }

    #[test]
    fn done_of_a_key_that_waits_or_is_unknown_changes_nothing() {
        let (mut core, now) = line(&[(1, 0)]);
        assert_eq!((core.done(&1, now), core.done(&2, now)), (None, None));
        assert_eq!((taken(&mut core, now), taken(&mut core, now)), (Some(1), None));
    }

    #[test]
    fn a_low_priority_waits_behind_what_comes_later_and_not_for_ever() {
        let (mut core, now) = line(&[(1, -10)]);
        core.add(2, Priority::NORMAL, now + second(9));
        core.add(3, Priority::NORMAL, now + second(11));
        let now = now + second(12);
        assert_eq!([(); 3].map(|()| taken(&mut core, now)), [Some(2), Some(1), Some(3)]);
    }

    #[test]
    fn of_two_priorities_the_higher_counts_and_the_earlier_place() {
        let (mut core, now) = line(&[(1, -10), (2, 0), (3, -10)]);
        core.add(3, Priority(5), now);
        core.add(1, Priority::LOW, now);
        core.add(2, Priority(1), now + second(3));
        let first = core.take(now + second(3)).unwrap();
        assert_eq!((first.key, first.priority, first.waited), (3, Priority(5), second(3)));
        let next = core.take(now).unwrap();
        assert_eq!((next.key, next.priority), (2, Priority(1)), "its place was better than the new one");
        assert_eq!(core.take(now).unwrap().priority, Priority(-10));
    }

    #[test]
    fn priorities_at_the_end_of_their_type_keep_their_order() {
        let (mut core, now) = line(&[(1, i32::MIN), (2, i32::MAX), (3, 0)]);
        let now = now + second(1);
        assert_eq!([(); 3].map(|()| taken(&mut core, now)), [Some(2), Some(3), Some(1)]);
    }
}
