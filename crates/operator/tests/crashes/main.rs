//! A whole operator that is killed anywhere, again and again, under a paused clock: nothing that it has made outlives its object,
//! nothing is cleaned up once that was done and said, what is left has what it asks for, and no two write at once.
//!
//! Its lives end before any request, or with an answer that is never read, in the middle of a run, or in a wait; or it is told to
//! stop. Each begins with empty caches, under another name, before a replica that may be behind what the life before has seen and
//! done, and in some worlds another one stands by. Meanwhile the usual faults happen. What is made for a site is kept outside
//! of the cluster, where no garbage collector looks, and in objects that are left to it.

mod life;
mod operator;
mod people;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use kube_testserver::{Lag, Replica};
use tokio::{
    runtime::{Builder, Handle},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use life::{Fate, Life, Moment, STEPS};
use world::{Ends, World};

/// So many worlds, and so many things that are done to the objects of each.
const SEEDS: u64 = 32;
const STEPS_OF_PEOPLE: usize = 120;

/// Lives one after the other, until this is told to end.
async fn lives(
    world: &Arc<World>,
    replicas: &[Replica],
    (who, mut place): (&str, usize),
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
        let life = Life::new(world, &format!("{who}-{number}"), Fate::draw(&mut rng, place));
        operator::live(&life, replica.service(), rng.fork()).await;
        // One that was not met in this life, as there was nothing to do, is tried again in the next.
        place += usize::from(life.has_met_its_fate());
    }
}

/// Lives that end only with their lease or when they are told to.
async fn last_lives(world: &Arc<World>, seed: u64, stop: &CancellationToken) {
    for number in 0.. {
        let mut life = Life::new(world, &format!("last-{number}"), Fate::Last);
        life.stop = stop.clone();
        operator::live(&life, world.server.service(), Rng::with_seed(seed)).await;
        if stop.is_cancelled() {
            return;
        }
    }
}

/// A world on a clock of its own, so that it is the same whatever was before.
fn simulate(seed: u64) -> Arc<World> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(lasts(seed))
}

/// Troubles, and then peace.
async fn lasts(seed: u64) -> Arc<World> {
    let (world, mut rng) = (World::new(seed), Rng::with_seed(seed));
    // Nobody shares one: what is let go at one moment would come to two lives in any order.
    let replicas = [world.server.itself(), world.server.replica(Lag::None), world.server.replica(Lag::None)];
    let (its, others) = replicas.split_at(2);
    let (people, one, other) = (rng.fork(), rng.fork(), rng.fork());
    // Each world begins with another of the places at which lives end.
    let (first, end) = (usize::try_from(seed).unwrap(), CancellationToken::new());
    let working = async {
        people::work(&world, STEPS_OF_PEOPLE, people).await;
        end.cancel();
    };
    let standing_by = async {
        if rng.u8(..3) == 0 {
            lives(&world, others, ("other", first + STEPS.len()), other, &end).await;
        }
    };
    tokio::join!(lives(&world, its, ("one", first), one, &end), standing_by, working);

    // From here on nobody is killed. First people and faults go on, as much is forgotten only by a life that lasts.
    let stop = CancellationToken::new();
    let settling = async {
        people::work(&world, STEPS_OF_PEOPLE / 4, rng.fork()).await;
        world.server.plan().unwrap().stop();
        replicas.iter().for_each(|replica| replica.set_lag(Lag::None));
        people::release_all(&world);
        world.settle().await;
        people::interfere(&world).await;
        world.settle().await;
        stop.cancel();
    };
    tokio::join!(last_lives(&world, seed, &stop), settling);
    if let Some(leader) = world.leader().filter(|leader| leader.starts_with("last")) {
        world.wrong(format!("{leader} was told to stop, and has not given the lease back"));
    }
    sleep(Duration::from_secs(1)).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    if tasks > 0 {
        world.wrong(format!("{tasks} tasks are left of lives that are over"));
    }
    world
}

#[test]
fn however_often_an_operator_dies_nothing_is_orphaned_forgotten_or_cleaned_up_too_late() {
    let (mut ends, mut cleaned_up) = (Ends::new(), 0);
    for seed in 0..SEEDS {
        let world = simulate(seed);
        let (wrongs, history) = (world.wrongs(), world.history().join("\n"));
        assert!(wrongs.is_empty(), "{history}\nseed {seed}:\n{}", wrongs.join("\n"));
        cleaned_up += world.cleaned_up();
        for (place, count) in world.all_ends() {
            *ends.entry(place).or_default() += count;
        }
    }
    println!("{ends:#?}");
    let waits = ["In a run", "Waiting while it leads", "Waiting while another one leads", operator::LOST];
    let moments = [Moment::Before, Moment::After];
    let steps = STEPS.iter().flat_map(|step| moments.map(|moment| format!("{moment:?} {step:?}")));
    let never: Vec<String> =
        waits.map(str::to_owned).into_iter().chain(steps).filter(|place| !ends.contains_key(place)).collect();
    assert!(never.is_empty(), "nobody has ended: {never:?}");
    let deaths: usize =
        ends.iter().filter(|(place, _)| *place != operator::LOST).map(|(_, count)| count).sum();
    assert!(
        deaths > 300 && cleaned_up > 150,
        "too little has happened: {deaths} deaths, {cleaned_up} cleanups"
    );
}

#[test]
fn the_same_seed_is_the_same_story() {
    for seed in 0..2 {
        // What happens at one moment has no order: tokio wakes those who wait for one channel in any.
        let [one, other] = [simulate(seed), simulate(seed)].map(|world| {
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
