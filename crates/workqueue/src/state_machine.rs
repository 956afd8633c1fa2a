//! Ready and processing keys: the dirty set, the processing set and the queue of client-go's
//! `workqueue`, as one map and one ordered list. This is plain data without a clock or a lock.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::lanes::{Lanes, Position};
use crate::priority::Priority;
use crate::slots::Slots;

/// The state of a known key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyState {
    /// In `ready`, exactly once (in client-go's terms: dirty, not processing).
    Ready(ReadyKey),
    /// With a worker (processing, not dirty).
    Processing { since: Instant },
    /// With a worker, and added again since the worker took it (processing and dirty).
    ProcessingDirty { since: Instant, priority: Priority },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReadyKey {
    position: Position,
    priority: Priority,
    since: Instant,
}

/// A key that was taken from the ready list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenKey<T> {
    pub(crate) key: T,
    pub(crate) priority: Priority,
    /// The time for which the key was ready.
    pub(crate) queued_for: Duration,
}

/// The keys that are ready and the keys that workers process.
#[derive(Debug)]
pub(crate) struct StateMachine<T> {
    /// The state of each known key. `ready`, `processing` and `dirty` are derived from this map.
    states: Slots<T, KeyState>,
    /// The numbers of the keys in state `Ready`, each once, at the position that its state names.
    ready: Lanes,
    /// The start and the number of each key that a worker processes, the longest first.
    processing: BTreeSet<(Instant, usize)>,
    /// The number of keys in state `ProcessingDirty`.
    dirty: usize,
    next_sequence: u64,
    created: Instant,
}

impl<T> StateMachine<T> {
    pub(crate) fn new(now: Instant) -> Self {
        StateMachine {
            states: Slots::new(),
            ready: Lanes::default(),
            processing: BTreeSet::new(),
            dirty: 0,
            next_sequence: 0,
            created: now,
        }
    }

    /// Returns the number of ready keys.
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Returns the number of ready keys in the background lane.
    pub(crate) fn ready_background_len(&self) -> usize {
        self.ready.background.len()
    }

    /// Returns true if no key is ready and no key becomes ready without another add.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.ready.len() == 0 && self.dirty == 0
    }

    /// Returns true if no key is ready and no key is processed.
    pub(crate) fn is_idle(&self) -> bool {
        self.states.is_empty()
    }

    /// Returns the keys that workers process, with the start of the processing. The longest is first.
    /// Does not visit ready keys.
    pub(crate) fn processing(&self) -> impl Iterator<Item = (&T, Instant)> {
        self.processing.iter().filter_map(|(since, number)| Some((self.states.get(*number)?.0, *since)))
    }

    /// Creates the position of a key that is added at `now`.
    fn new_position(&mut self, priority: Priority, now: Instant) -> Position {
        self.next_sequence += 1;
        Position { rank: Self::rank(self.created, priority, now), sequence: self.next_sequence }
    }

    fn rank(created: Instant, priority: Priority, added: Instant) -> i64 {
        let added = i64::try_from(added.duration_since(created).as_nanos()).unwrap_or(i64::MAX);
        let head_start = i64::from(priority.0) * 1_000_000_000;
        added.saturating_sub(head_start)
    }
}

impl<T: Eq + Hash + Clone> StateMachine<T> {
    /// Adds `key`. Returns false if it was ready or dirty already.
    ///
    /// A known key keeps the higher priority. It keeps its position, unless it changes the lane or the
    /// new position is better.
    pub(crate) fn add(&mut self, key: T, priority: Priority, now: Instant) -> bool {
        let position = self.new_position(priority, now);
        let Some(number) = self.states.find(&key) else {
            let state = KeyState::Ready(ReadyKey { position, priority, since: now });
            self.ready.lane(priority).insert(position, self.states.insert(key, state));
            return true;
        };
        let Some((_, state)) = self.states.get_mut(number) else { return false };
        match state {
            KeyState::Processing { since } => {
                *state = KeyState::ProcessingDirty { since: *since, priority };
                self.dirty += 1;
                return true;
            }
            KeyState::ProcessingDirty { priority: highest, .. } => *highest = priority.max(*highest),
            KeyState::Ready(ready) if priority > ready.priority => {
                let changes_lane = ready.priority.is_background() != priority.is_background();
                let mut position = position;
                if changes_lane {
                    // In the other lane, the key is ordered by its first add.
                    position.rank = Self::rank(self.created, priority, ready.since);
                }
                if changes_lane || position < ready.position {
                    self.ready.lane(ready.priority).remove(&ready.position);
                    self.ready.lane(priority).insert(position, number);
                    ready.position = position;
                }
                ready.priority = priority;
            }
            KeyState::Ready(_) => {}
        }
        false
    }

