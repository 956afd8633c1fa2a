//! `Cluster`: one of the clusters of a program.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube_client::Client;
use kube_informer::InformerFactory;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::name::ClusterName;
use crate::CachedClient;

/// Represents a cluster from the time at which it is engaged until it leaves. Clones refer to the same
/// cluster.
///
/// If a cluster leaves and returns, it is another `Cluster` with the same name. A clone of the old `Cluster`
/// keeps its caches in memory, so do not store clones beyond a reconcile.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    name: ClusterName,
    /// Writes only while this process is the leader.
    client: Client,
    factory: InformerFactory,
    /// By the field manager.
    cached_clients: Mutex<BTreeMap<String, CachedClient>>,
    left: CancellationToken,
    engaged_at: Instant,
}

impl Cluster {
    pub(super) fn new(name: ClusterName, client: Client, factory: InformerFactory) -> Self {
        Self(Arc::new(Inner {
            name,
            client,
            factory,
            cached_clients: Mutex::default(),
            left: CancellationToken::new(),
            engaged_at: Instant::now(),
        }))
    }

    /// Returns the name of the cluster.
    pub fn name(&self) -> &ClusterName {
        &self.0.name
    }

    /// Returns a client of this cluster that writes only while this process is the leader; see
    /// [`Leadership::guard`](crate::Leadership::guard).
    pub fn client(&self) -> Client {
        self.0.client.clone()
    }

    /// Returns the factory of the informers of this cluster. Its informers start with the cluster, and stop
    /// when the cluster leaves.
    pub fn factory(&self) -> &InformerFactory {
        &self.0.factory
    }

    /// Returns a client that reads objects of this cluster from caches, and writes only while this process is
    /// the leader. Calls with the same `field_manager` return clones of one client.
    pub fn cached_client(&self, field_manager: &str) -> CachedClient {
        let mut clients = self.0.cached_clients.lock();
        let new = || CachedClient::new(&self.0.factory, self.client(), field_manager);
        clients.entry(field_manager.to_owned()).or_insert_with(new).clone()
    }

    /// Waits until the cluster leaves.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn left(&self) {
        self.0.left.cancelled().await;
    }

    /// Returns whether the cluster has left.
    pub fn has_left(&self) -> bool {
        self.0.left.is_cancelled()
    }

    pub(super) fn leave(&self) {
        self.0.left.cancel();
    }

    pub(super) fn engaged_at(&self) -> Instant {
        self.0.engaged_at
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("name", self.name()).finish_non_exhaustive()
    }
}
