//! Simulation of an operator that crashes repeatedly, at any point, under a paused clock. Resources of
//! a site must not outlive the site. A completed cleanup must not be repeated. In the end, all sites
//! must be up to date. Two processes must never write at the same time.
//!
//! A process crashes before a request, after a request without reading the response, inside of a
//! reconcile, or while it waits. Other processes receive a stop signal. Each process starts with empty
//! caches and a new identity. It uses a replica of the server that may be older than the state that the
//! previous process observed. In some worlds, a second process runs as standby. The usual faults of the
//! network happen. A site owns a resource outside of the cluster and objects inside of the cluster. The
//! garbage collector deletes only the objects.

mod operator;
mod process;
#[path = "../support/mod.rs"]
mod support;
mod users;
mod world;

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use kube_testserver::{Lag, Replica};
use tokio::{
    runtime::{Builder, Handle},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use process::{CrashPoint, Process, STEPS, Side};
use world::{Ends, Sharing, World};

/// Number of worlds, and number of user actions in each world.
const SEEDS: u64 = 32;
/// The number of worlds with shards.
const SEEDS_OF_SHARDS: u64 = 12;
const USER_ACTIONS: usize = 120;

/// Runs one process after the other, until `end` is cancelled.
async fn run_processes(
    world: &Arc<World>,
    replicas: &[Replica],
    (prefix, mut place): (&str, usize),
    mut rng: Rng,
    end: &CancellationToken,
) {
    for number in 0.. {
        sleep(Duration::from_millis(rng.u64(..2000))).await;
        if end.is_cancelled() {
            return;
        }
        let replica = &replicas[rng.usize(..replicas.len())];
        replica.set_lag(match rng.u8(..4) {
            0 => Lag::None,
            1..=2 => Lag::Time(Duration::from_millis(rng.u64(..20_000))),
            _ => Lag::Revisions(rng.u64(..10)),
        });
        let process = Process::new(world, &format!("{prefix}-{number}"), CrashPoint::draw(&mut rng, place));
        operator::run(&process, replica.service(), rng.fork()).await;
        // If the process did not reach its crash point, the next process tries the same point.
        place += usize::from(process.reached_crash_point());
    }
}

/// Runs processes that stop only without their lease or after the stop signal.
async fn run_last_processes(world: &Arc<World>, seed: u64, stop: &CancellationToken) {
    for number in 0.. {
        let mut process = Process::new(world, &format!("last-{number}"), CrashPoint::Never);
        process.stop = stop.clone();
        operator::run(&process, world.server.service(), Rng::with_seed(seed)).await;
        if stop.is_cancelled() {
            return;
        }
    }
}

/// Runs a world on a separate clock. The result therefore does not depend on other worlds.
fn simulate(seed: u64, sharing: Sharing) -> Arc<World> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run_world(seed, sharing))
}

/// Runs a world with faults, and then without faults.
async fn run_world(seed: u64, sharing: Sharing) -> Arc<World> {
    let (world, mut rng) = (World::new(seed, sharing), Rng::with_seed(seed));
    // Processes do not share a replica. Otherwise the order of deliveries to two processes would be random.
    let replicas =
        [world.server.primary_replica(), world.server.replica(Lag::None), world.server.replica(Lag::None)];
    let (first_replicas, standby_replicas) = replicas.split_at(2);
    let (user_rng, first_rng, standby_rng) = (rng.fork(), rng.fork(), rng.fork());
    // Each world starts with a different crash point.
    let (first, end) = (usize::try_from(seed).unwrap(), CancellationToken::new());
    let users = async {
        users::work(&world, USER_ACTIONS, user_rng).await;
        end.cancel();
    };
    let standby = async {
        if sharing == Sharing::Shards || rng.u8(..3) == 0 {
            run_processes(&world, standby_replicas, ("other", first + STEPS.len()), standby_rng, &end).await;
        }
    };
    tokio::join!(run_processes(&world, first_replicas, ("one", first), first_rng, &end), standby, users);

    // From here on, processes do not crash. Users and faults continue for a while, because only long
    // processes drop state.
    let stop = CancellationToken::new();
    let settling = async {
        users::work(&world, USER_ACTIONS / 4, rng.fork()).await;
        world.server.plan().unwrap().stop();
        replicas.iter().for_each(|replica| replica.set_lag(Lag::None));
        users::release_all(&world);
        world.settle().await;
        users::interfere(&world).await;
        world.settle().await;
        stop.cancel();
    };
    tokio::join!(run_last_processes(&world, seed, &stop), settling);
    if let Some(leader) = world.leader().filter(|leader| leader.starts_with("last")) {
        world.violation(format!("{leader} was stopped and did not release the lease"));
    }
    let live = world.live_members();
    if !live.is_empty() {
        world.violation(format!("all processes were stopped, and the Leases {live:?} remain"));
    }
    sleep(Duration::from_secs(1)).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    if tasks > 0 {
        world.violation(format!("{tasks} tasks of stopped processes are still running"));
    }
    world
}

