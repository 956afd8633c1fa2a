//! The simulation runs the complete stack against the embedded server, on one thread with paused time.
//! A seed determines a random workload and random faults.
//!
//! Each informer has a [`Judge`](crate::properties::Judge), which observes each write of the server,
//! each write of the cache and each call of a handler. A seed has two phases. In the first phase,
//! faults occur, and the conditions that always hold are checked. In the second phase, no fault occurs,
//! and all caches and handlers must reach the state of the server.
//!
//! A seed always has the same history. Informers of one seed have different paths or selectors, so that
//! a fault affects one informer. Only the workload writes to the server. The order in which tokio runs
//! two informers at the same time therefore has no effect on them.

mod budget;
mod cache_observer;
mod canary;
mod disorder;
mod eager_task;
mod fault_coverage;
mod faults;
mod handlers;
mod history;
mod object_forms;
mod opaque_versions;
mod reporting_source;
mod restarts;
mod run;
mod scope;
mod setup;
mod source;
mod stack;
mod swapping_source;
mod translation;
mod workload;
mod world;

pub use canary::Canary;
pub use fault_coverage::{FaultCoverage, ReflectorState, SimulatedFault};
pub use history::SnapshotCounts;
pub use restarts::{RestartCounts, RestartResult, simulate_restarts};

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::properties::Violation;

/// A failed check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// One of the properties.
    Property(Violation),
    /// An informer sends too many requests.
    Budget(String),
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self::Property(violation)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Property(violation) => violation.fmt(f),
            Self::Budget(how) => write!(f, "an informer sends too many requests: {how}"),
        }
    }
}

/// Options of a simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulationOptions {
    /// True if the history is kept.
    pub trace: bool,
    /// A corruption that the simulation must detect.
    pub canary: Option<Canary>,
}

/// The result of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulationResult {
    /// The seed.
    pub seed: u64,
    /// The first failed check.
    pub violation: Option<Failure>,
    /// The history, one line for each event, if it was requested.
    pub history: Vec<String>,
    /// The faults that occurred in each state.
    pub coverage: FaultCoverage,
    /// The number of checked snapshots.
    pub snapshots: SnapshotCounts,
}

impl SimulationResult {
    /// Returns a hash of all observations. It is the same in each process.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, &self.history, self.violation.as_ref().map(ToString::to_string)).hash(&mut hasher);
        hasher.finish()
    }
}

/// Runs a seed in a separate tokio runtime.
///
/// # Panics
/// Panics if the server rejects a valid write, or in a tokio runtime.
#[must_use]
pub fn simulate(seed: u64, options: SimulationOptions) -> SimulationResult {
    run::run(seed, options)
}
