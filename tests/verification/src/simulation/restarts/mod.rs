//! Restarts of a process with a snapshot, a checkpoint or both, on a disk that lies.
//!
//! A seed has several lives of one process. A life ends with an orderly stop or a crash. Between two lives,
//! the server changes, loses its history or is restored from a backup, and the disk loses or changes files.
//! During a life, writes of files can fail. The first requests, the restored contents, each call of the
//! handlers and the contents of the cache are checked against docs/warm-restarts.md. In the last two lives no
//! fault occurs, and the cache and the handlers must reach the state of the server.
//!
//! A seed always has the same history. Real files are used, because they have no effect on the paused time.

mod cluster;
mod counts;
mod disk;
mod handlers;
mod life;
mod plan;
mod world;

use std::hash::{DefaultHasher, Hash, Hasher};

use kube_client::api::{DynamicObject, PartialObjectMeta};
use kube_informer::{Compressed, Lazy, Persist, Projection};

pub use counts::RestartCounts;

use self::{life::live, plan::LifePlan, world::World};
use super::{
    object_forms::{ObjectForm, Part},
    workload::Thing,
};

/// The maximum number of lives before the last two.
const MAX_LIVES: usize = 7;

/// The result of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartResult {
    /// The seed.
    pub seed: u64,
    /// The first failed check.
    pub violation: Option<String>,
    /// The history, one line for each event, if it was requested.
    pub history: Vec<String>,
    /// The events that occurred.
    pub counts: RestartCounts,
}

impl RestartResult {
    /// Returns a hash of the history. It is the same in each process.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, &self.history, &self.violation).hash(&mut hasher);
        hasher.finish()
    }
}

/// Runs a seed. Each life has a separate tokio runtime.
///
/// # Panics
/// Panics if the server rejects a valid write, if a temporary file cannot be written, or in a tokio runtime.
#[must_use]
pub fn simulate_restarts(seed: u64, trace: bool) -> RestartResult {
    let mut world = World::new(seed, trace);
    let form = world.rng.u8(..6);
    world.log(|| format!("seed {seed}, {:?}, form {form}", world.files));
    let violation = match form {
        0 => run::<Thing>(&mut world),
        1 => run::<DynamicObject>(&mut world),
        2 => run::<PartialObjectMeta<Thing>>(&mut world),
        3 => run::<Projection<Thing, Part>>(&mut world),
        4 => run::<Lazy<Thing>>(&mut world),
        _ => run::<Compressed<Thing>>(&mut world),
    };
    let violation = violation.err();
    if let Some(violation) = &violation {
        world.log(|| violation.clone());
    }
    let kept = world.kept.lock();
    world.counts.add_number("missed update", kept.missed_updates);
    world.counts.add_number("missed delete", kept.missed_deletes);
    let lines = world.lines.lock().take().into_iter();
    let history = lines.map(|(at, line)| format!("{:>10.3}  {line}", at.as_secs_f64())).collect();
    RestartResult { seed, violation, history, counts: world.counts.clone() }
}

fn run<T: ObjectForm + Persist>(world: &mut World) -> Result<(), String> {
    for _ in 0..world.rng.usize(1..=MAX_LIVES) {
        world.away();
        let plan = LifePlan::draw(world);
        live::<T>(world, &plan)?;
    }
    world.away();
    world.cluster.repair();
    let plan = LifePlan::last(world);
    live::<T>(world, &plan)?;
    let calls = world.kept.lock().calls.len();
    let plan = LifePlan {
        transform: plan.transform,
        handler_version: plan.handler_version,
        ..LifePlan::last(world)
    };
    live::<T>(world, &plan)?;
    // Only objects of the same transform have the same hash.
    match world.kept.lock().calls.len() - calls {
        0 => Ok(()),
        calls => Err(format!("the handler with a checkpoint received {calls} calls for unchanged objects")),
    }
}
