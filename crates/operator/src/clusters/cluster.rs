//! `Cluster`: one of the clusters of a program.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use kube_client::Client;
use kube_informer::InformerFactory;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::name::ClusterName;
use crate::{CachedClient, EventRecorder, RecorderError, shards::caches::Readiness};

/// The time for the last events of a cluster that has left.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// Writes events.
    event_client: Client,
    factory: InformerFactory,
    /// By the field manager.
    cached_clients: Mutex<BTreeMap<String, CachedClient>>,
    recorders: Mutex<Recorders>,
    /// The reporting instance of the events. `None` for the name of the controller.
    instance: Option<Arc<str>>,
    disengaged: CancellationToken,
    engaged_at: Instant,
    /// The slots for which the caches contain the writes of earlier owners.
    ready: watch::Sender<Readiness>,
}

#[derive(Default)]
struct Recorders {
    by_controller: BTreeMap<String, EventRecorder>,
    writers: JoinSet<()>,
    stop: CancellationToken,
}

impl Cluster {
    pub(super) fn new(
        name: ClusterName,
        (client, event_client): (Client, Client),
        factory: InformerFactory,
        instance: Option<Arc<str>>,
    ) -> Self {
        Self(Arc::new(Inner {
            name,
            client,
            event_client,
            factory,
            cached_clients: Mutex::default(),
            recorders: Mutex::default(),
            instance,
            disengaged: CancellationToken::new(),
            engaged_at: Instant::now(),
            ready: watch::Sender::default(),
        }))
    }

    /// Returns the name of the cluster.
    pub fn name(&self) -> &ClusterName {
        &self.0.name
    }

    /// Returns a client of this cluster that writes only while this process is the leader; see
    /// [`Leadership::guard`](crate::Leadership::guard). With
    /// [`ManagerOptions::shards`](crate::ManagerOptions::shards), a write in a reconcile requires the slot of
    /// the reconciled object instead.
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

    /// Returns a recorder of Kubernetes Events in this cluster. See
    /// [`Manager::event_recorder`](crate::Manager::event_recorder). Calls with the same name return the same
    /// recorder.
    ///
    /// The recorder writes only while this process is the leader, or in each process with
    /// [`ManagerOptions::shards`](crate::ManagerOptions::shards). After the last reconcile of a cluster that
    /// has left, the recorder has 5 s to write the remaining Events.
    ///
    /// # Errors
    /// Returns a [`RecorderError`] if servers would reject the controller name or the instance.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub fn event_recorder(&self, controller: &str) -> Result<EventRecorder, RecorderError> {
        let mut recorders = self.0.recorders.lock();
        if let Some(recorder) = recorders.by_controller.get(controller) {
            return Ok(recorder.clone());
        }
        let instance = self.0.instance.as_deref().unwrap_or(controller);
        let stop = recorders.stop.clone();
        let (recorder, writer) = EventRecorder::new(self.0.event_client.clone(), controller, instance, stop)?;
        recorders.writers.spawn(writer);
        recorders.by_controller.insert(controller.to_owned(), recorder.clone());
        Ok(recorder)
    }

    /// Returns the recorders by the name of the controller that reports the events.
    #[cfg_attr(
        not(any(feature = "http", feature = "metrics")),
        expect(dead_code, reason = "only pages read this")
    )]
    pub(crate) fn recorders(&self) -> BTreeMap<String, EventRecorder> {
        self.0.recorders.lock().by_controller.clone()
    }

    /// Waits until the remaining events are written.
    pub(super) async fn stop_recorders(&self) {
        let mut writers = self.take_event_writers();
        let written = async { while writers.join_next().await.is_some() {} };
        if timeout(EVENTS_TIMEOUT, written).await.is_err() {
            tracing::warn!(cluster = %self.name(), "cannot write some Events; the cluster has left");
        }
    }

    /// Stops the recorders. The returned tasks write the remaining events.
    pub(super) fn take_event_writers(&self) -> JoinSet<()> {
        let mut recorders = self.0.recorders.lock();
        recorders.stop.cancel();
        std::mem::take(&mut recorders.writers)
    }

    /// Waits until the cluster leaves.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn disengaged(&self) {
        self.0.disengaged.cancelled().await;
    }

    /// Returns whether the cluster has left.
    pub fn is_disengaged(&self) -> bool {
        self.0.disengaged.is_cancelled()
    }

    pub(super) fn leave(&self) {
        self.0.disengaged.cancel();
    }

    pub(super) fn readiness(&self) -> &watch::Sender<Readiness> {
        &self.0.ready
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