    /// Takes the first ready key and marks it as processing.
    pub(crate) fn take(&mut self, now: Instant) -> Option<TakenKey<T>> {
        let (_, number) = self.ready.pop_first()?;
        let (key, state) = self.states.get_mut(number)?;
        let KeyState::Ready(ReadyKey { priority, since, .. }) = *state else { return None };
        *state = KeyState::Processing { since: now };
        self.processing.insert((now, number));
        Some(TakenKey { key: key.clone(), priority, queued_for: now.duration_since(since) })
    }

    /// Completes the processing of `key` and returns its duration. Does nothing if no worker
    /// processes `key`.
    pub(crate) fn done(&mut self, key: &T, now: Instant) -> Option<Duration> {
        let number = self.states.find(key)?;
        let (_, state) = self.states.get_mut(number)?;
        let since = match *state {
            KeyState::Ready(_) => return None,
            KeyState::Processing { since } => {
                self.states.remove(key);
                since
            }
            KeyState::ProcessingDirty { since, priority } => {
                self.dirty -= 1;
                self.ready_again(number, priority, now);
                since
            }
        };
        self.processing.remove(&(since, number));
        Some(now.duration_since(since))
    }

    /// Removes the selected keys that no worker processes, and the adds of the selected keys that a worker
    /// processes. Returns the removed keys, and true if a worker processes a selected key.
    pub(crate) fn remove_where(&mut self, is_selected: impl Fn(&T) -> bool) -> (Vec<T>, bool) {
        let selected = self.states.iter().filter(|(key, _)| is_selected(key));
        let selected: Vec<(T, KeyState)> = selected.map(|(key, state)| (key.clone(), *state)).collect();
        let (mut removed, mut is_processing) = (Vec::new(), false);
        for (key, state) in selected {
            if let KeyState::Ready(ReadyKey { position, priority, .. }) = state {
                self.ready.lane(priority).remove(&position);
                self.states.remove(&key);
                removed.push(key);
                continue;
            }
            is_processing = true;
            if let KeyState::ProcessingDirty { since, .. } = state
                && let Some((_, state)) =
                    self.states.find(&key).and_then(|number| self.states.get_mut(number))
            {
                *state = KeyState::Processing { since };
                self.dirty -= 1;
            }
        }
        (removed, is_processing)
    }

