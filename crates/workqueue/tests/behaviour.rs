//! The guarantees of the queue, one by one, under a paused clock.

use std::sync::Arc;
use std::time::Duration;

use kube_workqueue::{Item, ItemExponentialFailureRateLimiter, Priority, WorkQueue};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

const SECOND: Duration = Duration::from_secs(1);

type Queue = WorkQueue<&'static str>;

/// Exceeds every delay of the tests. The paused clock advances this far only when all tasks wait.
const FOREVER: Duration = Duration::from_secs(3600);

async fn get(queue: &Queue) -> Option<Item<&'static str>> {
    timeout(FOREVER, queue.get()).await.expect("a wake-up was lost")
}

/// Takes the next key and completes its processing immediately.
async fn process(queue: &Queue) -> Option<&'static str> {
    get(queue).await.map(|item| *item)
}

async fn take(queue: &Queue) -> Item<&'static str> {
    get(queue).await.expect("the queue is open")
}

fn spawn_drain(queue: &Queue) -> JoinHandle<()> {
    let queue = queue.clone();
    tokio::spawn(
        async move { timeout(FOREVER, queue.shutdown_with_drain()).await.expect("a wake-up was lost") },
    )
}

/// Lets all tasks run until each of them waits.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_returned_in_order_of_first_add() {
    let queue = Queue::new();
    for key in ["a", "b", "a", "c", "b"] {
        queue.add(key);
    }
    assert_eq!(queue.len(), 3);
    assert_eq!(
        [process(&queue).await, process(&queue).await, process(&queue).await],
        [Some("a"), Some("b"), Some("c")]
    );
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn key_is_not_returned_again_until_its_item_is_dropped() {
    let queue = Queue::new();
    queue.add("a");
    let item = take(&queue).await;
    queue.add("a");
    assert_eq!(queue.len(), 0);
    assert!(timeout(SECOND, queue.get()).await.is_err());
    item.done();
    assert_eq!(process(&queue).await, Some("a"));
    assert!(timeout(SECOND, queue.get()).await.is_err(), "the key was added once");
}

