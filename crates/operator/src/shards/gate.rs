//! `SlotGate`: lets a controller reconcile only the objects in the slots of this process.

use std::{future::ready, sync::Arc, time::Duration};

use futures_util::{FutureExt, Stream, StreamExt, future::select_all, stream};
use kube_informer::{Cached, CachedReadError, InformerFactory, InformerId, InformerStatus, ObjectKey, Scope};
use kube_object::{ObjectIdRef, Shard, ShardKey, Slot, SlotCount, SlotSet};
use tokio::{sync::watch, time::sleep};

use super::{
    caches::{CacheState, Caches, Readiness, ReadySlots},
    cluster_slots::ClusterSharding,
    owned::{OwnedSlots, SlotPermit},
    scope::{SlotLost, with_permit},
};
use crate::controller::{
    action::Action,
    informers::Informers,
    keys::RequestKey,
    reconcile::KeyRequest,
    work::{Reconciled, Work},
};

/// The delay of a key while the Lease of this process has expired.
const EXPIRED_DELAY: Duration = Duration::from_secs(1);

/// The delay before a list for slots that have become ready. The caches of a controller become ready one
/// after the other, and slots often move in several steps.
const LIST_DELAY: Duration = Duration::from_secs(1);

/// The informers of a source of a controller.
pub(crate) enum SourceInformers {
    Fixed(Vec<InformerId>),
    /// The namespaces of a `MultiNamespaceInformer` can change, and the informer can belong to another
    /// factory. A cache that the manager does not know is not considered.
    Namespaces(Box<dyn Fn() -> Vec<InformerId> + Send + Sync>),
    /// Returns the informer of the cluster with this name. The manager's own caches do not contain it.
    Clusters(FindInformer),
}

/// Returns the informer of the cluster with this name.
pub(crate) type FindInformer = Box<dyn Fn(&str) -> Option<InformerId> + Send + Sync>;

/// Selects the sources of a controller whose informers may cache only the slots of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotSources {
    /// The controller handles the objects of all slots.
    None,
    /// An owned or watched object can have another slot than the reconciled object.
    Reconciled,
    /// The informers of many clusters.
    Clusters,
    /// All objects of a namespace have the slot of the reconciled object.
    All,
}

/// Decides which keys a controller reconciles.
pub(crate) trait Gate<Q>: Send + Sync + 'static {
    /// Returns whether the slot of a key is ready.
    fn is_open(&self, key: &Q) -> bool;

    /// Returns a permit to reconcile a key, if its slot is ready.
    fn permit(&self, key: &Q) -> Option<SlotPermit>;
}

/// Decides which keys a controller of one cluster reconciles. Clones refer to the same slots.
#[derive(Clone)]
pub(crate) struct SlotGate {
    owned: OwnedSlots,
    /// The caches of the manager, and also those of the cluster if the manager has many clusters.
    layers: Vec<Layer>,
    /// Determines the slot of a key. The slots come from `owned`, so the set is empty here.
    division: Shard,
    /// The cluster of the keys. `None` for the cluster of the manager.
    cluster: Option<(ClusterSharding, Arc<str>)>,
}

/// Caches that must contain the writes of the earlier owners of a slot.
#[derive(Clone)]
struct Layer {
    ready: watch::Receiver<Readiness>,
    sources: Arc<[SourceInformers]>,
}

impl Layer {
    /// Returns the epoch of a slot, if all required caches and all caches of the controller are ready.
    fn ready_epoch(&self, ready: &Readiness, slot: Slot) -> Option<u64> {
        let epoch = *ready.owned.get(&slot)?;
        let is_ready = |cache: &CacheState| cache.ready.get(&slot) == Some(&epoch);
        let are_ready = self.sources.iter().all(|source| match source {
            SourceInformers::Fixed(ids) => ids.iter().all(|id| ready.caches.get(id).is_some_and(is_ready)),
            SourceInformers::Namespaces(ids) => {
                ids().iter().filter_map(|id| ready.caches.get(id)).all(is_ready)
            }
            SourceInformers::Clusters(_) => true,
        });
        let mut required = ready.caches.values().filter(|cache| cache.is_required);
        let is_required_ready = |cache| is_ready(cache) || cache.before.get(&slot) == Some(&epoch);
        (are_ready && required.all(is_required_ready)).then_some(epoch)
    }

    /// Returns the slots for which all caches are ready, and marks this state as known.
    fn ready_slots(&mut self) -> ReadySlots {
        let ready = self.ready.borrow_and_update().clone();
        let epoch = |slot: &Slot| Some((*slot, self.ready_epoch(&ready, *slot)?));
        ready.owned.keys().filter_map(epoch).collect()
    }
}

impl SlotGate {
    pub(crate) fn new(
        owned: OwnedSlots,
        ready: watch::Receiver<Readiness>,
        (key, count): (ShardKey, SlotCount),
    ) -> Self {
        let division = Shard { key, count, slots: SlotSet::default() };
        Self { owned, layers: vec![Layer { ready, sources: Arc::default() }], division, cluster: None }
    }

