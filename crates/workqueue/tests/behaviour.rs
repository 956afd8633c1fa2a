//! The queue's promises, one by one, under a paused clock.

use std::sync::Arc;
use std::time::Duration;

use kube_workqueue::{ExponentialFailure, Item, WorkQueue};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

const SECOND: Duration = Duration::from_secs(1);

type Queue = WorkQueue<&'static str>;

/// Longer than any delay of a test; with the clock paused it passes at once when no task can go on.
const NEVER: Duration = Duration::from_secs(3600);

async fn get(queue: &Queue) -> Option<Item<&'static str>> {
    timeout(NEVER, queue.get()).await.expect("a wake-up was lost")
}

/// The key of the next item, whose work is over at once.
async fn run(queue: &Queue) -> Option<&'static str> {
    get(queue).await.map(|item| *item)
}

async fn take(queue: &Queue) -> Item<&'static str> {
    get(queue).await.expect("the queue is open")
}

fn spawn_drain(queue: &Queue) -> JoinHandle<()> {
    let queue = queue.clone();
    tokio::spawn(
        async move { timeout(NEVER, queue.shutdown_with_drain()).await.expect("a wake-up was lost") },
    )
}

/// Lets every task run until none can go on.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn keys_come_out_in_the_order_of_their_first_add() {
    let queue = Queue::new();
    for key in ["a", "b", "a", "c", "b"] {
        queue.add(key);
    }
    assert_eq!(queue.len(), 3);
    assert_eq!([run(&queue).await, run(&queue).await, run(&queue).await], [Some("a"), Some("b"), Some("c")]);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_runs_is_not_handed_out_again_until_its_item_is_dropped() {
    let queue = Queue::new();
    queue.add("a");
    let item = take(&queue).await;
    queue.add("a");
    assert_eq!(queue.len(), 0);
    assert!(timeout(SECOND, queue.get()).await.is_err());
    item.done();
    assert_eq!(run(&queue).await, Some("a"));
    assert!(timeout(SECOND, queue.get()).await.is_err(), "one run serves the add");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_gives_its_key_back() {
    let queue = Queue::new();
    queue.add("a");
    let worker = queue.clone();
    let outcome = tokio::spawn(async move {
        let _item = take(&worker).await;
        panic!("on purpose");
    });
    assert!(outcome.await.is_err());
    queue.add("a");
    assert_eq!(run(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_getter_waits_for_an_add() {
    let queue = Queue::new();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { run(&queue).await }
    });
    settle().await;
    queue.add("a");
    assert_eq!(getter.await.expect("the task did not panic"), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_at_its_deadline() {
    let (queue, start) = (Queue::new(), Instant::now());
    queue.add_after("late", 2 * SECOND);
    queue.add_after("early", SECOND);
    assert_eq!(queue.len(), 0);
    assert_eq!((run(&queue).await, start.elapsed()), (Some("early"), SECOND));
    assert_eq!((run(&queue).await, start.elapsed()), (Some("late"), 2 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_of_a_key_the_earlier_counts_whichever_came_first() {
    for delays in [[SECOND, 5 * SECOND], [5 * SECOND, SECOND]] {
        let (queue, start) = (Queue::new(), Instant::now());
        for delay in delays {
            queue.add_after("a", delay);
        }
        assert_eq!((run(&queue).await, start.elapsed()), (Some("a"), SECOND));
        assert!(timeout(10 * SECOND, queue.get()).await.is_err(), "the later one is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_delay_wakes_a_getter_that_sleeps_for_a_later_one() {
    let (queue, start) = (Queue::new(), Instant::now());
    queue.add_after("late", 60 * SECOND);
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { run(&queue).await }
    });
    settle().await;
    queue.add_after("early", SECOND);
    assert_eq!((getter.await.expect("the task did not panic"), start.elapsed()), (Some("early"), SECOND));
}

#[tokio::test(start_paused = true)]
async fn an_immediate_add_leaves_the_timer_of_its_key() {
    let (queue, start) = (Queue::new(), Instant::now());
    queue.add_after("a", SECOND);
    queue.add("a");
    assert_eq!((run(&queue).await, start.elapsed()), (Some("a"), Duration::ZERO));
    assert_eq!((run(&queue).await, start.elapsed()), (Some("a"), SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_while_all_workers_are_busy_counts_from_its_time() {
    let queue = Queue::new();
    queue.add_after("due", SECOND);
    tokio::time::advance(2 * SECOND).await;
    queue.add("added later");
    assert_eq!(queue.len(), 2);
    assert_eq!([run(&queue).await, run(&queue).await], [Some("due"), Some("added later")]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_due_while_it_runs_runs_again() {
    let queue = Queue::new();
    queue.add("a");
    let item = take(&queue).await;
    queue.add_after("a", SECOND);
    tokio::time::advance(SECOND).await;
    item.done();
    assert_eq!(run(&queue).await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_zero_delay_is_an_add() {
    let queue = Queue::new();
    queue.add_after("a", Duration::ZERO);
    assert_eq!(queue.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_retry_waits_longer_until_the_key_is_forgotten() {
    let queue = Queue::new();
    queue.add("a");
    let mut waits = Vec::new();
    for round in 0..5 {
        let before = Instant::now();
        let item = take(&queue).await;
        waits.push(before.elapsed().as_millis());
        if round == 3 {
            assert_eq!(item.num_requeues(), 3);
            item.forget();
            assert_eq!(queue.num_requeues(&"a"), 0);
        }
        item.retry();
    }
    assert_eq!(waits, [0, 5, 10, 20, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_uses_the_limiter_it_was_given() {
    let queue = Queue::with_rate_limiter(ExponentialFailure::new(SECOND, SECOND));
    let start = Instant::now();
    queue.add_rate_limited("a");
    assert_eq!((run(&queue).await, start.elapsed()), (Some("a"), SECOND));
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_every_waiting_getter() {
    let queue = Queue::new();
    let mut getters = JoinSet::new();
    for _ in 0..10 {
        let queue = queue.clone();
        getters.spawn(async move { run(&queue).await });
    }
    settle().await;
    queue.shutdown();
    assert_eq!(getters.join_all().await, [None; 10]);
    assert_eq!(run(&queue).await, None, "and those that come later");
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_what_waits_is_handed_out_and_nothing_else_is_accepted() {
    let queue = Queue::new();
    queue.add("a");
    queue.add_after("delayed", SECOND);
    assert!(!queue.is_shutting_down());
    queue.shutdown();
    assert!(queue.is_shutting_down());
    queue.add("b");
    queue.add_after("c", SECOND);
    queue.add_rate_limited("d");
    assert_eq!(queue.num_requeues(&"d"), 0, "what is ignored is not counted");
    assert_eq!([run(&queue).await, run(&queue).await], [Some("a"), None]);
}

#[tokio::test(start_paused = true)]
async fn getters_stay_for_a_running_key_that_was_added_again_before_the_shutdown() {
    let queue = Queue::new();
    queue.add("a");
    let item = take(&queue).await;
    queue.add("a");
    queue.shutdown();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { [run(&queue).await, run(&queue).await] }
    });
    settle().await;
    item.done();
    assert_eq!(getter.await.expect("the task did not panic"), [Some("a"), None]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_what_waits_what_runs_and_what_runs_again() {
    let queue = Queue::new();
    queue.add("again");
    queue.add("waiting");
    let mut item = take(&queue).await;
    queue.add("again");
    let drains: [_; 3] = std::array::from_fn(|_| spawn_drain(&queue));
    let mut ran = Vec::new();
    loop {
        settle().await;
        assert!(queue.is_shutting_down());
        assert!(drains.iter().all(|drain| !drain.is_finished()), "{item:?} still runs");
        ran.push(*item);
        item.retry(); // ignored: the shutdown came first
        match get(&queue).await {
            Some(next) => item = next,
            None => break,
        }
    }
    assert_eq!(ran, ["again", "waiting", "again"]);
    for drain in drains {
        drain.await.expect("the task did not panic");
    }
    assert_eq!(run(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_drain_of_an_idle_queue_ends_at_once_and_twice() {
    let queue = Queue::new();
    queue.shutdown_with_drain().await;
    queue.shutdown_with_drain().await;
    assert_eq!(run(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_wait_of_a_drain() {
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
async fn a_shutdown_ends_the_wait_of_a_drain_also_if_another_drain_begins_at_once() {
    let queue = Queue::new();
    queue.add("a");
    let _item = take(&queue).await;
    let first = spawn_drain(&queue);
    settle().await;
    queue.shutdown();
    let second = timeout(SECOND, queue.shutdown_with_drain());
    assert!(second.await.is_err(), "it has begun after the shutdown, and the key still runs");
    first.await.expect("the task did not panic");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_drain_leaves_the_queue_shut_down() {
    let queue = Queue::new();
    queue.add("a");
    assert!(timeout(SECOND, queue.shutdown_with_drain()).await.is_err());
    queue.add("b");
    assert_eq!([run(&queue).await, run(&queue).await], [Some("a"), None]);
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_work_is_done_is_held_no_longer() {
    let (queue, key) = (WorkQueue::new(), Arc::<str>::from("a"));
    queue.add(Arc::clone(&key));
    let item = timeout(NEVER, queue.get()).await.expect("a wake-up was lost").expect("the queue is open");
    item.retry();
    let item = timeout(NEVER, queue.get()).await.expect("a wake-up was lost").expect("the queue is open");
    assert!(Arc::strong_count(&key) > 1);
    item.forget();
    item.done();
    assert_eq!(Arc::strong_count(&key), 1);
}

#[test]
fn handles_and_items_go_to_other_threads() {
    fn assert_send_sync<T: Send + Sync + 'static>(_: &T) {}
    let queue = WorkQueue::<String>::default();
    assert_send_sync(&queue);
    assert_send_sync::<Option<Item<String>>>(&None);
    assert_eq!(format!("{queue:?}"), "WorkQueue { .. }");
}
