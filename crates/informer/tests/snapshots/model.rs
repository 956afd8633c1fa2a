//! Compares the cache with the server after random changes, restarts, crashes, restores and faults.

use std::time::Duration;

use fastrand::Rng;
use kube_informer::SnapshotFile;
use kube_testserver::{Fault, RequestMatch, Server, Verb};

use crate::life::{Life, World, delete, on_server, put};

const SEEDS: u64 = 60;
const LIVES: usize = 8;
const NAMES: usize = 10;

/// Writes, deletes or replaces some objects.
fn change(server: &Server, rng: &mut Rng) {
    for _ in 0..rng.usize(0..8) {
        let name = format!("o{}", rng.usize(0..NAMES));
        let exists = server.get_untyped("v1", "ConfigMap", Some("default"), &name).is_ok();
        match rng.u8(0..6) {
            0 | 1 if exists => delete(server, &name),
            2 if exists => {
                delete(server, &name);
                put(server, &name, &rng.u8(..).to_string());
            }
            _ => put(server, &name, &rng.u8(..).to_string()),
        }
    }
}

/// Expires versions, or restores an older state of the server. Returns true after a restore.
fn disrupt(server: &Server, rng: &mut Rng, versions: &[u64]) -> bool {
    match rng.u8(0..10) {
        // The server rejects a version that is too old.
        0 => return server.restore(*rng.choice(versions).unwrap()).is_ok(),
        1 => server.expire_watches(server.resource_version()),
        2 => server.restart(),
        _ => {}
    }
    false
}

fn faults(server: &Server, rng: &mut Rng) {
    let fault = match rng.u8(0..8) {
        0 => Fault::internal_error("x"),
        1 => Fault::Reset,
        2 => Fault::Hang,
        3 => Fault::gone(),
        _ => return,
    };
    let verb = *rng.choice(&[Verb::List, Verb::Watch]).unwrap();
    server.faults().next(RequestMatch::verb(verb), fault);
}

/// Runs a process with events. It crashes, or stops in an orderly way.
fn live(world: &World, rng: &mut Rng, versions: &mut Vec<u64>, may_resume: bool) {
    let mut file = file(world, may_resume && rng.bool());
    if rng.u8(0..8) == 0 {
        file = file.max_file_bytes(rng.u64(0..900));
    }
    faults(&world.server, rng);
    let life = world.restore(&file);
    life.start();
    for _ in 0..rng.usize(0..5) {
        versions.push(world.server.resource_version());
        change(&world.server, rng);
        life.sleep(Duration::from_millis(*rng.choice(&[0, 1, 50, 3000, 400_000]).unwrap()));
    }
    if rng.bool() {
        life.stop();
    } else {
        life.crash();
    }
}

fn file(world: &World, may_resume: bool) -> SnapshotFile {
    if may_resume { world.file() } else { world.file().resume_within(Duration::ZERO) }
}

/// Applies the events of the handler of one life, and returns the names of its objects.
fn known(calls: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    for call in calls {
        let (kind, name) = call.rsplit_once(' ').unwrap();
        let is_known = names.iter().any(|known| known == name);
        match kind {
            "delete" => {
                assert!(is_known, "{call}: the object is new");
                names.retain(|known| known != name);
            }
            "update" => assert!(is_known, "{call}: the object is new"),
            _ => {
                assert!(!is_known, "{call}: the object is not new");
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    names
}

fn assert_converged(life: &Life, world: &World, seed: u64) {
    life.sleep(Duration::from_secs(1200));
    life.settle();
    assert_eq!(life.values(), on_server(&world.server), "seed {seed}");
    assert_eq!(known(&world.calls.lock()), life.names(), "seed {seed}");
}

#[test]
fn cache_has_state_of_server_after_any_restarts() {
    for seed in 0..SEEDS {
        let (mut rng, world) = (Rng::with_seed(seed), World::with_objects(0));
        let mut versions = vec![world.server.resource_version()];
        // A watch does not recognize a restored server that has passed the version of the file.
        let mut may_resume = true;
        for _ in 0..LIVES {
            change(&world.server, &mut rng);
            live(&world, &mut rng, &mut versions, may_resume);
            known(&std::mem::take(&mut *world.calls.lock()));
            may_resume &= !disrupt(&world.server, &mut rng, &versions);
        }
        let life = world.start_with(&file(&world, may_resume));
        assert_converged(&life, &world, seed);
        life.stop();
        world.calls.lock().clear();
        let life = world.start();
        assert_converged(&life, &world, seed);
        life.stop();
    }
}
