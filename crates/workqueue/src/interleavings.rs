//! Tests that no wake-up is lost (see `Shared` in `queue`), in every order of lock and notification
//! operations.
//!
//! The `shuttle` scheduler runs each scenario many times: small scenarios in every order, large
//! ones in random orders. A lost wake-up leaves a task that waits indefinitely, which fails the
//! test. Time passes only when a task calls `advance`.
//!
//! - `primitives`: the lock, the notifications and the clock of `sync`, with a scheduling point
//!   before each operation.
//! - `search`: the schedulers, one exhaustive and two random ones.
//! - `scenario`: a queue, the tasks that use it, and the checks.
//!
//! Run with `cargo test -p kube-workqueue --lib interleavings`.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use shuttle::future::block_on;

pub(crate) mod primitives;
mod scenario;
mod search;

use primitives::advance;
use scenario::{Scenario, poll_at_most};
use search::{TaskFuture, explore_all_orders, explore_random_orders, run_tasks, spawn_detached};

const SECOND: Duration = Duration::from_secs(1);
/// The number of random orders per large scenario, for each of the two random schedulers.
const RANDOM_RUNS: usize = 3000;

/// Takes the ready key.
fn take(scenario: &Scenario) -> crate::Item<u8> {
    block_on(scenario.queue.get()).expect("a key is ready")
}

/// Advances the clock by each of `steps`.
fn advance_in_steps<const N: usize>(steps: [Duration; N]) -> TaskFuture {
    Box::pin(async move { steps.into_iter().for_each(advance) })
}

/// Property 19.
#[test]
fn adds_of_two_producers_reach_two_getters() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        let add = |key| scenario.task(move |scenario| async move { scenario.add(key) });
        run_tasks([
            add(1),
            add(2),
            scenario.task(Scenario::process_one),
            scenario.task(Scenario::process_one),
        ]);
        scenario.assert_served();
    });
}

#[test]
fn two_adds_with_one_permit_reach_two_getters() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        let adds = scenario.task(|scenario| async move { [1, 2].iter().for_each(|key| scenario.add(*key)) });
        run_tasks([adds, scenario.task(Scenario::process_one), scenario.task(Scenario::process_one)]);
        scenario.assert_served();
    });
}

#[test]
fn three_getters_share_ready_keys_and_new_adds() {
    explore_random_orders(RANDOM_RUNS, || {
        let scenario = Scenario::new();
        scenario.add(1);
        scenario.add(2);
        let add = scenario.task(|scenario| async move { scenario.add(3) });
        let getter = || scenario.task(Scenario::process_one);
        run_tasks([add, getter(), getter(), getter()]);
        scenario.assert_served();
    });
}

/// Property 19.
#[test]
fn key_added_while_processing_is_processed_again_by_one_worker() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        scenario.add(1);
        let item = take(&scenario);
        let worker = scenario.task(|scenario| async move { scenario.process(item) });
        let adds = scenario.task(|scenario| async move { scenario.add(1) });
        run_tasks([worker, adds, scenario.task(Scenario::process_one)]);
        scenario.assert_served();
        assert_eq!(scenario.times_processed(1), 2);
    });
}

/// Property 19.
#[test]
fn concurrent_adds_of_a_key_are_not_lost() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        let add = || scenario.task(|scenario| async move { scenario.add(1) });
        run_tasks([add(), add(), scenario.task(Scenario::process_one)]);
        if !scenario.is_served() {
            scenario.process(take(&scenario));
        }
        scenario.assert_served();
    });
}

/// A getter is dropped at any moment after its first or second pending poll.
#[test]
fn cancelled_getter_loses_no_key_and_no_wakeup() {
    for polls in [1, 2] {
        explore_all_orders(move || {
            let scenario = Scenario::new();
            let adds = scenario.task(|scenario| async move { scenario.add(1) });
            spawn_detached([
                scenario.task(|scenario| scenario.process_one_or_cancel(polls)),
                scenario.task(Scenario::process_until_shutdown),
            ]);
            run_tasks([adds]);
            block_on(scenario.wait_until_served());
        });
    }
}

#[test]
fn delayed_keys_reach_two_getters() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        scenario.add_after(1, SECOND);
        scenario.add_after(2, 2 * SECOND);
        let getter = || scenario.task(Scenario::process_one);
        run_tasks([advance_in_steps([SECOND, SECOND]), getter(), getter()]);
        scenario.assert_served();
    });
}

#[test]
fn follower_replaces_cancelled_timekeeper() {
    for polls in [1, 2] {
        explore_all_orders(move || {
            let scenario = Scenario::new();
            scenario.add_after(1, SECOND);
            spawn_detached([
                scenario.task(|scenario| scenario.process_one_or_cancel(polls)),
                scenario.task(Scenario::process_until_shutdown),
            ]);
            run_tasks([advance_in_steps([SECOND])]);
            block_on(scenario.wait_until_served());
        });
    }
}

#[test]
fn follower_replaces_timekeeper_that_returned_a_key() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        scenario.add_after(1, SECOND);
        let adds = scenario.task(|scenario| async move {
            scenario.add(2);
            advance(SECOND);
        });
        run_tasks([adds, scenario.task(Scenario::process_one), scenario.task(Scenario::process_one)]);
        scenario.assert_served();
    });
}

#[test]
fn timekeeper_without_followers_takes_immediate_add() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        scenario.queue.add_after(1, SECOND);
        let adds = scenario.task(|scenario| async move { scenario.add(2) });
        run_tasks([adds, scenario.task(Scenario::process_one)]);
        scenario.assert_served();
    });
}

