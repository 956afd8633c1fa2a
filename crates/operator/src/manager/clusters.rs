//! Many clusters of a `Manager`.

use futures_util::FutureExt;
use kube_informer::Cached;

use super::{
    Manager,
    runnables::{TaskKind, TaskSpec},
};
use crate::{
    Action, ClusterController, ClusterProvider, ClusterRequest, Clusters, Failure, Leadership,
    clusters::ClusterShards, election::hostname,
};

impl Manager {
    /// Runs a provider of clusters, and returns the clusters that it reports. Call this method once. With a
    /// second provider, [`Manager::run`] returns
    /// [`ManagerError::DuplicateName`](crate::ManagerError::DuplicateName).
    ///
    /// The caches of the clusters also run on followers. With the option `shards`, each process engages only
    /// the clusters in its slots; see [`ClusterSharding`](crate::ClusterSharding). The manager
    /// does not wait for the clusters at its start, and does not check their permissions. `/readyz` contains
    /// the state of each cluster. It fails until each cluster that exists at the start has synced or has
    /// failed, and never because of a cluster afterwards.
    pub fn clusters(&mut self, provider: impl ClusterProvider) -> Clusters {
        let metrics = self.metrics.clone();
        let identity = self.options.election.as_ref().map(|election| election.identity.clone());
        let instance = identity.or_else(hostname);
        let count_requests = move |client| metrics.count_requests(client);
        let sharding = self.options.shards.as_ref().map(|shards| shards.clusters);
        let shards =
            self.gate.clone().zip(sharding).map(|(gate, sharding)| ClusterShards::new(gate, sharding));
        let clusters = Clusters::new(count_requests, self.leadership.clone(), instance, shards);
        #[cfg(any(feature = "http", feature = "metrics"))]
        {
            self.view.clusters = Some(clusters.clone());
        }
        let running = clusters.clone();
        self.runnables.push(TaskSpec {
            name: "clusters".to_owned(),
            leadership: Leadership::always(),
            kind: TaskKind::Task,
            run: Box::new(move |_, stop| running.run(Box::new(provider), stop).boxed()),
        });
        clusters
    }

    /// Adds a controller of the objects of many clusters. The controller runs only on the leader. With
    /// [`ManagerOptions::shards`](crate::ManagerOptions::shards), it runs in every process instead, for the
    /// objects in the slots of the process.
    pub fn add_cluster_controller<T, F, R, E>(&mut self, controller: ClusterController<T>, reconcile: F)
    where
        T: Cached,
        F: Fn(ClusterRequest<T>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<Failure> + 'static,
    {
        let prepared = controller.prepare(reconcile, &self.metrics);
        let is_sharded = self.gate.is_some();
        let leadership = if is_sharded { Leadership::always() } else { self.leadership.clone() };
        self.add_prepared(leadership, prepared);
    }
}
