//! A stress test: many producers and workers on several threads. Half of the workers often cancel
//! their `get`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kube_workqueue::WorkQueue;
use tokio::sync::Notify;
use tokio::task::JoinSet;

const KEYS: usize = 64;
const PRODUCERS: usize = 4;
const WORKERS: usize = 8;
const ADDS_PER_PRODUCER: usize = 20_000;
/// Turns a lost wake-up into a failure; without it the test would hang.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Counts the adds and the processing of a key.
#[derive(Default)]
struct KeyHistory {
    /// The number of adds, incremented before each add.
    added: AtomicU64,
    /// The highest value of `added` that a worker saw at the start of processing.
    served: AtomicU64,
    is_processing: AtomicBool,
    times_processed: AtomicU64,
}

struct History {
    keys: [KeyHistory; KEYS],
    processed: Notify,
}

impl History {
    fn new() -> Self {
        History { keys: std::array::from_fn(|_| KeyHistory::default()), processed: Notify::new() }
    }

    fn record_add(&self, key: usize) {
        self.keys[key].added.fetch_add(1, Ordering::SeqCst);
    }

    async fn process(&self, key: usize) {
        let key_history = &self.keys[key];
        assert!(!key_history.is_processing.swap(true, Ordering::SeqCst), "two workers on key {key}");
        let added = key_history.added.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        key_history.served.fetch_max(added, Ordering::SeqCst);
        key_history.times_processed.fetch_add(1, Ordering::SeqCst);
        key_history.is_processing.store(false, Ordering::SeqCst);
    }

    fn is_served(&self) -> bool {
        self.keys.iter().all(|key| key.served.load(Ordering::SeqCst) == key.added.load(Ordering::SeqCst))
    }
}

async fn produce(queue: WorkQueue<usize>, history: Arc<History>, producer: usize) {
    for round in 0..ADDS_PER_PRODUCER {
        let key = (round * 7 + producer * 13) % KEYS;
        history.record_add(key);
        if round % 5 == 0 {
            queue.add_after(key, Duration::from_millis(1));
        } else {
            queue.add(key);
        }
        if round % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Processes keys until `get` returns `None`. If `cancels`, drops each `get` that is pending after
/// two polls.
async fn work(queue: WorkQueue<usize>, history: Arc<History>, cancels: bool) {
    loop {
        let next = tokio::select! {
            biased;
            next = queue.get() => next,
            () = tokio::task::yield_now(), if cancels => continue,
        };
        let Some(item) = next else { return };
        history.process(*item).await;
        item.done();
        history.processed.notify_one();
    }
}

async fn hammer() {
    let (queue, history) = (WorkQueue::new(), Arc::new(History::new()));
    let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
    for worker in 0..WORKERS {
        workers.spawn(work(queue.clone(), Arc::clone(&history), worker % 2 == 0));
    }
    for producer in 0..PRODUCERS {
        producers.spawn(produce(queue.clone(), Arc::clone(&history), producer));
    }
    producers.join_all().await;
    while !history.is_served() {
        history.processed.notified().await;
    }
    queue.shutdown_with_drain().await;
    workers.join_all().await;

    let processed: u64 = history.keys.iter().map(|key| key.times_processed.load(Ordering::SeqCst)).sum();
    assert!(processed >= KEYS as u64);
    assert!(
        processed <= (PRODUCERS * ADDS_PER_PRODUCER) as u64,
        "processed more often than added: {processed}"
    );
}

/// Property 19: never two workers on one key, and processing starts after each add.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_add_is_processed_and_no_key_has_two_workers() {
    tokio::time::timeout(TIMEOUT, hammer()).await.expect("a wake-up was lost");
}