    /// Makes a key ready that was processed.
    fn ready_again(&mut self, number: usize, priority: Priority, now: Instant) {
        let position = self.new_position(priority, now);
        let Some((_, state)) = self.states.get_mut(number) else { return };
        *state = KeyState::Ready(ReadyKey { position, priority, since: now });
        self.ready.lane(priority).insert(position, number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngSeed};

    use super::*;

    impl StateMachine<u8> {
        /// Asserts that `ready`, `processing` and `dirty` agree with `states`.
        fn assert_invariants(&self) {
            let mut ready = Lanes::default();
            for (key, state) in self.states.iter() {
                if let KeyState::Ready(ReadyKey { position, priority, .. }) = state {
                    ready.lane(*priority).insert(*position, self.states.find(key).unwrap());
                }
            }
            assert_eq!((&ready.normal, &ready.background), (&self.ready.normal, &self.ready.background));
            let dirty =
                (self.states.iter()).filter(|(_, state)| matches!(state, KeyState::ProcessingDirty { .. }));
            assert_eq!(dirty.count(), self.dirty);
            let processing = self.states.iter().filter_map(|(key, state)| match state {
                KeyState::Ready(_) => None,
                KeyState::Processing { since } | KeyState::ProcessingDirty { since, .. } => {
                    Some((*since, self.states.find(key)?))
                }
            });
            assert_eq!(processing.collect::<BTreeSet<_>>(), self.processing);
        }
    }

    /// A literal model of client-go's queue: two sets and a list with linear search. `dirty` stores
    /// each key with its priority, and `queue` stores it with its lane and its rank, in seconds.
    #[derive(Default)]
    struct Model {
        dirty: Vec<(u8, i32)>,
        processing: Vec<u8>,
        queue: Vec<(u8, Rank)>,
        /// The lanes of the taken keys, while both lanes contained keys: true for background.
        taken: Vec<bool>,
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Rank {
        is_background: bool,
        seconds: i32,
        added: i32,
    }

    fn rank(priority: i32, now: i32) -> Rank {
        Rank { is_background: priority < 0, seconds: now - priority, added: now }
    }

    impl Model {
        fn add(&mut self, key: u8, priority: i32, now: i32) {
            let is_processing = self.processing.contains(&key);
            let Some((_, highest)) = self.dirty.iter_mut().find(|(other, _)| *other == key) else {
                self.dirty.push((key, priority));
                if !is_processing {
                    self.queue.push((key, rank(priority, now)));
                }
                return;
            };
            if priority <= *highest {
                return;
            }
            *highest = priority;
            let index = self.queue.iter().position(|(other, _)| *other == key);
            let new = rank(priority, now);
            let Some(index) = index else { return };
            let old = self.queue[index].1;
            if old.is_background != new.is_background {
                self.queue.remove(index);
                let seconds = old.added - priority;
                self.queue.push((key, Rank { seconds, added: old.added, ..new }));
            } else if new.seconds < old.seconds {
                self.queue.remove(index);
                self.queue.push((key, Rank { added: old.added, ..new }));
            }
        }

        fn take(&mut self) -> Option<(u8, i32)> {
            let has = |lane: bool| self.queue.iter().any(|(_, rank)| rank.is_background == lane);
            let is_mixed = has(true) && has(false);
            let last_seven = self.taken.iter().rev().take(7);
            let is_due = last_seven.filter(|is_background| !**is_background).count() == 7;
            let lane = if is_mixed { is_due } else { has(true) };
            // Takes of a single lane count only if they are from the normal lane, with keys that wait.
            if !has(true) || lane {
                self.taken.clear();
            }
            if has(true) && !lane {
                self.taken.push(false);
            }
            // `min_by_key` returns the first of equal elements.
            let queue = self.queue.iter().enumerate().filter(|(_, (_, rank))| rank.is_background == lane);
            let (index, _) = queue.min_by_key(|(_, (_, rank))| rank.seconds)?;
            let (key, _) = self.queue.remove(index);
            self.processing.push(key);
            let index = self.dirty.iter().position(|(other, _)| *other == key)?;
            Some(self.dirty.remove(index))
        }

        fn done(&mut self, key: u8, now: i32) {
            if !self.processing.contains(&key) {
                return;
            }
            self.processing.retain(|other| *other != key);
            if let Some((_, priority)) = self.dirty.iter().find(|(other, _)| *other == key) {
                self.queue.push((key, rank(*priority, now)));
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Add(u8, i32),
        Take,
        Done(u8),
        PassSecond,
    }

    fn op() -> impl Strategy<Value = Op> {
        let priority = prop_oneof![2 => Just(0), 1 => -3..3];
        prop_oneof![
            3 => (0..12u8, priority).prop_map(|(key, priority)| Op::Add(key, priority)),
            2 => Just(Op::Take),
            2 => (0..12u8).prop_map(Op::Done),
            1 => Just(Op::PassSecond),
        ]
    }

    fn config() -> Config {
        Config { cases: 1000, rng_seed: RngSeed::Fixed(19), failure_persistence: None, ..Config::default() }
    }

    fn seconds(number: i32) -> Duration {
        Duration::from_secs(number.unsigned_abs().into())
    }

    proptest! {
        #![proptest_config(config())]

        /// Property 19: one worker per key, processing starts after each add, first in first out.
        #[test]
        fn state_machine_matches_model_of_two_sets_and_a_list(ops in prop::collection::vec(op(), 0..200)) {
            let (created, mut elapsed) = (Instant::now(), 0);
            let (mut machine, mut model) = (StateMachine::new(created), Model::default());
            for op in ops {
                let now = created + seconds(elapsed);
                match op {
                    Op::Add(key, priority) => {
                        let dirty = model.dirty.len();
                        model.add(key, priority, elapsed);
                        prop_assert_eq!(machine.add(key, Priority(priority), now), model.dirty.len() > dirty);
                    }
                    Op::Take => {
                        let taken = machine.take(now).map(|taken| (taken.key, taken.priority.0));
                        prop_assert_eq!(taken, model.take());
                    }
                    Op::Done(key) => {
                        let was_processing = model.processing.contains(&key);
                        model.done(key, elapsed);
                        prop_assert_eq!(machine.done(&key, now).is_some(), was_processing);
                    }
                    Op::PassSecond => elapsed += 1,
                }
                machine.assert_invariants();
                prop_assert_eq!(machine.ready_len(), model.queue.len());
                prop_assert_eq!(machine.processing().count(), model.processing.len());
                prop_assert_eq!(machine.is_idle(), model.dirty.is_empty() && model.processing.is_empty());
                prop_assert_eq!(machine.is_exhausted(), model.dirty.is_empty());
            }
        }
    }

    /// Creates a state machine to which `keys` were added in this order, all at the returned time.
    fn with_keys(keys: &[(u8, i32)]) -> (StateMachine<u8>, Instant) {
        let now = Instant::now();
        let mut machine = StateMachine::new(now);
        for (key, priority) in keys {
            machine.add(*key, Priority(*priority), now);
        }
        (machine, now)
    }

    fn take(machine: &mut StateMachine<u8>, now: Instant) -> Option<u8> {
        machine.take(now).map(|taken| taken.key)
    }

    #[test]
    fn key_added_twice_is_returned_once() {
        let (mut machine, now) = with_keys(&[(1, 0), (1, 0)]);
        assert_eq!((take(&mut machine, now), take(&mut machine, now)), (Some(1), None));
    }

    #[test]
    fn key_added_while_processing_is_queued_last_after_done() {
        let (mut machine, now) = with_keys(&[(1, 0)]);
        assert_eq!(take(&mut machine, now), Some(1));
        machine.add(1, Priority::NORMAL, now);
        machine.add(2, Priority::NORMAL, now + seconds(1));
        assert_eq!(machine.ready_len(), 1, "a key that is processed is not ready");
        assert_eq!(machine.done(&1, now + seconds(2)), Some(seconds(2)));
        let now = now + seconds(3);
        assert_eq!([(); 3].map(|()| take(&mut machine, now)), [Some(2), Some(1), None]);
    }

    #[test]
    fn done_of_ready_or_unknown_key_has_no_effect() {
        let (mut machine, now) = with_keys(&[(1, 0)]);
        assert_eq!((machine.done(&1, now), machine.done(&2, now)), (None, None));
        assert_eq!((take(&mut machine, now), take(&mut machine, now)), (Some(1), None));
    }

    #[test]
    fn change_does_not_wait_for_the_list_and_the_list_does_not_starve() {
        let (mut machine, now) = with_keys(&[(100, -100), (101, -100), (102, -100)]);
        assert_eq!(take(&mut machine, now), Some(100), "no change waits");
        // Long after the list, changes still precede it. One of eight keys is from the list.
        let now = now + seconds(1000);
        (0..20).for_each(|key| _ = machine.add(key, Priority::NORMAL, now));
        let order: Vec<u8> = std::iter::from_fn(|| take(&mut machine, now)).collect();
        let expected: Vec<u8> = (0..7).chain([101]).chain(7..14).chain([102]).chain(14..20).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn changed_key_of_the_list_moves_to_the_normal_lane() {
        let (mut machine, now) = with_keys(&[(1, -100), (2, -100), (3, -100)]);
        machine.add(4, Priority::NORMAL, now + seconds(10));
        machine.add(3, Priority::NORMAL, now + seconds(200));
        // It was added before the key 4.
        assert_eq!([(); 4].map(|()| take(&mut machine, now + seconds(200))), [3, 4, 1, 2].map(Some));
    }

    #[test]
    fn second_add_keeps_higher_priority_and_better_position() {
        let (mut machine, now) = with_keys(&[(1, -10), (2, 0), (3, -10)]);
        machine.add(3, Priority(5), now);
        machine.add(1, Priority::LOW, now);
        machine.add(2, Priority(1), now + seconds(3));
        let first = machine.take(now + seconds(3)).unwrap();
        assert_eq!((first.key, first.priority, first.queued_for), (3, Priority(5), seconds(3)));
        let next = machine.take(now).unwrap();
        assert_eq!((next.key, next.priority), (2, Priority(1)), "the old position was better");
        assert_eq!(machine.take(now).unwrap().priority, Priority(-10));
    }

    #[test]
    fn extreme_priorities_keep_their_order() {
        let (mut machine, now) = with_keys(&[(1, i32::MIN), (2, i32::MAX), (3, 0)]);
        let now = now + seconds(1);
        assert_eq!([(); 3].map(|()| take(&mut machine, now)), [Some(2), Some(3), Some(1)]);
    }
}