/// Runs worlds, and returns the ends of processes and the number of sites that were cleaned up.
fn simulate_all(seeds: u64, sharing: Sharing) -> (Ends, usize) {
    let (mut ends, mut cleaned_up) = (Ends::new(), 0);
    for seed in 0..seeds {
        let world = simulate(seed, sharing);
        let (violations, history) = (world.violations(), world.history().join("\n"));
        assert!(violations.is_empty(), "{history}\nseed {seed}:\n{}", violations.join("\n"));
        cleaned_up += world.cleaned_up();
        for (place, count) in world.all_ends() {
            *ends.entry(place).or_default() += count;
        }
    }
    println!("{ends:#?}");
    (ends, cleaned_up)
}

#[test]
fn crashes_never_orphan_or_skip_resources() {
    let (ends, cleaned_up) = simulate_all(SEEDS, Sharing::Election);
    let other_points = ["in a reconcile", "waiting as leader", "waiting as follower", operator::LOST_LEASE];
    let sides = [Side::Before, Side::After];
    let steps = STEPS.iter().flat_map(|step| sides.map(|side| format!("{side:?} {step:?}")));
    let missing: Vec<String> = other_points
        .map(str::to_owned)
        .into_iter()
        .chain(steps)
        .filter(|place| !ends.contains_key(place))
        .collect();
    assert!(missing.is_empty(), "no process crashed at: {missing:?}");
    let crashes: usize =
        ends.iter().filter(|(place, _)| *place != operator::LOST_LEASE).map(|(_, count)| count).sum();
    assert!(crashes > 300 && cleaned_up > 150, "too few events: {crashes} crashes, {cleaned_up} cleanups");
}

/// No site is reconciled by two processes at the same time, and each process observes the writes of the
/// earlier owners. The points at which processes crash depend on the random names of their Leases.
#[test]
fn crashes_never_orphan_or_skip_resources_of_shards() {
    let (ends, cleaned_up) = simulate_all(SEEDS_OF_SHARDS, Sharing::Shards);
    let in_steps: usize =
        ends.iter().filter(|(place, _)| !place.starts_with("waiting")).map(|(_, count)| count).sum();
    assert!(in_steps > 25 && cleaned_up > 50, "too few events: {in_steps} crashes, {cleaned_up} cleanups");
}

#[test]
fn same_seed_produces_same_history() {
    for seed in 0..2 {
        // Events at the same time have no fixed order, because tokio wakes the waiters of a channel in
        // any order.
        let [one, other] =
            [simulate(seed, Sharing::Election), simulate(seed, Sharing::Election)].map(|world| {
                let mut history = world.history();
                history.sort();
                history
            });
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        let until = differs.unwrap_or(0);
        assert_eq!(one[..=until], other[..=until], "seed {seed}");
        assert_eq!(one.len(), other.len(), "seed {seed}");
    }
}
