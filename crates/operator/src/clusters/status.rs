//! `ClusterStatus`: the state of a cluster, for pages, metrics and logs.

use std::{fmt, time::Duration};

use kube_informer::{ErrorClass, InformerStatus};
use tokio::time::Instant;

use super::{cluster::Cluster, name::ClusterName};

/// A cluster that has not synced within this time counts as failing.
pub(super) const SYNC_TIMEOUT: Duration = Duration::from_secs(60);

/// Requests must fail for longer than this before a synced cluster counts as failing. A server that restarts
/// is usually back earlier.
const MAX_FAILING_TIME: Duration = Duration::from_secs(10);

/// Describes whether the caches of a cluster work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// The initial lists are in progress.
    Starting,
    /// All caches contain their initial list.
    Synced,
    /// Requests fail, or the provider has rejected the cluster. The informers retry.
    Failing,
    /// The slot of the cluster belongs to another process of the shard group.
    OtherReplica,
}

impl fmt::Display for ClusterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Synced => "synced",
            Self::Failing => "failing",
            Self::OtherReplica => "other_replica",
        })
    }
}

/// Describes a cluster at a point in time. The status never contains the contents of objects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClusterStatus {
    /// The name of the cluster.
    pub name: ClusterName,
    /// Whether the caches of the cluster work.
    pub state: ClusterState,
    /// The cause, if the state is [`ClusterState::Failing`].
    pub problem: Option<String>,
    /// The time since the cluster was engaged. `None` if it is not engaged.
    pub engaged: Option<Duration>,
    /// The informers of the cluster.
    pub informers: Vec<InformerStatus>,
}

impl ClusterStatus {
    /// Returns the status of a cluster. `problem` is the problem that the provider has reported.
    pub(super) fn new(name: &ClusterName, cluster: Option<&Cluster>, problem: Option<String>) -> Self {
        let engaged = cluster.map(|cluster| cluster.engaged_at().elapsed());
        let informers = cluster.map_or_else(Vec::new, |cluster| cluster.factory().status());
        let (state, problem) = match (problem, engaged) {
            (Some(problem), _) => (ClusterState::Failing, Some(problem)),
            (None, None) => (ClusterState::Starting, None),
            (None, Some(engaged)) => state_of(&informers, engaged),
        };
        Self { name: name.clone(), state, problem, engaged, informers }
    }

    /// Returns the number of cached objects.
    pub fn objects(&self) -> usize {
        self.informers.iter().map(|informer| informer.objects).sum()
    }
}

fn state_of(informers: &[InformerStatus], engaged: Duration) -> (ClusterState, Option<String>) {
    if let Some(failing) = informers.iter().find(|informer| is_failing(informer)) {
        let error = failing.reflector.last_error.clone().unwrap_or_else(|| "requests fail".to_owned());
        return (ClusterState::Failing, Some(format!("informer {}: {error}", failing.name)));
    }
    match informers.iter().find(|informer| !informer.synced) {
        None => (ClusterState::Synced, None),
        Some(_) if engaged < SYNC_TIMEOUT => (ClusterState::Starting, None),
        Some(informer) => {
            let problem = format!("informer {}: waiting for a complete list from the server", informer.name);
            (ClusterState::Failing, Some(problem))
        }
    }
}

fn is_failing(informer: &InformerStatus) -> bool {
    let now = Instant::now();
    let fails_for_long = || {
        let since = informer.reflector.failing_since;
        since.is_some_and(|since| now.saturating_duration_since(since) > MAX_FAILING_TIME)
    };
    match informer.reflector.failing {
        None => false,
        Some(ErrorClass::Unauthorized | ErrorClass::Forbidden | ErrorClass::NotFound) => true,
        Some(_) => fails_for_long(),
    }
}
