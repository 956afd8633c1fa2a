//! Waiting for caches to be filled, and the error that says which are not, and why.

use std::{fmt, time::Duration};

use kube_reflector::Phase;
use tokio::{runtime::Handle, sync::watch};

/// How long can be waited here: not at all outside of a runtime, which has the clock.
pub(crate) fn patience(within: Duration) -> Duration {
    Handle::try_current().map_or(Duration::ZERO, |_| within)
}

/// Waits until the value is true; `false` if it was not within the time, or never can be.
pub(crate) async fn wait_true(mut value: watch::Receiver<bool>, within: Duration) -> bool {
    if Handle::try_current().is_err() {
        return *value.borrow();
    }
    let waited = tokio::time::timeout(within, value.wait_for(|value| *value)).await;
    matches!(waited, Ok(Ok(_)))
}

/// An informer that has not been filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsynced {
    /// The informer: its kind and URL.
    pub informer: String,
    /// What it was doing.
    pub phase: Phase,
    /// The last failure of a LIST or WATCH, with the URL.
    pub last_error: Option<String>,
}

impl fmt::Display for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.informer)?;
        match (&self.last_error, self.phase) {
            (Some(error), Phase::Stopped) => write!(f, "stopped, and before that {error}"),
            (None, Phase::Stopped) => f.write_str("stopped"),
            (Some(error), phase) => write!(f, "{error}, now {phase:?}"),
            (None, Phase::Idle) => f.write_str("not started"),
            (None, phase) => write!(f, "no failure so far, now {phase:?}"),
        }
    }
}

/// Not every cache was filled in time. They go on trying: this is a report, not an end. Outside of a tokio runtime, which
/// has the clock, nothing is waited for, and the time is zero.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not synced within {within:?}: {}", list(informers))]
pub struct NotSynced {
    /// How long was waited.
    pub within: Duration,
    /// Each informer that is not synced.
    pub informers: Vec<Unsynced>,
}

fn list(informers: &[Unsynced]) -> String {
    informers.iter().map(Unsynced::to_string).collect::<Vec<_>>().join("; ")
}
