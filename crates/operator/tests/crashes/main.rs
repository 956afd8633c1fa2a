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
use tokio::{runtime::Handle, time::sleep};
use tokio_util::sync::CancellationToken;

use life::{Fate, Life, Moment, STEPS};
use world::{Ends, World};

/// So many worlds, and so many things that are done to the objects of each.
const SEEDS: u64 = 30;
const STEPS_OF_PEOPLE: usize = 100;

/// Lives one after the other, until this is told to end.
async fn lives(world: &Arc<World>, replicas: &[Replica], who: &str, mut rng: Rng, end: &CancellationToken) {
    for number in 0.. {
        sleep(Duration::from_millis(rng.u64(..2000))).await;
        if end.is_cancelled() {
            return;
        }
        let replica = &replicas[rng.usize(..replicas.len())];
        replica.set_lag(match rng.u8(..3) {
            0 => Lag::None,
            1 => Lag::Time(Duration::from_millis(rng.u64(..3000))),
            _ => Lag::Revisions(rng.u64(..10)),
        });
        let life = Life::new(world, &format!("{who}-{number}"), Fate::draw(&mut rng));
        operator::live(&life, replica.service(), rng.fork()).await;
    }
}

/// Troubles, and then peace.
async fn simulate(seed: u64) -> Arc<World> {
    let (world, mut rng) = (World::new(seed), Rng::with_seed(seed));
    let replicas = [world.server.itself(), world.server.replica(Lag::None), world.server.replica(Lag::None)];
    let (people, one, other) = (rng.fork(), rng.fork(), rng.fork());
    let end = CancellationToken::new();
    let working = async {
        people::work(&world, STEPS_OF_PEOPLE, people).await;
        end.cancel();
    };
    let standing_by = async {
        if rng.bool() {
            lives(&world, &replicas, "other", other, &end).await;
        }
    };
    tokio::join!(lives(&world, &replicas, "one", one, &end), standing_by, working);

    world.server.plan().unwrap().stop();
    replicas.iter().for_each(|replica| replica.set_lag(Lag::None));
    people::release_all(&world);
    let last = Life::new(&world, "last", Fate::Last);
    let stop = last.stop.clone();
    let settling = async {
        world.settle().await;
        stop.cancel();
    };
    tokio::join!(operator::live(&last, world.server.service(), Rng::with_seed(seed)), settling);
    sleep(Duration::from_secs(1)).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    if tasks > 0 {
        world.wrong(format!("{tasks} tasks are left of lives that are over"));
    }
    if let Some(leader) = world.leader() {
        world.wrong(format!("{leader} was told to stop, and has not given the lease back"));
    }
    world
}

#[tokio::test(start_paused = true)]
async fn however_often_an_operator_dies_nothing_is_orphaned_forgotten_or_cleaned_up_too_late() {
    let (mut ends, mut cleaned_up) = (Ends::new(), 0);
    for seed in 0..SEEDS {
        let world = simulate(seed).await;
        let (wrongs, history) = (world.wrongs(), world.history().join("\n"));
        assert!(wrongs.is_empty(), "{history}\nseed {seed}:\n{}", wrongs.join("\n"));
        cleaned_up += world.cleaned_up();
        for (place, count) in world.all_ends() {
            *ends.entry(place).or_default() += count;
        }
    }
    println!("{ends:#?}");
    let mut places: Vec<String> =
        ["in a run", "while it leads and waits", "while another one leads"].map(str::to_owned).into();
    for moment in [Moment::Before, Moment::After] {
        places.extend(STEPS.iter().map(|step| format!("{moment:?} {step:?}")));
    }
    let never: Vec<&String> = places.iter().filter(|place| !ends.contains_key(*place)).collect();
    assert!(never.is_empty(), "nobody has died {never:?}");
    let deaths: usize = ends.values().sum();
    assert!(
        deaths > 300 && cleaned_up > 150,
        "too little has happened: {deaths} deaths, {cleaned_up} cleanups"
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_is_the_same_story() {
    for seed in 0..2 {
        let (one, other) = (simulate(seed).await.history(), simulate(seed).await.history());
        assert_eq!(one, other, "seed {seed}");
    }
}
