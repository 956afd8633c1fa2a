//! `ClusterShards` and `ClusterGate`: a process reconciles only the objects of clusters in its slots.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use kube_informer::{Cached, InformerId, SlotSet};
use tokio::sync::watch;

use super::{
    cluster::Cluster,
    informer::ClusterInformer,
    name::{ClusterKey, ClusterName},
};
use crate::{
    SlotPermit,
    shards::{
        cluster_slots::ClusterSharding,
        gate::{FindInformer, Gate, SlotGate, SourceInformers},
    },
};

/// The shard group of the manager, and how its slots divide the objects of the clusters. Clones refer to the
/// same clusters.
#[derive(Clone)]
pub(crate) struct ClusterShards {
    gate: SlotGate,
    sharding: ClusterSharding,
    engaged: watch::Sender<Vec<Cluster>>,
}

impl ClusterShards {
    pub(crate) fn new(gate: SlotGate, sharding: ClusterSharding) -> Self {
        Self { gate, sharding, engaged: watch::Sender::default() }
    }

    /// Returns whether each process engages only the clusters in its slots.
    pub(super) fn is_divided(&self) -> bool {
        self.sharding == ClusterSharding::ByCluster
    }

    /// Returns whether this process engages a cluster that the provider wants.
    pub(super) fn is_wanted(&self, name: &ClusterName) -> bool {
        let slots = || self.gate.owned_slots().wanted().intersection(&self.slots_of(name));
        !self.is_divided() || !slots().is_empty()
    }

    /// Waits until the required slots differ from `known`, and returns the required slots.
    pub(super) async fn slots_changed(&self, known: SlotSet) -> SlotSet {
        let owned = self.gate.owned_slots();
        let mut current = (owned.get(), owned.wanted());
        while current.1 == known {
            current = owned.changed(current).await;
        }
        current.1
    }

    /// Waits in the caches of a cluster for the writes of the earlier owners of each slot, until the future
    /// is dropped.
    pub(super) fn keep_ready(&self, cluster: &Cluster) -> BoxFuture<'static, ()> {
        let (factory, ready) = (cluster.factory().clone(), cluster.readiness().clone());
        self.gate.cluster_caches(factory, self.slots_of(cluster.name()), ready).run().boxed()
    }

    /// Publishes the engaged clusters, after their informers were created.
    pub(super) fn publish(&self, engaged: impl FnOnce() -> Vec<Cluster>) {
        self.engaged.send_modify(|clusters| *clusters = engaged());
    }

    fn slots_of(&self, name: &ClusterName) -> SlotSet {
        self.sharding.slots_of(self.gate.division(), name.as_str())
    }

    /// Returns each engaged cluster, also clusters that are engaged later.
    fn engagements(&self) -> impl Stream<Item = Cluster> + Send + use<> {
        let state = (self.engaged.subscribe(), BTreeMap::<ClusterName, Cluster>::new());
        let new = stream::unfold(state, |(mut engaged, known)| async move {
            loop {
                let all = engaged.borrow_and_update().clone();
                let is_known = |cluster: &&Cluster| known.get(cluster.name()).is_some_and(|k| k.is(cluster));
                let new: Vec<Cluster> = all.iter().filter(|cluster| !is_known(cluster)).cloned().collect();
                if !new.is_empty() {
                    let known = all.into_iter().map(|cluster| (cluster.name().clone(), cluster)).collect();
                    return Some((stream::iter(new), (engaged, known)));
                }
                engaged.changed().await.ok()?;
            }
        });
        new.flatten()
    }
}

type FindCluster = Arc<dyn Fn(&ClusterName) -> Option<Cluster> + Send + Sync>;

/// Decides which keys a controller of many clusters reconciles.
#[derive(Clone)]
pub(super) struct ClusterGate {
    shards: ClusterShards,
    /// The caches of the manager, which include sources of the controller.
    main: SlotGate,
    /// The sources of the controller in each cluster.
    sources: Arc<[FindInformer]>,
    find: FindCluster,
}

impl ClusterGate {
    /// Creates the gate of a controller with these reconciled objects and these sources.
    pub(super) fn new<T: Cached>(
        shards: &ClusterShards,
        informer: &ClusterInformer<T>,
        sources: impl Iterator<Item = SourceInformers>,
    ) -> Self {
        let (mut of_clusters, mut others) = (Vec::new(), Vec::new());
        for source in sources {
            match source {
                SourceInformers::Clusters(find) => of_clusters.push(find),
                other => others.push(other),
            }
        }
        let informer = informer.clone();
        Self {
            shards: shards.clone(),
            main: shards.gate.of(others.into_iter()),
            sources: of_clusters.into(),
            find: Arc::new(move |name| Some(informer.attached(name.as_str())?.0)),
        }
    }

    /// Returns the gate of a cluster. Returns `None` if the cluster lacks an informer of the controller.
    fn of(&self, cluster: &Cluster) -> Option<SlotGate> {
        let name = cluster.name().as_str();
        let informers: Option<Vec<InformerId>> = self.sources.iter().map(|find| find(name)).collect();
        let ready = cluster.readiness().subscribe();
        Some(self.main.in_cluster(self.shards.sharding, name, ready, informers?))
    }

    fn of_key(&self, key: &ClusterKey) -> Option<SlotGate> {
        self.of(&(self.find)(&key.cluster)?)
    }

    /// Returns the keys of the cached objects whenever their slots become ready in their cluster.
    pub(super) fn keys<T: Cached>(
        &self,
        informer: ClusterInformer<T>,
    ) -> impl Stream<Item = ClusterKey> + Send + use<T> {
        let gate = self.clone();
        let of_cluster = move |cluster: Cluster| -> BoxStream<'static, ClusterKey> {
            let Some(slots) = gate.of(&cluster) else { return stream::empty().boxed() };
            let (name, informer) = (cluster.name().clone(), informer.clone());
            let keys = slots.gained(Duration::ZERO).flat_map(move |gained| {
                let keys = informer.informer(&name).map(|informer| informer.lister().keys());
                let keys = keys.into_iter().flatten().filter(|key| gained.contains(slots.slot_of(key)));
                let keys: Vec<_> = keys.map(|key| ClusterKey::new(name.clone(), key)).collect();
                stream::iter(keys)
            });
            keys.take_until(async move { cluster.disengaged().await }).boxed()
        };
        self.shards.engagements().map(of_cluster).flatten_unordered(None)
    }
}

impl Gate<ClusterKey> for ClusterGate {
    fn is_open(&self, key: &ClusterKey) -> bool {
        self.of_key(key).is_some_and(|gate| gate.is_open(&key.key))
    }

    fn permit(&self, key: &ClusterKey) -> Option<SlotPermit> {
        self.of_key(key)?.permit(&key.key)
    }
}
