//! Priorities, what a queue says of itself, and what it tells an observer, under a paused clock.

use std::sync::Arc;
use std::time::Duration;

use kube_workqueue::{ExponentialFailure, Observer, Priority, WorkQueue};
use parking_lot::Mutex;
use tokio::time::advance;

const SECOND: Duration = Duration::from_secs(1);

/// What an observer was told, in this order.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Waited(Duration),
    Worked(Duration),
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Told>>>);

impl Observer for Notes {
    fn waited(&self, so_long: Duration) {
        self.0.lock().push(Told::Waited(so_long));
    }

    fn worked(&self, so_long: Duration) {
        self.0.lock().push(Told::Worked(so_long));
    }
}

fn observed() -> (WorkQueue<&'static str>, Notes) {
    let notes = Notes::default();
    (WorkQueue::observed(ExponentialFailure::new(SECOND, 8 * SECOND), notes.clone()), notes)
}

async fn take_all(queue: &WorkQueue<&'static str>) -> Vec<&'static str> {
    let mut keys = Vec::new();
    while !queue.is_empty() {
        keys.push(*queue.get().await.unwrap());
    }
    keys
}

#[tokio::test(start_paused = true)]
async fn what_was_there_before_waits_for_what_happens_now_and_not_for_ever() {
    let queue = WorkQueue::new();
    queue.add_with_priority("listed", Priority::LOW);
    queue.add_with_priority("listed, then changed", Priority::LOW);
    queue.add("changed");
    queue.add("listed, then changed");
    advance(101 * SECOND).await;
    queue.add("changed much later");
    let order = ["changed", "listed, then changed", "listed", "changed much later"];
    assert_eq!(take_all(&queue).await, order);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_has_its_priority_once_it_is_due() {
    let queue = WorkQueue::new();
    queue.add_after_with_priority("urgent", SECOND, Priority(60));
    queue.add("usual");
    assert_eq!(queue.len(), 1);
    advance(SECOND).await;
    assert_eq!(take_all(&queue).await, ["urgent", "usual"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_comes_back_with_its_priority() {
    let (queue, _) = observed();
    queue.add_with_priority("listed", Priority::LOW);
    queue.get().await.unwrap().retry();
    let item = queue.get().await.unwrap();
    assert_eq!((item.priority(), item.num_requeues()), (Priority::LOW, 1));
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_how_long_keys_waited_and_were_worked_on() {
    let (queue, notes) = observed();
    queue.add("a");
    advance(2 * SECOND).await;
    queue.add("a");
    let item = queue.get().await.unwrap();
    advance(3 * SECOND).await;
    queue.add("a");
    item.retry();
    let told = [Told::Waited(2 * SECOND), Told::Worked(3 * SECOND)];
    assert_eq!(*notes.0.lock(), told);

    queue.get().await.unwrap().done();
    queue.get().await.unwrap().done();
    let now = || Told::Waited(Duration::ZERO);
    let worked = || Told::Worked(Duration::ZERO);
    assert_eq!(
        notes.0.lock()[2..],
        [now(), worked(), now(), worked()],
        "the retry waits from when it is due"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_says_what_waits_comes_later_and_runs() {
    let (queue, _) = observed();
    for key in ["a", "b", "c", "c"] {
        queue.add(key);
    }
    queue.add_after("later", SECOND * 60);
    let first = queue.get().await.unwrap();
    advance(SECOND).await;
    let second = queue.get().await.unwrap();
    advance(SECOND).await;

    let status = queue.status();
    assert_eq!((status.waiting, status.delayed, status.adds, status.retries), (1, 1, 3, 0));
    assert_eq!(status.running, [("a", 2 * SECOND), ("b", SECOND)]);
    assert_eq!((status.unfinished_work(), status.longest_running()), (3 * SECOND, 2 * SECOND));

    queue.add("a");
    first.done();
    second.retry();
    let status = queue.status();
    assert_eq!((status.waiting, status.delayed, status.adds, status.retries), (2, 2, 4, 1));
    assert_eq!((status.running.len(), status.longest_running()), (0, Duration::ZERO));
    advance(SECOND * 60).await;
    assert_eq!(queue.status().adds, 6, "what came due is asked for");
}

/// Panics whenever it is told of anything, as one with a poisoned lock does.
struct Broken;

impl Observer for Broken {
    fn waited(&self, _: Duration) {
        panic!("on purpose");
    }

    fn worked(&self, _: Duration) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_with_nobody_after_its_observer_has_panicked() {
    let queue = WorkQueue::observed(ExponentialFailure::new(SECOND, SECOND), Broken);
    queue.add("a");
    let getting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.is_some() }
    });
    assert!(getting.await.unwrap_err().is_panic());
    assert_eq!(queue.status().running, []);
}
