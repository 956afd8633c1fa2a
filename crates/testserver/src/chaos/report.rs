//! The result of a chaos test.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

use tokio::time::Duration;

use crate::chaos::hazard::Hazard;

/// The number of the last events that a failure prints.
const PRINTED_EVENTS: usize = 40;

/// Describes a chaos test that passed.
#[derive(Clone, Debug)]
pub struct ChaosReport {
    pub(super) seed: u64,
    pub(super) processes: u64,
    pub(super) requests: u64,
    pub(super) hazards: BTreeMap<Hazard, usize>,
    pub(super) schedule: Vec<String>,
}

impl ChaosReport {
    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the number of processes of the operator.
    pub fn processes(&self) -> u64 {
        self.processes
    }

    /// Returns the number of requests of the operator.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of injected hazards of each kind. A hazard without effect does not count.
    pub fn hazards(&self) -> &BTreeMap<Hazard, usize> {
        &self.hazards
    }

    /// Returns the last 8,192 events: processes, steps, hazards and requests, with their times since the
    /// start.
    pub fn schedule(&self) -> &[String] {
        &self.schedule
    }
}

/// Describes why a chaos test failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChaosCause {
    /// An invariant does not hold.
    #[error("invariant \"{name}\" does not hold: {message}")]
    Invariant {
        /// The name of the invariant.
        name: String,
        /// The description that the check returned.
        message: String,
    },
    /// The operator still writes an hour after all faults stopped.
    #[error(
        "the operator still writes {}s after the last fault and the last step; \
         an operator must write only after a change",
        .after.as_secs()
    )]
    NotQuiet {
        /// The time since the last fault and the last step.
        after: Duration,
    },
    /// The future of the operator repeatedly completes, although no fault happens.
    #[error(
        "the future of the operator completed {times} times without a fault; \
         it must run until the process is killed"
    )]
    Ended {
        /// The number of completed futures without a fault.
        times: u32,
    },
    /// The future of the operator, a step, a check or the setup panicked. tokio catches the panics of tasks
    /// that the operator has spawned. The operator must report them, for example by awaiting its tasks.
    #[error("panic: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
}

impl ChaosCause {
    pub(super) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panicked { message: text.unwrap_or_else(|| "no message".to_owned()) }
    }
}

/// Reports that a chaos test failed: the seed, the cause, and the last events.
///
/// `Debug` prints the same text as `Display`, so a failed `unwrap` is readable.
#[derive(Clone, thiserror::Error)]
pub struct ChaosFailure {
    pub(super) seed: u64,
    pub(super) cause: ChaosCause,
    pub(super) steps: usize,
    pub(super) process: u64,
    pub(super) schedule: Vec<String>,
}

impl ChaosFailure {
    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the cause.
    pub fn cause(&self) -> &ChaosCause {
        &self.cause
    }

    /// Returns the number of completed steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Returns the last 8,192 events before the failure, in the form of [`ChaosReport::schedule`].
    pub fn schedule(&self) -> &[String] {
        &self.schedule
    }
}

impl fmt::Display for ChaosFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, cause, steps, process, schedule } = self;
        writeln!(f, "seed {seed}, process {process}, after {steps} steps: {cause}")?;
        writeln!(f, "the last events:")?;
        for event in &schedule[schedule.len().saturating_sub(PRINTED_EVENTS)..] {
            writeln!(f, "  {event}")?;
        }
        write!(f, "to repeat this test, run only kube_testserver::chaos({seed})")
    }
}

impl fmt::Debug for ChaosFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