    /// Returns the gate of a controller. A slot is open if all required caches and all caches of the
    /// controller are ready.
    pub(crate) fn of(&self, sources: impl Iterator<Item = SourceInformers>) -> Self {
        let mut gate = self.clone();
        let sources: Arc<[_]> = sources.collect();
        gate.layers.iter_mut().for_each(|layer| layer.sources = Arc::clone(&sources));
        gate
    }

    /// Returns the gate of a controller for a cluster. A slot is open if the caches of the cluster are ready
    /// too. `informers` are the informers of the controller in the cluster.
    pub(crate) fn in_cluster(
        &self,
        sharding: ClusterSharding,
        cluster: &str,
        ready: watch::Receiver<Readiness>,
        informers: Vec<InformerId>,
    ) -> Self {
        let mut gate = self.clone();
        gate.layers.push(Layer { ready, sources: Arc::new([SourceInformers::Fixed(informers)]) });
        gate.cluster = Some((sharding, cluster.into()));
        gate
    }

    /// Returns the caches of a cluster. `slots` are the slots of its objects.
    pub(crate) fn cluster_caches(
        &self,
        factory: InformerFactory,
        slots: SlotSet,
        ready: watch::Sender<Readiness>,
    ) -> Caches<fn(&InformerStatus) -> bool> {
        let division = (self.division.key, self.division.count);
        Caches {
            owned: self.owned.clone(),
            factory,
            division,
            cluster: Some(slots),
            is_required: |_| true,
            ready,
        }
    }

    /// Returns the slots of this process.
    pub(crate) fn owned_slots(&self) -> &OwnedSlots {
        &self.owned
    }

    /// Returns the key and the number of the slots.
    pub(crate) fn division(&self) -> &Shard {
        &self.division
    }

    /// Returns the sources that may cache only the slots of this process. `scope` is the scope of the
    /// reconciled type.
    pub(crate) fn slot_sources(&self, scope: Scope) -> SlotSources {
        match (self.division.key, scope) {
            (ShardKey::Namespace, Scope::Namespaced) => SlotSources::All,
            _ => SlotSources::Reconciled,
        }
    }

    /// Returns the epoch of a slot, if it is ready in all layers.
    fn ready_epoch(&self, slot: Slot) -> Option<u64> {
        let mut epochs = self.layers.iter().map(|layer| layer.ready_epoch(&layer.ready.borrow(), slot));
        let first = epochs.next()??;
        epochs.all(|epoch| epoch == Some(first)).then_some(first)
    }

    /// Returns the slots that are ready in all layers, and marks this state as known.
    fn ready_slots(&mut self) -> ReadySlots {
        let common = |all: ReadySlots, slots: ReadySlots| {
            all.into_iter().filter(|(slot, epoch)| slots.get(slot) == Some(epoch)).collect()
        };
        self.layers.iter_mut().map(Layer::ready_slots).reduce(common).unwrap_or_default()
    }

    /// Returns the slots that become ready for the controller. Collects slots for this time.
    pub(crate) fn gained(&self, time: Duration) -> impl Stream<Item = SlotSet> + Send + use<> {
        stream::unfold((self.clone(), ReadySlots::new()), move |(mut gate, mut known)| async move {
            let mut is_collected = time.is_zero();
            loop {
                let ready = gate.ready_slots();
                let gained = ready.iter().filter(|(slot, epoch)| known.get(slot) != Some(epoch));
                let gained: SlotSet = gained.map(|(slot, _)| *slot).collect();
                if gained.is_empty() {
                    known = ready;
                    let changes = gate.layers.iter_mut().map(|layer| layer.ready.changed().boxed());
                    select_all(changes).await.0.ok()?;
                } else if is_collected {
                    return Some((gained, (gate, ready)));
                } else {
                    sleep(time).await;
                    is_collected = true;
                }
            }
        })
    }

    /// Returns the keys of the cached objects whenever their slots become ready.
    pub(crate) fn keys<T: Cached>(&self, informers: Informers<T>) -> impl Stream<Item = ObjectKey> + use<T> {
        let gate = self.clone();
        self.gained(Duration::ZERO).flat_map(move |gained| {
            let informers = informers.current();
            let keys = informers.iter().flat_map(|informer| informer.lister().keys());
            let keys = keys.filter(|key| gained.contains(gate.slot_of(key)));
            stream::iter(keys.collect::<Vec<_>>())
        })
    }

    /// Calls `list` whenever slots become ready, and returns the listed keys in these slots.
    pub(crate) fn listed_keys<L, S>(&self, list: L) -> impl Stream<Item = ObjectKey> + use<L, S>
    where
        L: Fn() -> S,
        S: Stream<Item = ObjectKey>,
    {
        let gate = self.clone();
        self.gained(LIST_DELAY).flat_map(move |gained| {
            let gate = gate.clone();
            list().filter(move |key| ready(gained.contains(gate.slot_of(key))))
        })
    }

    pub(crate) fn slot_of(&self, key: &ObjectKey) -> Slot {
        match &self.cluster {
            None => self.division.slot_of(&ObjectIdRef::new(key.namespace(), key.name(), "", "")),
            Some((sharding, cluster)) => sharding.slot_of(&self.division, cluster, key),
        }
    }
}

