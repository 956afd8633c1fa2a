//! What a manager says when it ends before it was told to, or otherwise than it was to.

use std::net::SocketAddr;

use kube_informer::NotSynced;

use super::task_group::Trouble;
use crate::{ElectionError, ElectionOptions, Failure, MissingRule};

/// A manager could not begin, or has ended before it was told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// The pages can't be served there.
    #[error("can't listen on {address}; choose another address, or none: {source}")]
    Bind {
        /// Where they should have been.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The election can't be held like this.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// Two controllers, or tasks, have one name, by which metrics and pages could not tell them apart.
    #[error("two parts are named {0}; name one of them otherwise")]
    DuplicateName(String),
    /// Some caches were not filled in time.
    #[error("{source}{}", hint(missing))]
    NotSynced {
        /// Which, and what they have met last.
        source: NotSynced,
        /// What the server says that this account may not do, and has to.
        missing: Vec<MissingRule>,
    },
    /// Somebody else may lead now: the process has to end, so that nothing that was begun before goes on.
    #[error("the lease {0} could not be renewed in time: this process leads no more, and has to end")]
    LeadershipLost(String),
    /// A task has failed.
    #[error("{name} has failed: {failure}")]
    TaskFailed {
        /// Its name.
        name: String,
        /// What it says.
        failure: Failure,
    },
    /// A controller or a task has panicked, outside of a run.
    #[error("{0} has panicked")]
    TaskPanicked(String),
    /// Something does not wait, so that it could not be dropped when the grace was over. A lease that this process has is not
    /// given back: who comes next waits until it has expired. The process has to end, by `std::process::exit`: a runtime that is
    /// dropped waits for what does not wait.
    #[error("still at it when the grace was over: {}{}", .still_running.join(", "), why(.cause.as_deref()))]
    ShutdownTimeout {
        /// Controllers and tasks.
        still_running: Vec<String>,
        /// Why the manager has ended, where it was not told to.
        cause: Option<Box<ManagerError>>,
    },
}

fn why(error: Option<&ManagerError>) -> String {
    error.map(|error| format!("; the manager ends since {error}")).unwrap_or_default()
}

fn hint(missing: &[MissingRule]) -> String {
    missing.iter().map(|rule| format!("; this account {rule}")).collect()
}

pub(super) fn error(trouble: Trouble, election: Option<&ElectionOptions>) -> ManagerError {
    match trouble {
        Trouble::LeadershipLost => {
            let lease = |options: &ElectionOptions| format!("{}/{}", options.namespace, options.name);
            ManagerError::LeadershipLost(election.map(lease).unwrap_or_default())
        }
        Trouble::Failed(name, failure) => ManagerError::TaskFailed { name, failure },
        Trouble::Panicked(name) => ManagerError::TaskPanicked(name),
    }
}
