//! `ClusterProvider`: reports the clusters of a program.

use std::fmt::{self, Display};

use futures_util::{FutureExt, future::BoxFuture};
use kube_client::Client;
use tokio_util::sync::CancellationToken;

use super::{name::ClusterName, registry::Clusters};
use crate::Failure;

/// Reports the clusters of a [`Manager`](crate::Manager). Corresponds to a provider of
/// multicluster-runtime.
///
/// Closures with the same arguments implement this trait. For example, this provider has two fixed clusters:
///
/// ```no_run
/// # use kube_client::Client;
/// # use kube_operator::{ClusterName, ClusterEngager, Clusters, Failure, Manager};
/// # fn example(manager: &mut Manager, east: Client, west: Client) -> Clusters {
/// manager.clusters(async move |clusters: ClusterEngager, _stop| {
///     clusters.engage(&ClusterName::new("east")?, east);
///     clusters.engage(&ClusterName::new("west")?, west);
///     Ok::<_, Failure>(())
/// })
/// # }
/// ```
pub trait ClusterProvider: Send + 'static {
    /// Reports clusters to `clusters` until `stop` is cancelled.
    ///
    /// The manager starts the provider after the caches of the main cluster are synced, also on followers. If
    /// the future returns `Ok` earlier, the reported clusters remain.
    ///
    /// # Errors
    /// If the future returns an error, the manager stops. Report the problem of a single cluster with
    /// [`ClusterEngager::reject`] instead.
    fn run(
        self: Box<Self>,
        clusters: ClusterEngager,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Failure>>;
}

impl<F, R> ClusterProvider for F
where
    F: FnOnce(ClusterEngager, CancellationToken) -> R + Send + 'static,
    R: Future<Output = Result<(), Failure>> + Send + 'static,
{
    fn run(
        self: Box<Self>,
        clusters: ClusterEngager,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        self(clusters, stop).boxed()
    }
}

/// Engages and disengages clusters, for a [`ClusterProvider`]. The methods return immediately. Each cluster
/// has a separate task, so a cluster that does not respond does not delay other clusters.
///
/// Only the latest call for a name counts. If a cluster is disengaged and engaged again, the second
/// engagement starts after the end of the first engagement.
#[derive(Clone)]
pub struct ClusterEngager(pub(super) Clusters);

impl ClusterEngager {
    /// Engages a cluster. If a cluster with this name is engaged, it first leaves. Therefore, do not call
    /// this method again for an unchanged client.
    pub fn engage(&self, name: &ClusterName, client: Client) {
        self.0.set_desired(name, Some(client));
    }

    /// Disengages a cluster. Also removes the problem that [`reject`](Self::reject) has reported.
    pub fn disengage(&self, name: &ClusterName) {
        self.0.set_desired(name, None);
    }

    /// Reports that a cluster cannot be engaged, for example because its kubeconfig is invalid. The readiness
    /// page, the debug pages and the log contain the problem. If a cluster with this name is engaged, it
    /// stays engaged.
    ///
    /// `problem` must not contain secrets.
    pub fn reject(&self, name: &ClusterName, problem: impl Display) {
        tracing::warn!(cluster = %name, error = %problem, "cluster is rejected");
        self.0.set_problem(name, &problem);
    }

    /// Reports that the provider has reported all clusters that exist at the start. The manager becomes ready
    /// when each of these clusters has synced or has failed. If the provider returns, the manager assumes
    /// this call.
    pub fn initialized(&self) {
        self.0.set_initialized();
    }
}

impl fmt::Debug for ClusterEngager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterEngager").finish_non_exhaustive()
    }
}
