//! What waits and what runs: client-go's dirty set, processing set and queue, as one map and one line.
//! Plain data: no clock, no lock, no waiting.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Where a key stands. A key without a stage is unknown to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// In the line, exactly once (dirty, not processing).
    Waiting,
    /// With a worker (processing, not dirty).
    Running,
    /// With a worker, and added again since it got there (processing and dirty).
    RunningAgain,
}

/// The keys that need work and those being worked on.
#[derive(Debug)]
pub(crate) struct Core<T> {
    /// Canonical: what is not in here is nowhere else.
    stages: HashMap<T, Stage>,
    /// The keys whose stage is `Waiting`, each once, in the order in which they entered it.
    line: VecDeque<T>,
    /// How many keys have the stage `RunningAgain`.
    again: usize,
}

impl<T> Core<T> {
    pub(crate) fn new() -> Self {
        Core { stages: HashMap::new(), line: VecDeque::new(), again: 0 }
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
}

impl<T: Eq + Hash + Clone> Core<T> {
    /// Asks for a run of `key` that starts after this call.
    pub(crate) fn add(&mut self, key: T) {
        match self.stages.get_mut(&key) {
            None => {
                self.stages.insert(key.clone(), Stage::Waiting);
                self.line.push_back(key);
            }
            Some(stage @ Stage::Running) => {
                *stage = Stage::RunningAgain;
                self.again += 1;
            }
            Some(Stage::Waiting | Stage::RunningAgain) => {}
        }
    }

    /// The first of the line, which runs from now on.
    pub(crate) fn take(&mut self) -> Option<T> {
        let key = self.line.pop_front()?;
        if let Some(stage) = self.stages.get_mut(&key) {
            *stage = Stage::Running;
        }
        Some(key)
    }

    /// The run of `key` is over; a key that does not run is left as it is.
    pub(crate) fn done(&mut self, key: &T) {
        match self.stages.get_mut(key) {
            Some(Stage::Running) => {
                self.stages.remove(key);
            }
            Some(stage @ Stage::RunningAgain) => {
                *stage = Stage::Waiting;
                self.again -= 1;
                self.line.push_back(key.clone());
            }
            Some(Stage::Waiting) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngSeed};

    use super::*;

    impl Core<u8> {
        /// The relations that the fields' comments state.
        fn check(&self) {
            let in_stage = |wanted: Stage| self.stages.iter().filter(move |(_, s)| **s == wanted);
            let waiting: BTreeSet<u8> = in_stage(Stage::Waiting).map(|(key, _)| *key).collect();
            let line: BTreeSet<u8> = self.line.iter().copied().collect();
            assert_eq!(waiting, line);
            assert_eq!(line.len(), self.line.len(), "a key stands in the line twice");
            assert_eq!(in_stage(Stage::RunningAgain).count(), self.again);
        }
    }

    /// client-go's description taken literally: two sets and a list, searched from end to end.
    #[derive(Default)]
    struct Naive {
        dirty: Vec<u8>,
        processing: Vec<u8>,
        queue: Vec<u8>,
    }

    impl Naive {
        fn add(&mut self, key: u8) {
            if self.dirty.contains(&key) {
                return;
            }
            self.dirty.push(key);
            if !self.processing.contains(&key) {
                self.queue.push(key);
            }
        }

        fn take(&mut self) -> Option<u8> {
            if self.queue.is_empty() {
                return None;
            }
            let key = self.queue.remove(0);
            self.processing.push(key);
            self.dirty.retain(|other| *other != key);
            Some(key)
        }

        fn done(&mut self, key: u8) {
            if !self.processing.contains(&key) {
                return;
            }
            self.processing.retain(|other| *other != key);
            if self.dirty.contains(&key) {
                self.queue.push(key);
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Add(u8),
        Take,
        Done(u8),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![3 => (0..6u8).prop_map(Op::Add), 2 => Just(Op::Take), 2 => (0..6u8).prop_map(Op::Done)]
    }

    fn config() -> Config {
        Config { cases: 512, rng_seed: RngSeed::Fixed(19), failure_persistence: None, ..Config::default() }
    }

    proptest! {
        #![proptest_config(config())]

        /// Property 19: one worker per item, at least one run after each add, first in first out.
        #[test]
        fn the_core_does_what_two_sets_and_a_list_do(ops in prop::collection::vec(op(), 0..200)) {
            let (mut core, mut naive) = (Core::new(), Naive::default());
            for op in ops {
                match op {
                    Op::Add(key) => { core.add(key); naive.add(key); }
                    Op::Take => prop_assert_eq!(core.take(), naive.take()),
                    Op::Done(key) => { core.done(&key); naive.done(key); }
                }
                core.check();
                prop_assert_eq!(core.waiting(), naive.queue.len());
                prop_assert_eq!(core.is_idle(), naive.dirty.is_empty() && naive.processing.is_empty());
                prop_assert_eq!(core.is_exhausted(), naive.dirty.is_empty());
            }
        }
    }

    #[test]
    fn a_key_added_twice_is_taken_once() {
        let mut core = Core::new();
        core.add(1);
        core.add(1);
        assert_eq!((core.take(), core.take()), (Some(1), None));
    }

    #[test]
    fn a_key_added_while_it_runs_waits_behind_the_others_after_its_run() {
        let mut core = Core::new();
        core.add(1);
        assert_eq!(core.take(), Some(1));
        core.add(1);
        core.add(2);
        assert_eq!(core.waiting(), 1, "a running key does not wait");
        core.done(&1);
        assert_eq!((core.take(), core.take(), core.take()), (Some(2), Some(1), None));
    }

    #[test]
    fn done_of_a_key_that_waits_or_is_unknown_changes_nothing() {
        let mut core = Core::new();
        core.add(1);
        core.done(&1);
        core.done(&2);
        assert_eq!((core.take(), core.take()), (Some(1), None));
    }
}