#[test]
fn earlier_deadline_is_observed() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        scenario.queue.add_after(1, 60 * SECOND);
        let adds = scenario.task(|scenario| async move {
            scenario.add_after(2, SECOND);
            advance(SECOND);
        });
        spawn_detached([
            scenario.task(Scenario::process_until_shutdown),
            scenario.task(Scenario::process_until_shutdown),
        ]);
        run_tasks([adds]);
        block_on(scenario.wait_until_served());
    });
}

#[test]
fn earlier_deadline_of_cancelled_timekeeper_is_observed() {
    for polls in [1, 2] {
        explore_all_orders(move || {
            let scenario = Scenario::new();
            scenario.queue.add_after(1, 60 * SECOND);
            let adds = scenario.task(|scenario| async move {
                scenario.add_after(2, SECOND);
                advance(SECOND);
            });
            spawn_detached([
                scenario.task(move |scenario| scenario.process_one_or_cancel(polls)),
                scenario.task(Scenario::process_until_shutdown),
            ]);
            run_tasks([adds]);
            block_on(scenario.wait_until_served());
        });
    }
}

#[test]
fn getters_return_none_after_shutdown_and_ready_keys() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        let shutdown = scenario.task(|scenario| async move {
            scenario.add(1);
            scenario.queue.shutdown();
        });
        let getter = || scenario.task(Scenario::process_until_shutdown);
        run_tasks([shutdown, getter(), getter()]);
        scenario.assert_served();
    });
    explore_all_orders(|| {
        let scenario = Scenario::new();
        let shutdown = scenario.task(|scenario| async move { scenario.queue.shutdown() });
        let getter = || scenario.task(Scenario::process_until_shutdown);
        run_tasks([shutdown, getter(), getter(), getter()]);
    });
}

#[test]
fn drain_waits_for_processing_and_dirty_keys() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        scenario.add(1);
        let item = take(&scenario);
        scenario.add(1);
        let worker = scenario.task(|scenario| async move { scenario.process(item) });
        let drain = scenario.task(|scenario| async move {
            scenario.queue.shutdown_with_drain().await;
            scenario.assert_none_processing();
            scenario.assert_served();
        });
        run_tasks([worker, drain, scenario.task(Scenario::process_until_shutdown)]);
        assert_eq!(scenario.times_processed(1), 2);
    });
}

/// The worker adds the key again before it completes the key, as after a failure.
#[test]
fn removals_wait_for_worker_and_remove_later_adds() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        scenario.queue.add(1);
        let item = take(&scenario);
        let worker = scenario.task(|scenario| async move {
            scenario.queue.add(1);
            drop(item);
        });
        let removal = || scenario.task(|scenario| async move { scenario.queue.remove_where(|_| true).await });
        run_tasks([worker, removal(), removal()]);
        assert!(scenario.queue.status().processing.is_empty() && scenario.queue.is_empty());
    });
}

#[test]
fn cancelled_drain_does_not_block_another_drain() {
    for polls in [1, usize::MAX] {
        explore_all_orders(move || {
            let scenario = Scenario::new();
            scenario.add(1);
            let item = take(&scenario);
            let worker = scenario.task(|scenario| async move { scenario.process(item) });
            let drain = |polls| {
                scenario.task(move |scenario| async move {
                    poll_at_most(polls, scenario.queue.shutdown_with_drain()).await;
                })
            };
            run_tasks([worker, drain(polls), drain(usize::MAX)]);
        });
    }
}

/// A second drain starts before the first drain returns.
#[test]
fn shutdown_stops_drain_of_key_that_never_finishes() {
    explore_all_orders(|| {
        let scenario = Scenario::new();
        scenario.add(1);
        let item = take(&scenario);
        let drain = scenario.task(|scenario| async move { scenario.queue.shutdown_with_drain().await });
        let drain = poll_once(drain);
        let shutdown = scenario.task(|scenario| async move {
            scenario.queue.shutdown();
            poll_at_most(1, scenario.queue.shutdown_with_drain()).await;
        });
        run_tasks([drain, shutdown]);
        drop(item);
    });
}

/// Polls `work` once and asserts that it is pending.
fn poll_once(mut work: TaskFuture) -> TaskFuture {
    let polled = block_on(poll_fn(|context| Poll::Ready(work.as_mut().poll(context))));
    assert!(polled.is_pending());
    work
}

/// Two producers add keys, one of them also with delays. Time passes. One of three workers cancels
/// its `get` several times. Finally the queue is drained.
#[test]
fn producers_workers_delays_and_drain_lose_no_key() {
    explore_random_orders(RANDOM_RUNS, || {
        let scenario = Scenario::new();
        let adds = scenario.producer(|scenario| [1, 2, 1, 2].iter().for_each(|key| scenario.add(*key)));
        let delays = scenario.producer(|scenario| {
            scenario.add_after(3, 2 * SECOND);
            scenario.add_after(4, SECOND);
            scenario.add(2);
            scenario.add_after(3, SECOND);
        });
        let cancelling_worker = scenario.task(|scenario| async move {
            for polls in [1, 2, 1, 2, 1] {
                if let Some(Some(item)) = poll_at_most(polls, scenario.queue.get()).await {
                    scenario.process(item);
                }
            }
        });
        let shutdown = scenario.task(|scenario| async move {
            scenario.wait_until_all_added().await;
            advance(2 * SECOND);
            scenario.wait_until_served().await;
            scenario.queue.shutdown_with_drain().await;
            scenario.assert_none_processing();
        });
        let time = advance_in_steps([SECOND, SECOND]);
        run_tasks([
            adds,
            delays,
            time,
            cancelling_worker,
            shutdown,
            scenario.task(Scenario::process_until_shutdown),
            scenario.task(Scenario::process_until_shutdown),
        ]);
        scenario.assert_served();
    });
}
