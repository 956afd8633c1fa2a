//! Many producers and workers on several threads, half of the workers cancelling their `get` all the time;
//! judged by counts.

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
/// Only there to turn a lost wake-up into a failure instead of a test that never ends.
const WATCHDOG: Duration = Duration::from_secs(120);

/// What is known of one key.
#[derive(Default)]
struct Ledger {
    /// Counted up before each add.
    asked: AtomicU64,
    /// The highest `asked` that a run saw when it started.
    served: AtomicU64,
    busy: AtomicBool,
    runs: AtomicU64,
}

struct Books {
    keys: [Ledger; KEYS],
    run_ended: Notify,
}

impl Books {
    fn new() -> Self {
        Books { keys: std::array::from_fn(|_| Ledger::default()), run_ended: Notify::new() }
    }

    fn ask(&self, key: usize) {
        self.keys[key].asked.fetch_add(1, Ordering::SeqCst);
    }

    async fn run(&self, key: usize) {
        let ledger = &self.keys[key];
        assert!(!ledger.busy.swap(true, Ordering::SeqCst), "two workers on key {key}");
        let asked = ledger.asked.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        ledger.served.fetch_max(asked, Ordering::SeqCst);
        ledger.runs.fetch_add(1, Ordering::SeqCst);
        ledger.busy.store(false, Ordering::SeqCst);
    }

    fn is_settled(&self) -> bool {
        self.keys.iter().all(|l| l.served.load(Ordering::SeqCst) == l.asked.load(Ordering::SeqCst))
    }
}

async fn produce(queue: WorkQueue<usize>, books: Arc<Books>, producer: usize) {
    for round in 0..ADDS_PER_PRODUCER {
        let key = (round * 7 + producer * 13) % KEYS;
        books.ask(key);
        match round % 5 {
            0 => queue.add_after(key, Duration::from_millis(1)),
            _ => queue.add(key),
        }
        if round % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Works until the queue ends. A fickle worker gives up each `get` that is not ready after two polls.
async fn work(queue: WorkQueue<usize>, books: Arc<Books>, fickle: bool) {
    loop {
        let next = tokio::select! {
            biased;
            next = queue.get() => next,
            () = tokio::task::yield_now(), if fickle => continue,
        };
        let Some(item) = next else { return };
        books.run(*item).await;
        item.done();
        books.run_ended.notify_one();
    }
}

async fn hammer() {
    let (queue, books) = (WorkQueue::new(), Arc::new(Books::new()));
    let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
    for worker in 0..WORKERS {
        workers.spawn(work(queue.clone(), Arc::clone(&books), worker % 2 == 0));
    }
    for producer in 0..PRODUCERS {
        producers.spawn(produce(queue.clone(), Arc::clone(&books), producer));
    }
    producers.join_all().await;
    while !books.is_settled() {
        books.run_ended.notified().await;
    }
    queue.shutdown_with_drain().await;
    workers.join_all().await;

    let runs: u64 = books.keys.iter().map(|ledger| ledger.runs.load(Ordering::SeqCst)).sum();
    assert!(runs >= KEYS as u64);
    assert!(runs <= (PRODUCERS * ADDS_PER_PRODUCER) as u64, "more runs than adds: {runs}");
}

/// Property 19: never two workers on one item, and at least one run after each add.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_add_is_followed_by_a_run_and_no_key_has_two_workers() {
    tokio::time::timeout(WATCHDOG, hammer()).await.expect("a wake-up was lost");
}
