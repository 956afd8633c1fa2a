//! The protocol between the comparison and the process of a cluster: one JSON value per line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::check::State;
use super::server::Requests;
use crate::client::Latency;

/// A command for the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Command {
    /// Wait until each Website is ready.
    Ready,
    /// Change Websites at a fixed rate, and wait until each of them is ready again.
    Change {
        /// The number of Websites.
        websites: usize,
        /// The number of changes per second.
        per_second: u64,
    },
    /// Report the number of requests.
    Count,
    /// Check the objects of all Websites.
    Check,
}

/// The reply to a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    /// The requests so far, if the server counts them.
    pub(super) requests: Option<Requests>,
    /// The latency of the changes.
    pub(super) latency: Option<Latency>,
    /// The result of a check.
    pub(super) state: Option<State>,
}

/// The first line of the cluster, after its Websites are created.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClusterReady {
    /// The kubeconfig of the server.
    pub(crate) kubeconfig: PathBuf,
}
