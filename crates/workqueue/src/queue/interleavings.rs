//! Why no wake-up is lost, tried: what the page of `Shared` says, in the orders in which tasks can come to the lock and to
//! the notifications. A wake-up that is lost leaves a task that waits for ever, which fails the run.
//!
//! Small scenarios are tried in every order, large ones in random orders. Time passes when a task says so.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use shuttle::future::block_on;

use crate::sync::controlled::advance;
use crate::sync::orders::{Work, beside, every_order, random_orders, together};

mod world;
use world::{World, at_most};

const SECOND: Duration = Duration::from_secs(1);
/// Random orders of a large scenario, by each of two ways to draw them.
const RUNS: usize = 3000;

/// Gets the key that waits.
fn taken(world: &World) -> crate::Item<u8> {
    block_on(world.queue.get()).expect("a key waits")
}

/// Time passes, in these steps.
fn passes<const N: usize>(steps: [Duration; N]) -> Work {
    Box::pin(async move { steps.into_iter().for_each(advance) })
}

/// Property 19.
#[test]
fn two_producers_serve_two_getters() {
    every_order(|| {
        let world = World::new();
        let add = |key| world.task(move |world| async move { world.add(key) });
        together([add(1), add(2), world.task(World::serve_one), world.task(World::serve_one)]);
        world.assert_served();
    });
}

#[test]
fn two_keys_that_left_one_permit_serve_two_getters() {
    every_order(|| {
        let world = World::new();
        let adds = world.task(|world| async move { [1, 2].iter().for_each(|key| world.add(*key)) });
        together([adds, world.task(World::serve_one), world.task(World::serve_one)]);
        world.assert_served();
    });
}

#[test]
fn three_getters_share_what_waits_and_what_comes() {
    random_orders(RUNS, || {
        let world = World::new();
        world.add(1);
        world.add(2);
        let add = world.task(|world| async move { world.add(3) });
        let getter = || world.task(World::serve_one);
        together([add, getter(), getter(), getter()]);
        world.assert_served();
    });
}

/// Property 19.
#[test]
fn an_add_during_a_run_leads_to_another_run_that_does_not_overlap() {
    every_order(|| {
        let world = World::new();
        world.add(1);
        let item = taken(&world);
        let runs = world.task(|world| async move { world.run(item) });
        let adds = world.task(|world| async move { world.add(1) });
        together([runs, adds, world.task(World::serve_one)]);
        world.assert_served();
        assert_eq!(world.runs(1), 2);
    });
}

/// Property 19.
#[test]
fn of_two_producers_of_one_key_neither_is_forgotten() {
    every_order(|| {
        let world = World::new();
        let add = || world.task(|world| async move { world.add(1) });
        together([add(), add(), world.task(World::serve_one)]);
        if !world.is_served() {
            world.run(taken(&world));
        }
        world.assert_served();
    });
}

/// A getter is dropped after its first or second poll without a key, at any moment after that.
#[test]
fn a_cancelled_getter_loses_neither_its_key_nor_its_wake_up() {
    for polls in [1, 2] {
        every_order(move || {
            let world = World::new();
            let adds = world.task(|world| async move { world.add(1) });
            beside([world.task(|world| world.serve_or_leave(polls)), world.task(World::serve)]);
            together([adds]);
            block_on(world.all_is_served());
        });
    }
}

#[test]
fn delayed_keys_reach_two_getters_as_time_passes() {
    every_order(|| {
        let world = World::new();
        world.add_after(1, SECOND);
        world.add_after(2, 2 * SECOND);
        let getter = || world.task(World::serve_one);
        together([passes([SECOND, SECOND]), getter(), getter()]);
        world.assert_served();
    });
}

#[test]
fn a_cancelled_timekeeper_leaves_its_deadline_to_another() {
    for polls in [1, 2] {
        every_order(move || {
            let world = World::new();
            world.add_after(1, SECOND);
            beside([world.task(|world| world.serve_or_leave(polls)), world.task(World::serve)]);
            together([passes([SECOND])]);
            block_on(world.all_is_served());
        });
    }
}

#[test]
fn a_timekeeper_that_leaves_with_a_key_has_another_keep_the_deadline() {
    every_order(|| {
        let world = World::new();
        world.add_after(1, SECOND);
        let adds = world.task(|world| async move {
            world.add(2);
            advance(SECOND);
        });
        together([adds, world.task(World::serve_one), world.task(World::serve_one)]);
        world.assert_served();
    });
}

