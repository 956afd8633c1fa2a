//! `Scenario`: a queue, the tasks that use it, and the history by which the result is judged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::primitives::work;
use super::search::TaskFuture;
use crate::{BucketRateLimiter, Item, WorkQueue};

/// The state that all tasks of a scenario share.
#[derive(Clone)]
pub(super) struct Scenario {
    pub(super) queue: WorkQueue<u8>,
    history: Rc<RefCell<History>>,
}

/// The events of each key. Events are numbered; the number serves as a timestamp.
#[derive(Default)]
struct History {
    events: usize,
    keys: BTreeMap<u8, KeyHistory>,
    /// The number of producers that have not finished.
    producers: usize,
    /// Wakes the task that waits for a change of the history.
    waiter: Option<Waker>,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeyHistory {
    /// The start of the last add.
    last_added: usize,
    /// The start of the last processing.
    last_started: usize,
    times_processed: usize,
    is_processing: bool,
}

impl History {
    fn is_served(&self) -> bool {
        self.keys.values().all(|key| key.last_started > key.last_added && !key.is_processing)
    }
}

impl Scenario {
    pub(super) fn new() -> Self {
        // No scenario retries, so the limiter must not store keys.
        let queue = WorkQueue::with_rate_limiter(BucketRateLimiter::new(Duration::ZERO, 0));
        Scenario { queue, history: Rc::default() }
    }

    /// Creates a task from an async closure over this scenario.
    pub(super) fn task<F: Future<Output = ()> + 'static>(
        &self,
        work: impl FnOnce(Scenario) -> F,
    ) -> TaskFuture {
        Box::pin(work(self.clone()))
    }

    fn record(&self, key: u8, change: impl FnOnce(&mut KeyHistory, usize)) {
        self.update(|history| {
            history.events += 1;
            let now = history.events;
            change(history.keys.entry(key).or_default(), now);
        });
    }

    fn update(&self, change: impl FnOnce(&mut History)) {
        let mut history = self.history.borrow_mut();
        change(&mut history);
        history.waiter.take().into_iter().for_each(Waker::wake);
    }

    /// Waits without a scheduling point, which would add orders.
    async fn wait_until(&self, condition: impl Fn(&History) -> bool) {
        let check = |context: &mut Context<'_>| {
            let mut history = self.history.borrow_mut();
            history.waiter = Some(context.waker().clone());
            if condition(&history) { Poll::Ready(()) } else { Poll::Pending }
        };
        poll_fn(check).await;
    }

    pub(super) fn add(&self, key: u8) {
        self.record(key, |key, now| key.last_added = now);
        self.queue.add(key);
    }

    pub(super) fn add_after(&self, key: u8, delay: Duration) {
        self.record(key, |key, now| key.last_added = now);
        self.queue.add_after(key, delay);
    }

    /// Processes a key that the queue returned.
    pub(super) fn process(&self, item: Item<u8>) {
        self.record(*item, |key, now| {
            assert!(!key.is_processing, "two workers on one key");
            let times_processed = key.times_processed + 1;
            *key = KeyHistory { last_started: now, times_processed, is_processing: true, ..*key };
        });
        work();
        self.record(*item, |key, _| key.is_processing = false);
        drop(item);
    }

    /// Takes one key and processes it.
    pub(super) async fn process_one(self) {
        let item = self.queue.get().await.expect("the queue is not shut down");
        self.process(item);
    }

    /// Processes keys until `get` returns `None`.
    pub(super) async fn process_until_shutdown(self) {
        while let Some(item) = self.queue.get().await {
            self.process(item);
        }
    }

    /// Processes one key, or cancels its `get` after `polls` pending polls.
    pub(super) async fn process_one_or_cancel(self, polls: usize) {
        if let Some(Some(item)) = poll_at_most(polls, self.queue.get()).await {
            self.process(item);
        }
    }

    /// Creates a producer, a task that calls `add`.
    pub(super) fn producer(&self, add: impl FnOnce(&Scenario) + 'static) -> TaskFuture {
        self.history.borrow_mut().producers += 1;
        self.task(|scenario| async move {
            add(&scenario);
            scenario.update(|history| history.producers -= 1);
        })
    }

    /// Waits until all producers have finished.
    pub(super) async fn wait_until_all_added(&self) {
        self.wait_until(|history| history.producers == 0).await;
    }

    /// Waits until processing has started after each add and is complete.
    pub(super) async fn wait_until_served(&self) {
        self.wait_until(History::is_served).await;
    }

    pub(super) fn is_served(&self) -> bool {
        self.history.borrow().is_served()
    }

    #[track_caller]
    pub(super) fn assert_served(&self) {
        assert!(self.is_served(), "{:?}", self.history.borrow().keys);
    }

    #[track_caller]
    pub(super) fn assert_none_processing(&self) {
        let processing: Vec<u8> = self.processing().collect();
        assert!(processing.is_empty(), "still processing: {processing:?}");
    }

    fn processing(&self) -> impl Iterator<Item = u8> {
        let keys = self.history.borrow().keys.clone();
        keys.into_iter().filter(|(_, key)| key.is_processing).map(|(key, _)| key)
    }

    pub(super) fn times_processed(&self, key: u8) -> usize {
        self.history.borrow().keys.get(&key).map_or(0, |key| key.times_processed)
    }
}

/// Polls `future` until it is ready, and drops it after `polls` pending polls.
pub(super) async fn poll_at_most<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let (mut left, mut future) = (polls, pin!(future));
    let polled = poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            left -= 1;
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    });
    polled.await
}
