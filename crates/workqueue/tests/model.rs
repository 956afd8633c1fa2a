//! The whole queue against a naive model: any order of adds, delays, getters that come, wait and are cancelled,
//! shutdowns and a clock. Getters are polled only when woken, so a lost wake-up is a difference.

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

/// The promises as lists that are searched from end to end; times are milliseconds.
#[derive(Default)]
struct Model {
    now: u64,
    queue: Vec<u8>,
    running: Vec<u8>,
    again: Vec<u8>,
    /// Deadline and key, in the order of asking.
    timers: Vec<(u64, u8)>,
    shut: bool,
    taken: Vec<u8>,
}

impl Model {
    fn add(&mut self, key: u8) {
        if self.running.contains(&key) {
            if !self.again.contains(&key) {
                self.again.push(key);
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
        let earlier = self.timers.iter().any(|(other, timer)| *timer == key && *other <= deadline);
        if !earlier {
            self.timers.retain(|(_, timer)| *timer != key);
            self.timers.push((deadline, key));
        }
    }

    fn advance(&mut self, millis: u64) {
        self.now += millis;
        let now = self.now;
        let mut due: Vec<_> = self.timers.extract_if(.., |(deadline, _)| *deadline <= now).collect();
        due.sort_by_key(|(deadline, _)| *deadline);
        for (_, key) in due {
            self.add(key);
        }
    }

    fn take(&mut self) {
        let key = self.queue.remove(0);
        self.running.push(key);
        self.taken.push(key);
    }

    fn done(&mut self, key: u8) {
        self.running.retain(|other| *other != key);
        if self.again.contains(&key) {
            self.again.retain(|other| *other != key);
            self.queue.push(key);
        }
    }

    fn shutdown(&mut self) {
        self.shut = true;
        self.timers.clear();
    }

    fn is_ended(&self) -> bool {
        self.shut && self.queue.is_empty() && self.again.is_empty()
    }
}

/// The queue under test, beside its model.
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
                // Polled once and dropped: from here on the queue is shut down, and nobody waits.
                tokio::time::timeout(Duration::ZERO, self.queue.shutdown_with_drain()).await.ok();
                self.model.shutdown();
            }
        }
    }

    fn add_after(&mut self, key: u8, millis: u64) {
        self.queue.add_after(key, Duration::from_millis(millis));
        if !self.model.shut {
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
            None => assert!(self.model.is_ended(), "a getter ended early"),
        }
    }

    /// Polls woken getters until none is woken; then no getter may wait for what is there.
    fn settle(&mut self) {
        while let Some(index) = self.getters.iter().position(Getter::is_woken) {
            self.poll(index);
        }
        assert_eq!(self.taken, self.model.taken);
        assert_eq!(self.queue.len(), self.model.queue.len());
        let work = !self.model.queue.is_empty() || self.model.is_ended();
        assert!(!work || self.getters.is_empty(), "{} getters sleep beside work", self.getters.len());
    }
}

fn config() -> Config {
    Config { cases: 1000, rng_seed: RngSeed::Fixed(19), failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Property 19: one worker per item, at least one run after each add, first in first out.
    #[test]
    fn the_queue_does_what_the_model_does_and_no_getter_sleeps_beside_work(
        ops in prop::collection::vec(op(), 0..120)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        // Polls by hand must not run into the task budget, which would wake a getter for no reason of ours.
        runtime.block_on(tokio::task::unconstrained(async {
            let mut pair = Pair::new();
            for op in ops {
                pair.step(op).await;
                pair.settle();
            }
        }));
    }
}