impl Gate<ObjectKey> for SlotGate {
    fn is_open(&self, key: &ObjectKey) -> bool {
        self.ready_epoch(self.slot_of(key)).is_some()
    }

    fn permit(&self, key: &ObjectKey) -> Option<SlotPermit> {
        let permit = self.owned.recorded_permit(self.slot_of(key))?;
        let epoch = self.ready_epoch(permit.slot());
        Some(permit).filter(|permit| epoch == Some(permit.epoch()))
    }
}

/// Reconciles keys while this process owns their slots.
pub(crate) struct ShardedWork<W, G> {
    pub(crate) work: W,
    pub(crate) gate: G,
}

impl<Q: RequestKey, W: Work<Q>, G: Gate<Q>> Work<Q> for ShardedWork<W, G> {
    fn ready(&self, key: &Q) -> impl Future<Output = Result<(), CachedReadError>> + Send {
        self.work.ready(key)
    }

    async fn reconcile(&self, request: KeyRequest<Q>) -> Reconciled {
        let Some(permit) = self.gate.permit(&request.key) else {
            // If the slot is open, the Lease expired and may be renewed. Otherwise, another process
            // reconciles the key, and the key is queued again if the slot returns.
            let is_open = self.gate.is_open(&request.key);
            let action = if is_open { Action::RequeueAfter(EXPIRED_DELAY) } else { Action::AwaitChange };
            return Reconciled { result: Ok(action), exists: true, is_cut_short: false };
        };
        let permit = Arc::new(permit);
        tokio::select! {
            biased;
            () = permit.lost() => {
                Reconciled { result: Err(SlotLost::NotOwner(permit.slot()).into()), exists: true, is_cut_short: false }
            }
            reconciled = with_permit(Arc::clone(&permit), self.work.reconcile(request)) => reconciled,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
    use kube_client::Client;
    use kube_informer::InformerFactory;
    use kube_testserver::Server;
    use tokio::time::Instant;

    use super::*;
    use crate::shards::{
        member::{Held, Phase},
        owned::{Ownership, Shared},
    };

    #[tokio::test]
    async fn permit_requires_the_epoch_that_is_ready_in_each_cache_of_the_controller() {
        let factory = InformerFactory::new(Client::new(Server::new().service(), "default"));
        let (maps, pods) = (factory.informer::<ConfigMap>().unwrap(), factory.informer::<Pod>().unwrap());
        let shared = Shared::new("operator");
        let owned = OwnedSlots { shared: Arc::clone(&shared) };
        let (ready, receiver) = watch::channel(Readiness::default());
        let all = SlotGate::new(owned, receiver, (ShardKey::Namespace, SlotCount::default()));
        let secrets = factory.informer::<Secret>().unwrap();
        let unknown = secrets.id();
        let unknown = SourceInformers::Namespaces(Box::new(move || vec![unknown]));
        let gate = all.of([SourceInformers::Fixed(vec![maps.id(), pods.id()]), unknown].into_iter());
        let other = all.of([SourceInformers::Fixed(vec![maps.id()])].into_iter());
        let key: ObjectKey = "shop/web".parse().unwrap();
        let slot = gate.slot_of(&key);
        let slots = BTreeMap::from([(slot, Held { epoch: 2, phase: Phase::Active })]);
        let until = Some(Instant::now() + Duration::from_secs(10));
        shared.ownership.send_replace(Ownership { slots, until, ..Ownership::default() });
        let publish = |maps_epoch: u64, pods_epoch: u64| {
            let slots = |epoch| ReadySlots::from([(slot, epoch)]);
            let cache = |epoch| CacheState { ready: slots(epoch), ..CacheState::default() };
            let caches = BTreeMap::from([(maps.id(), cache(maps_epoch)), (pods.id(), cache(pods_epoch))]);
            ready.send_replace(Readiness { owned: slots(2), caches });
        };
        assert!(gate.permit(&key).is_none() && !gate.is_open(&key), "the caches may be old");
        publish(1, 1);
        assert!(gate.permit(&key).is_none(), "the caches were ready for an earlier claim");
        publish(2, 1);
        assert!(gate.permit(&key).is_none(), "a cache was only ready for an earlier claim");
        assert!(other.permit(&key).is_some(), "this controller does not use the other cache");
        publish(2, 2);
        assert_eq!(gate.permit(&key).map(|permit| permit.epoch()), Some(2));
        assert!(gate.is_open(&key));
        ready.send_modify(|ready| {
            ready.caches.insert(secrets.id(), CacheState { is_required: true, ..CacheState::default() });
        });
        assert!(gate.permit(&key).is_none(), "each controller waits for required caches");
        ready.send_modify(|ready| {
            ready.caches.entry(secrets.id()).or_default().before = ReadySlots::from([(slot, 2)]);
        });
        assert!(other.permit(&key).is_some(), "the slot was owned before the cache was required");
        assert!(gate.permit(&key).is_none(), "this controller watches its objects");
    }
}
