//! The queue against a simple model: random sequences of adds, delays, getters, cancellations,
//! shutdowns and time steps. Getters are polled only after a wake-up, so a lost wake-up is visible
//! as a difference.

use std::task::Poll;
use std::time::Duration;

use kube_workqueue::{Item, WorkQueue};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

mod support;
use support::Getter;

#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    AddAfter(u8, u64),
    Get,
    CancelGet(usize),
    Done(usize),
    Advance(u64),
    Shutdown,
    Drain,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (0..5u8).prop_map(Op::Add),
        20 => (0..5u8, 0..6u64).prop_map(|(key, delay)| Op::AddAfter(key, delay)),
        25 => Just(Op::Get),
        10 => any::<usize>().prop_map(Op::CancelGet),
        25 => any::<usize>().prop_map(Op::Done),
        20 => (0..4u64).prop_map(Op::Advance),
        1 => Just(Op::Shutdown),
        1 => Just(Op::Drain),
    ]
}

/// The guarantees as lists with linear search. Times are in milliseconds.
#[derive(Default)]
struct Model {
    now: u64,
    queue: Vec<u8>,
    processing: Vec<u8>,
    /// The keys that were added again during processing.
    dirty: Vec<u8>,
    /// Deadline and key, in the order of the adds.
    delayed: Vec<(u64, u8)>,
    is_shut_down: bool,
    taken: Vec<u8>,
}

impl Model {
    fn add(&mut self, key: u8) {
        if self.processing.contains(&key) {
            if !self.dirty.contains(&key) {
                self.dirty.push(key);
            }
        } else if !self.queue.contains(&key) {
            self.queue.push(key);
        }
    }

    fn add_after(&mut self, key: u8, delay: u64) {
        let deadline = self.now + delay;
        if delay == 0 {
            return self.add(key);
        }
        let earlier = self.delayed.iter().any(|(other, delayed)| *delayed == key && *other <= deadline);
        if !earlier {
            self.delayed.retain(|(_, delayed)| *delayed != key);
            self.delayed.push((deadline, key));
        }
    }

    fn advance(&mut self, millis: u64) {
        self.now += millis;
        let now = self.now;
        let mut due: Vec<_> = self.delayed.extract_if(.., |(deadline, _)| *deadline <= now).collect();
        due.sort_by_key(|(deadline, _)| *deadline);
        for (_, key) in due {
            self.add(key);
        }
    }

    fn take(&mut self) {
        let key = self.queue.remove(0);
        self.processing.push(key);
        self.taken.push(key);
    }

    fn done(&mut self, key: u8) {
        self.processing.retain(|other| *other != key);
        if self.dirty.contains(&key) {
            self.dirty.retain(|other| *other != key);
            self.queue.push(key);
        }
    }

    fn shutdown(&mut self) {
        self.is_shut_down = true;
        self.delayed.clear();
    }

    fn is_ended(&self) -> bool {
        self.is_shut_down && self.queue.is_empty() && self.dirty.is_empty()
    }
}

/// The queue under test and its model.
struct Pair {
    queue: WorkQueue<u8>,
    getters: Vec<Getter>,
    items: Vec<Item<u8>>,
    taken: Vec<u8>,
    model: Model,
}

impl Pair {
    fn new() -> Self {
        Pair {
            queue: WorkQueue::new(),
            getters: Vec::new(),
            items: Vec::new(),
            taken: Vec::new(),
            model: Model::default(),
        }
    }

    async fn step(&mut self, op: Op) {
        match op {
            Op::Add(key) => self.add_after(key, 0),
            Op::AddAfter(key, delay) => self.add_after(key, delay),
            Op::Get => {
                self.getters.push(Getter::new(&self.queue));
                self.poll(self.getters.len() - 1);
            }
            Op::CancelGet(which) if !self.getters.is_empty() => {
                self.getters.remove(which % self.getters.len());
            }
            Op::Done(which) if !self.items.is_empty() => {
                let item = self.items.swap_remove(which % self.items.len());
                self.model.done(*item);
            }
            Op::CancelGet(_) | Op::Done(_) => {}
            Op::Advance(millis) => {
                tokio::time::advance(Duration::from_millis(millis)).await;
                self.model.advance(millis);
            }
            Op::Shutdown => {
                self.queue.shutdown();
                self.model.shutdown();
            }
            Op::Drain => {
                // The first poll shuts the queue down; then the future is dropped.
                tokio::time::timeout(Duration::ZERO, self.queue.shutdown_with_drain()).await.ok();
                self.model.shutdown();
            }
        }
    }

    fn add_after(&mut self, key: u8, millis: u64) {
        self.queue.add_after(key, Duration::from_millis(millis));
        if !self.model.is_shut_down {
            self.model.add_after(key, millis);
        }
    }

    fn poll(&mut self, index: usize) {
        let Poll::Ready(outcome) = self.getters[index].poll() else { return };
        self.getters.remove(index);
        match outcome {
            Some(item) => {
                self.model.take();
                self.taken.push(*item);
                self.items.push(item);
            }
            None => assert!(self.model.is_ended(), "get returned None before the queue was empty"),
        }
    }

    /// Polls woken getters until none is woken. Then no getter may wait while a key is ready.
    fn settle(&mut self) {
        while let Some(index) = self.getters.iter().position(Getter::is_woken) {
            self.poll(index);
        }
        assert_eq!(self.taken, self.model.taken);
        assert_eq!(self.queue.len(), self.model.queue.len());
        let has_work = !self.model.queue.is_empty() || self.model.is_ended();
        assert!(
            !has_work || self.getters.is_empty(),
            "{} getters sleep while keys are ready",
            self.getters.len()
        );
    }
}

fn config() -> Config {
    Config { cases: 1000, rng_seed: RngSeed::Fixed(19), failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Property 19: one worker per key, processing starts after each add, first in first out.
    #[test]
    fn queue_matches_model_and_no_getter_misses_ready_key(
        ops in prop::collection::vec(op(), 0..120)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        // Without `unconstrained`, tokio's task budget could wake a getter that the queue did not
        // wake.
        runtime.block_on(tokio::task::unconstrained(async {
            let mut pair = Pair::new();
            for op in ops {
                pair.step(op).await;
                pair.settle();
            }
        }));
    }
}
