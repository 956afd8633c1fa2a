//! Priorities, the status of a queue and its observer, under a paused clock.

use std::sync::Arc;
use std::time::Duration;

use kube_workqueue::{ItemExponentialFailureRateLimiter, Observer, Priority, WorkQueue};
use parking_lot::Mutex;
use tokio::time::advance;

const SECOND: Duration = Duration::from_secs(1);

/// A call of an observer.
#[derive(Clone, Debug, PartialEq)]
enum Observed {
    QueueDuration(Duration),
    WorkDuration(Duration),
}

/// Records the calls in their order.
#[derive(Clone, Default)]
struct RecordingObserver(Arc<Mutex<Vec<Observed>>>);

impl Observer for RecordingObserver {
    fn observe_queue_duration(&self, duration: Duration) {
        self.0.lock().push(Observed::QueueDuration(duration));
    }

    fn observe_work_duration(&self, duration: Duration) {
        self.0.lock().push(Observed::WorkDuration(duration));
    }
}

fn observed_queue() -> (WorkQueue<&'static str>, RecordingObserver) {
    let observer = RecordingObserver::default();
    (
        WorkQueue::with_observer(
            ItemExponentialFailureRateLimiter::new(SECOND, 8 * SECOND),
            observer.clone(),
        ),
        observer,
    )
}

async fn take_all(queue: &WorkQueue<&'static str>) -> Vec<&'static str> {
    let mut keys = Vec::new();
    while !queue.is_empty() {
        keys.push(*queue.get().await.unwrap());
    }
    keys
}

#[tokio::test(start_paused = true)]
async fn low_priority_keys_follow_later_changes() {
    let queue = WorkQueue::new();
    queue.add_with_priority("listed", Priority::LOW);
    queue.add_with_priority("listed, then changed", Priority::LOW);
    queue.add("changed");
    queue.add("listed, then changed");
    advance(101 * SECOND).await;
    queue.add("changed much later");
    let order = ["changed", "listed, then changed", "changed much later", "listed"];
    assert_eq!(take_all(&queue).await, order);
}

#[tokio::test(start_paused = true)]
async fn priority_of_delayed_key_applies_once_due() {
    let queue = WorkQueue::new();
    queue.add_after_with_priority("urgent", SECOND, Priority(60));
    queue.add("usual");
    assert_eq!(queue.len(), 1);
    advance(SECOND).await;
    assert_eq!(take_all(&queue).await, ["urgent", "usual"]);
}

#[tokio::test(start_paused = true)]
async fn retried_key_keeps_its_priority() {
    let (queue, _) = observed_queue();
    queue.add_with_priority("listed", Priority::LOW);
    queue.get().await.unwrap().retry();
    let item = queue.get().await.unwrap();
    assert_eq!((item.priority(), item.num_requeues()), (Priority::LOW, 1));
}

#[tokio::test(start_paused = true)]
async fn observer_receives_queue_and_work_durations() {
    let (queue, observer) = observed_queue();
    queue.add("a");
    advance(2 * SECOND).await;
    queue.add("a");
    let item = queue.get().await.unwrap();
    advance(3 * SECOND).await;
    queue.add("a");
    item.retry();
    let expected = [Observed::QueueDuration(2 * SECOND), Observed::WorkDuration(3 * SECOND)];
    assert_eq!(*observer.0.lock(), expected);

    queue.get().await.unwrap().done();
    queue.get().await.unwrap().done();
    let queued = || Observed::QueueDuration(Duration::ZERO);
    let worked = || Observed::WorkDuration(Duration::ZERO);
    assert_eq!(
        observer.0.lock()[2..],
        [queued(), worked(), queued(), worked()],
        "the queue duration of the retry starts at its deadline"
    );
}

#[tokio::test(start_paused = true)]
async fn status_counts_ready_delayed_and_processing_keys() {
    let (queue, _) = observed_queue();
    for key in ["a", "b", "c", "c"] {
        queue.add(key);
    }
    queue.add_after("later", SECOND * 60);
    let first = queue.get().await.unwrap();
    advance(SECOND).await;
    let second = queue.get().await.unwrap();
    advance(SECOND).await;

    let status = queue.status();
    assert_eq!((status.ready, status.delayed, status.adds, status.retries), (1, 1, 3, 0));
    assert_eq!(status.processing, [("a", 2 * SECOND), ("b", SECOND)]);
    assert_eq!((status.unfinished_work(), status.longest_running()), (3 * SECOND, 2 * SECOND));

    queue.add("a");
    first.done();
    second.retry();
    let status = queue.status();
    assert_eq!((status.ready, status.delayed, status.adds, status.retries), (2, 2, 4, 1));
    assert_eq!((status.processing.len(), status.longest_running()), (0, Duration::ZERO));
    advance(SECOND * 60).await;
    assert_eq!(queue.status().adds, 6, "a due key counts as an add");
}

/// Panics in each call.
struct PanickingObserver;

impl Observer for PanickingObserver {
    fn observe_queue_duration(&self, _: Duration) {
        panic!("on purpose");
    }

    fn observe_work_duration(&self, _: Duration) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_observer_releases_key() {
    let queue =
        WorkQueue::with_observer(ItemExponentialFailureRateLimiter::new(SECOND, SECOND), PanickingObserver);
    queue.add("a");
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.is_some() }
    });
    assert!(getter.await.unwrap_err().is_panic());
    assert_eq!(queue.status().processing, []);
}