#[test]
fn a_timekeeper_without_followers_takes_what_is_added_at_once() {
    every_order(|| {
        let world = World::new();
        world.queue.add_after(1, SECOND);
        let adds = world.task(|world| async move { world.add(2) });
        together([adds, world.task(World::serve_one)]);
        world.assert_served();
    });
}

#[test]
fn an_earlier_deadline_is_kept() {
    every_order(|| {
        let world = World::new();
        world.queue.add_after(1, 60 * SECOND);
        let hurries = world.task(|world| async move {
            world.add_after(2, SECOND);
            advance(SECOND);
        });
        beside([world.task(World::serve), world.task(World::serve)]);
        together([hurries]);
        block_on(world.all_is_served());
    });
}

#[test]
fn a_cancelled_timekeeper_loses_no_earlier_deadline() {
    for polls in [1, 2] {
        every_order(move || {
            let world = World::new();
            world.queue.add_after(1, 60 * SECOND);
            let hurries = world.task(|world| async move {
                world.add_after(2, SECOND);
                advance(SECOND);
            });
            beside([world.task(move |world| world.serve_or_leave(polls)), world.task(World::serve)]);
            together([hurries]);
            block_on(world.all_is_served());
        });
    }
}

#[test]
fn a_shutdown_ends_three_getters_after_what_waits() {
    every_order(|| {
        let world = World::new();
        let ends = world.task(|world| async move {
            world.add(1);
            world.queue.shutdown();
        });
        let getter = || world.task(World::serve);
        together([ends, getter(), getter()]);
        world.assert_served();
    });
    every_order(|| {
        let world = World::new();
        let ends = world.task(|world| async move { world.queue.shutdown() });
        let getter = || world.task(World::serve);
        together([ends, getter(), getter(), getter()]);
    });
}

#[test]
fn a_drain_waits_for_what_runs_and_runs_again() {
    every_order(|| {
        let world = World::new();
        world.add(1);
        let item = taken(&world);
        world.add(1);
        let runs = world.task(|world| async move { world.run(item) });
        let drains = world.task(|world| async move {
            world.queue.shutdown_with_drain().await;
            world.assert_nothing_runs();
            world.assert_served();
        });
        together([runs, drains, world.task(World::serve)]);
        assert_eq!(world.runs(1), 2);
    });
}

#[test]
fn the_end_of_a_run_ends_two_drains_also_if_one_is_cancelled() {
    for polls in [1, usize::MAX] {
        every_order(move || {
            let world = World::new();
            world.add(1);
            let item = taken(&world);
            let runs = world.task(|world| async move { world.run(item) });
            let drain = |polls| {
                world.task(move |world| async move {
                    at_most(polls, world.queue.shutdown_with_drain()).await;
                })
            };
            together([runs, drain(polls), drain(usize::MAX)]);
        });
    }
}

/// Also if another drain begins before the first has noticed.
#[test]
fn a_shutdown_ends_a_drain_that_waits_for_what_never_ends() {
    every_order(|| {
        let world = World::new();
        world.add(1);
        let item = taken(&world);
        let drain = world.task(|world| async move { world.queue.shutdown_with_drain().await });
        let drain = begun(drain);
        let ends = world.task(|world| async move {
            world.queue.shutdown();
            at_most(1, world.queue.shutdown_with_drain()).await;
        });
        together([drain, ends]);
        drop(item);
    });
}

/// Polls `work` once, which must not end it.
fn begun(mut work: Work) -> Work {
    let polled = block_on(poll_fn(|context| Poll::Ready(work.as_mut().poll(context))));
    assert!(polled.is_pending());
    work
}

/// Two producers add two keys each, one of them with delays; of three getters one gives up all the time, while time passes;
/// then the queue is drained.
#[test]
fn all_of_it_together() {
    random_orders(RUNS, || {
        let world = World::new();
        let adds = world.producer(|world| [1, 2, 1, 2].iter().for_each(|key| world.add(*key)));
        let delays = world.producer(|world| {
            world.add_after(3, 2 * SECOND);
            world.add_after(4, SECOND);
            world.add(2);
            world.add_after(3, SECOND);
        });
        let fickle = world.task(|world| async move {
            for polls in [1, 2, 1, 2, 1] {
                if let Some(Some(item)) = at_most(polls, world.queue.get()).await {
                    world.run(item);
                }
            }
        });
        let ends = world.task(|world| async move {
            world.all_is_added().await;
            advance(2 * SECOND);
            world.all_is_served().await;
            world.queue.shutdown_with_drain().await;
            world.assert_nothing_runs();
        });
        let time = passes([SECOND, SECOND]);
        together([adds, delays, time, fickle, ends, world.task(World::serve), world.task(World::serve)]);
        world.assert_served();
    });
}
