//! The simulation: the whole stack against the embedded server, on one thread with paused time, with a random workload
//! and random troubles, all of it from one seed.
//!
//! Each informer has a [`Judge`](crate::properties::Judge), which is shown every write of the server, every write of the
//! cache and every call of a handler. A seed has two phases: one with troubles, in which whatever holds at any time is
//! checked, and one without, in which caches and handlers must come to know all that the server has.
//!
//! A seed that is run again gives the same history. Informers of one seed have paths or selectors of their own, so that a
//! fault is for one of them, and no handle on the server but that of the workload writes: which of two informers runs first in one
//! moment, which tokio decides by chance, then makes no difference to either.

mod budget;
mod careless;
mod eye;
mod forms;
mod handlers;
mod history;
mod meetings;
mod run;
mod scope;
mod setup;
mod spy;
mod stack;
mod things;
mod told;
mod troubles;
mod world;

pub use careless::Canary;
pub use history::Snapshots;
pub use meetings::{Meetings, ReflectorState, Trouble};

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::properties::Violation;

/// What does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// One of the properties.
    Property(Violation),
    /// An informer asks too often.
    Budget(String),
}

impl From<Violation> for Broken {
    fn from(violation: Violation) -> Self {
        Self::Property(violation)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Property(violation) => violation.fmt(f),
            Self::Budget(how) => write!(f, "an informer asks too often: {how}"),
        }
    }
}

/// What a run is wanted for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// The history is kept.
    pub trace: bool,
    /// Something is spoiled, which is to be found.
    pub canary: Option<Canary>,
}

/// What became of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// The seed.
    pub seed: u64,
    /// What did not hold first.
    pub violation: Option<Broken>,
    /// What happened, a line each, if that was wanted.
    pub history: Vec<String>,
    /// Which trouble has met which state.
    pub meetings: Meetings,
    /// How many snapshots were judged.
    pub snapshots: Snapshots,
}

impl Simulated {
    /// Of all that was seen: equal in every process.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, &self.history, self.violation.as_ref().map(ToString::to_string)).hash(&mut hasher);
        hasher.finish()
    }
}

/// Runs a seed, in a tokio runtime of its own.
///
/// # Panics
/// If the server refuses what it has to accept, or within a tokio runtime.
#[must_use]
pub fn simulate(seed: u64, wish: Wish) -> Simulated {
    run::run(seed, wish)
}