#[tokio::test(start_paused = true)]
async fn panic_of_worker_releases_key() {
    let queue = Queue::new();
    queue.add("a");
    let worker = queue.clone();
    let outcome = tokio::spawn(async move {
        let _item = take(&worker).await;
        panic!("on purpose");
    });
    assert!(outcome.await.is_err());
    queue.add("a");
    assert_eq!(process(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn getter_waits_for_add() {
    let queue = Queue::new();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { process(&queue).await }
    });
    settle().await;
    queue.add("a");
    assert_eq!(getter.await.expect("the task did not panic"), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn delayed_key_is_returned_at_its_deadline() {
    let (queue, start) = (Queue::new(), Instant::now());
    queue.add_after("late", 2 * SECOND);
    queue.add_after("early", SECOND);
    assert_eq!(queue.len(), 0);
    assert_eq!((process(&queue).await, start.elapsed()), (Some("early"), SECOND));
    assert_eq!((process(&queue).await, start.elapsed()), (Some("late"), 2 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn earlier_of_two_delays_applies_in_either_order() {
    for delays in [[SECOND, 5 * SECOND], [5 * SECOND, SECOND]] {
        let (queue, start) = (Queue::new(), Instant::now());
        for delay in delays {
            queue.add_after("a", delay);
        }
        assert_eq!((process(&queue).await, start.elapsed()), (Some("a"), SECOND));
        assert!(timeout(10 * SECOND, queue.get()).await.is_err(), "the later deadline is dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn earlier_deadline_wakes_sleeping_getter() {
    let (queue, start) = (Queue::new(), Instant::now());
    queue.add_after("late", 60 * SECOND);
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { process(&queue).await }
    });
    settle().await;
    queue.add_after("early", SECOND);
    assert_eq!((getter.await.expect("the task did not panic"), start.elapsed()), (Some("early"), SECOND));
}

#[tokio::test(start_paused = true)]
async fn immediate_add_keeps_delayed_add() {
    let (queue, start) = (Queue::new(), Instant::now());
    queue.add_after("a", SECOND);
    queue.add("a");
    assert_eq!((process(&queue).await, start.elapsed()), (Some("a"), Duration::ZERO));
    assert_eq!((process(&queue).await, start.elapsed()), (Some("a"), SECOND));
}

#[tokio::test(start_paused = true)]
async fn due_key_is_ordered_by_deadline_if_workers_are_busy() {
    let queue = Queue::new();
    queue.add_after("due", SECOND);
    tokio::time::advance(2 * SECOND).await;
    queue.add("added later");
    assert_eq!(queue.len(), 2);
    assert_eq!([process(&queue).await, process(&queue).await], [Some("due"), Some("added later")]);
}

#[tokio::test(start_paused = true)]
async fn key_due_while_processing_is_processed_again() {
    let queue = Queue::new();
    queue.add("a");
    let item = take(&queue).await;
    queue.add_after("a", SECOND);
    tokio::time::advance(SECOND).await;
    item.done();
    assert_eq!(process(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn zero_delay_adds_immediately() {
    let queue = Queue::new();
    queue.add_after("a", Duration::ZERO);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn retry_delay_grows_until_key_is_forgotten() {
    let queue = Queue::new();
    queue.add("a");
    let mut delays = Vec::new();
    for round in 0..5 {
        let before = Instant::now();
        let item = take(&queue).await;
        delays.push(before.elapsed().as_millis());
        if round == 3 {
            assert_eq!(item.num_requeues(), 3);
            item.forget();
            assert_eq!(queue.num_requeues(&"a"), 0);
        }
        item.retry();
    }
    assert_eq!(delays, [0, 5, 10, 20, 5]);
}

#[tokio::test(start_paused = true)]
async fn queue_uses_given_rate_limiter() {
    let queue = Queue::with_rate_limiter(ItemExponentialFailureRateLimiter::new(SECOND, SECOND));
    let start = Instant::now();
    queue.add_rate_limited("a");
    assert_eq!((process(&queue).await, start.elapsed()), (Some("a"), SECOND));
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_stops_all_waiting_getters() {
    let queue = Queue::new();
    let mut getters = JoinSet::new();
    for _ in 0..10 {
        let queue = queue.clone();
        getters.spawn(async move { process(&queue).await });
    }
    settle().await;
    queue.shutdown();
    assert_eq!(getters.join_all().await, [None; 10]);
    assert_eq!(process(&queue).await, None, "a later getter also returns None");
}

#[tokio::test(start_paused = true)]
async fn shutdown_returns_queued_keys_and_ignores_adds() {
    let queue = Queue::new();
    queue.add("a");
    queue.add_after("delayed", SECOND);
    assert!(!queue.is_shutting_down());
    queue.shutdown();
    assert!(queue.is_shutting_down());
    queue.add("b");
    queue.add_after("c", SECOND);
    queue.add_rate_limited("d");
    assert_eq!(queue.num_requeues(&"d"), 0, "an ignored add is not counted as a failure");
    assert_eq!([process(&queue).await, process(&queue).await], [Some("a"), None]);
}

#[tokio::test(start_paused = true)]
async fn getters_wait_for_dirty_key_after_shutdown() {
    let queue = Queue::new();
    queue.add("a");
    let item = take(&queue).await;
    queue.add("a");
    queue.shutdown();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { [process(&queue).await, process(&queue).await] }
    });
    settle().await;
    item.done();
    assert_eq!(getter.await.expect("the task did not panic"), [Some("a"), None]);
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_queued_processing_and_dirty_keys() {
    let queue = Queue::new();
    queue.add("again");
    queue.add("waiting");
    let mut item = take(&queue).await;
    queue.add("again");
    let drains: [_; 3] = std::array::from_fn(|_| spawn_drain(&queue));
    let mut processed = Vec::new();
    loop {
        settle().await;
        assert!(queue.is_shutting_down());
        assert!(drains.iter().all(|drain| !drain.is_finished()), "{item:?} is still processing");
        processed.push(*item);
        item.retry(); // ignored, because the queue is shut down
        match get(&queue).await {
            Some(next) => item = next,
            None => break,
        }
    }
    assert_eq!(processed, ["again", "waiting", "again"]);
    for drain in drains {
        drain.await.expect("the task did not panic");
    }
    assert_eq!(process(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn drain_of_idle_queue_returns_immediately_and_twice() {
    let queue = Queue::new();
    queue.shutdown_with_drain().await;
    queue.shutdown_with_drain().await;
    assert_eq!(process(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn shutdown_stops_drain() {
    let queue = Queue::new();
    queue.add("a");
    let _item = take(&queue).await;
    let drain = spawn_drain(&queue);
    settle().await;
    assert!(!drain.is_finished());
    queue.shutdown();
    drain.await.expect("the task did not panic");
}

#[tokio::test(start_paused = true)]
async fn shutdown_stops_first_drain_if_second_starts() {
    let queue = Queue::new();
    queue.add("a");
    let _item = take(&queue).await;
    let first = spawn_drain(&queue);
    settle().await;
    queue.shutdown();
    let second = timeout(SECOND, queue.shutdown_with_drain());
    assert!(
        second.await.is_err(),
        "the second drain started after the shutdown, and the key is still processing"
    );
    first.await.expect("the task did not panic");
}

#[tokio::test(start_paused = true)]
async fn cancelled_drain_leaves_queue_shut_down() {
    let queue = Queue::new();
    queue.add("a");
    assert!(timeout(SECOND, queue.shutdown_with_drain()).await.is_err());
    queue.add("b");
    assert_eq!([process(&queue).await, process(&queue).await], [Some("a"), None]);
}

#[tokio::test(start_paused = true)]
async fn key_is_freed_after_done_and_reset() {
    let (queue, key) = (WorkQueue::new(), Arc::<str>::from("a"));
    queue.add(Arc::clone(&key));
    let item = timeout(FOREVER, queue.get()).await.expect("a wake-up was lost").expect("the queue is open");
    item.retry();
    let item = timeout(FOREVER, queue.get()).await.expect("a wake-up was lost").expect("the queue is open");
    assert!(Arc::strong_count(&key) > 1);
    item.forget();
    item.done();
    assert_eq!(Arc::strong_count(&key), 1);
}

#[test]
fn queue_and_item_are_send_and_sync() {
    fn assert_send_sync<T: Send + Sync + 'static>(_: &T) {}
    let queue = WorkQueue::<String>::default();
    assert_send_sync(&queue);
    assert_send_sync::<Option<Item<String>>>(&None);
    assert_eq!(format!("{queue:?}"), "WorkQueue { .. }");
}

#[tokio::test(start_paused = true)]
async fn status_counts_ready_keys_of_each_lane() {
    let queue = WorkQueue::new();
    let ready = || (queue.status().ready, queue.status().ready_background);
    queue.add_with_priority("initial", Priority::LOW);
    queue.add_with_priority("resync", Priority(-1));
    queue.add("changed");
    assert_eq!(ready(), (3, 2));
    queue.add("resync");
    assert_eq!(ready(), (3, 1), "the key moved to the normal lane");
    let _taken = [queue.get().await, queue.get().await, queue.get().await];
    assert_eq!(ready(), (0, 0));
}
