//! `ClusterController`: reconciles the objects of one type in all clusters.

use std::{sync::Arc, time::Duration};

use kube_client::Resource;
use kube_informer::{Cached, CachedReadError, Event, Object, ObjectKey, OwnerReferences, Scope};
use kube_workqueue::RateLimiter;
use tokio::time::sleep;

use super::{
    cluster::Cluster,
    gate::ClusterGate,
    informer::ClusterInformer,
    name::{ClusterKey, ClusterName},
};
use crate::{
    Action, ControllerHandle, Failure, KeyRequest, Observed, Predicate, Reason, Reasons, RequestQueue,
    Source,
    controller::{
        ControllerCore, PreparedController,
        source::{OwnerKind, OwnerMatch, owners},
        work::{Reconciled, Work, wait_for_own_writes},
    },
    observe::metrics::Metrics,
    shards::gate::{ShardedWork, SlotSources},
};

/// The time for which a running reconcile continues after its cluster has left.
const LEAVE_GRACE: Duration = Duration::from_secs(5);

/// Represents a request to reconcile one object of a cluster. The `Debug` output does not contain the object.
#[derive(Debug)]
pub struct ClusterRequest<T: Cached> {
    /// The cluster of the object.
    pub cluster: Cluster,
    /// The key of the object within its cluster.
    pub key: ObjectKey,
    /// The object when this reconcile starts.
    pub object: Observed<T>,
    /// The reasons for this reconcile. See [`Request::reasons`](crate::Request::reasons).
    pub reasons: Reasons,
    /// The number of consecutive failed reconciles before this one.
    pub failures: u32,
}

/// Calls a function for each object of a type in all clusters, and again when the object or a related object
/// changes. All clusters share one work queue and one limit of concurrent reconciles.
///
/// The methods correspond to the methods of [`Controller`](crate::Controller) with the same names.
/// Clusters can be added and removed while the controller runs; see [`Clusters`](crate::Clusters). The
/// controller runs only on the leader, or in each process of a shard group for the objects in its slots; see
/// [`ClusterSharding`](crate::ClusterSharding).
///
/// ```no_run
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// # use kube_operator::{Action, ClusterController, ClusterRequest, Failure, KubeconfigProvider, Manager};
/// # fn example(manager: &mut Manager) {
/// let clusters = manager.clusters(KubeconfigProvider::new());
/// let controller = ClusterController::new(&clusters.informer::<Deployment>())
///     .owns(&clusters.informer::<ConfigMap>())
///     .concurrency(4);
/// manager.add_cluster_controller(controller, async |request: ClusterRequest<Deployment>| {
///     let client = request.cluster.cached_client("example-operator");
///     // Compare the ConfigMaps in the cluster with `request.object` ...
///     # drop(client);
///     Ok::<_, Failure>(Action::Done)
/// });
/// # }
/// ```
#[must_use = "a controller does nothing until a manager runs it"]
pub struct ClusterController<T: Cached> {
    informer: ClusterInformer<T>,
    owner: OwnerKind,
    filter: Predicate<T>,
    core: ControllerCore<ClusterKey>,
}

impl<T: Cached> ClusterController<T> {
    /// Creates a controller whose default name is the kind in lower case.
    pub fn new(informer: &ClusterInformer<T>) -> Self
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        let scope = Scope::of::<T::Resource>().unwrap_or(Scope::Namespaced);
        Self::dynamic(informer, &Default::default(), scope)
    }

    /// Creates a controller for a type that is known only at run time. See
    /// [`Controller::dynamic`](crate::Controller::dynamic).
    pub fn dynamic(
        informer: &ClusterInformer<T>,
        resource: &<T::Resource as Resource>::DynamicType,
        scope: Scope,
    ) -> Self {
        let kind = T::Resource::kind(resource).into_owned();
        Self {
            informer: informer.clone(),
            core: ControllerCore::new(kind.to_lowercase()),
            owner: OwnerKind { group: T::Resource::group(resource).into_owned(), kind, scope },
            filter: Predicate::always(),
        }
    }

    /// Sets the name of the controller. See [`Controller::named`](crate::Controller::named).
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.core.options.name = name.into();
        self
    }

    /// Filters the events of the reconciled objects. See [`Controller::filter`](crate::Controller::filter).
    pub fn filter(mut self, filter: Predicate<T>) -> Self {
        self.filter = self.filter.and(filter);
        self
    }

    /// Filters the keys of all sources. See [`Controller::filter_all`](crate::Controller::filter_all).
    pub fn filter_all(
        mut self,
        filter: impl Fn(&ClusterKey, &Reason) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.core.filter = Some(Arc::new(filter));
        self
    }

    /// Reconciles the controlling owner of each object that changes. The owner is in the same cluster. See
    /// [`Controller::owns`](crate::Controller::owns).
    pub fn owns<O: Cached + OwnerReferences + Object>(self, informer: &ClusterInformer<O>) -> Self {
        let owner = self.owner.clone();
        let keys = move |cluster: &Cluster, event: &Event<O>, queue: &RequestQueue<'_, ClusterKey>| {
            let add = |key| queue.add(ClusterKey::new(cluster.name().clone(), key));
            owners(event, &owner, OwnerMatch::Controller, add);
        };
        self.watches_source(Source::clusters(informer, "owned ", Predicate::always(), false, keys))
    }

    /// Reconciles the keys, in any cluster, that `keys` returns for each event of each cluster. See
    /// [`Source::watches_clusters`].
    pub fn watches<O, I>(
        self,
        informer: &ClusterInformer<O>,
        keys: impl Fn(&Cluster, &Event<O>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = ClusterKey>,
    {
        self.watches_source(Source::watches_clusters(informer, keys))
    }

    /// Adds a source, for example of objects in the cluster of the manager.
    pub fn watches_source(mut self, source: Source<ClusterKey>) -> Self {
        self.core.sources.push(source.0);
        self
    }

    /// Sets the maximum number of concurrent reconciles of all clusters together. The default is 1.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.core.options.concurrency = runs.max(1);
        self
    }

    /// Sets the maximum duration of one reconcile. The default is 10 minutes. See
    /// [`Controller::reconcile_timeout`](crate::Controller::reconcile_timeout).
    pub fn reconcile_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.core.options.reconcile_timeout = limit.into();
        self
    }

    /// Delays each key of a source. See [`Controller::debounce`](crate::Controller::debounce).
    pub fn debounce(mut self, delay: Duration) -> Self {
        self.core.options.debounce = delay;
        self
    }

    /// Requeues an existing object after this delay if its reconcile returns [`Action::Done`].
    pub fn requeue_after_success(mut self, after: Duration) -> Self {
        self.core.options.requeue_after_success = Some(after);
        self
    }

    /// Sets the rate limiter. See [`Controller::rate_limiter`](crate::Controller::rate_limiter).
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ClusterKey>) -> Self {
        self.core.limiter = Box::new(limiter);
        self
    }

    /// Returns a handle that adds keys and sources while the controller runs.
    pub fn handle(&self) -> ControllerHandle<ClusterKey> {
        self.core.handle.clone()
    }

    /// Combines the controller with its function. With a shard group, the controller reconciles only the
    /// objects in the slots of this process.
    pub(crate) fn prepare<F, R, E>(self, reconcile: F, metrics: &Metrics) -> PreparedController
    where
        F: Fn(ClusterRequest<T>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<Failure> + 'static,
    {
        let Self { informer, owner, filter, mut core } = self;
        let keys = |cluster: &Cluster, event: &Event<T>, queue: &RequestQueue<'_, ClusterKey>| {
            queue.add(ClusterKey::new(cluster.name().clone(), event.key().clone()));
        };
        core.cluster_of = Some(|key| key.cluster.as_str());
        core.sources.insert(0, Source::clusters(&informer, "", filter, true, keys).0);
        let kind = owner.kind.into();
        let gate = informer.shards().map(|shards| ClusterGate::new(shards, &informer, core.informers()));
        let work = ClusterWork { informer: informer.clone(), reconcile };
        let Some(gate) = gate else { return core.prepare(kind, work, SlotSources::None, metrics) };
        core.restrict(gate.clone(), gate.keys(informer));
        core.prepare(kind, ShardedWork { work, gate }, SlotSources::Clusters, metrics)
    }
}

/// Calls a function with objects of the caches of clusters.
struct ClusterWork<T: Cached, F> {
    informer: ClusterInformer<T>,
    reconcile: F,
}

impl<T, F, R, E> Work<ClusterKey> for ClusterWork<T, F>
where
    T: Cached,
    F: Fn(ClusterRequest<T>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send,
    E: Into<Failure>,
{
    /// Waits until the cache contains this process's own writes of the object, or the cluster leaves.
    async fn ready(&self, ClusterKey { cluster, key }: &ClusterKey) -> Result<(), CachedReadError> {
        let Some((cluster, informer)) = self.informer.attached(cluster.as_str()) else { return Ok(()) };
        let informers = (&informer).into();
        tokio::select! {
            biased;
            () = cluster.disengaged() => Ok(()),
            ready = wait_for_own_writes(&informers, key) => ready,
        }
    }

    async fn reconcile(&self, request: KeyRequest<ClusterKey>) -> Reconciled {
        let KeyRequest { key: ClusterKey { cluster: name, key }, reasons, failures } = request;
        let gone = Reconciled { result: Ok(Action::AwaitChange), exists: false, is_cut_short: false };
        let Some((cluster, informer)) = self.informer.attached(name.as_str()) else { return gone };
        let object = informer.lister().get_by_key(&key).map_or(Observed::Absent, Observed::Present);
        let exists = object.is_present();
        let running =
            (self.reconcile)(ClusterRequest { cluster: cluster.clone(), key, object, reasons, failures });
        tokio::select! {
            biased;
            result = running => match result {
                Err(error) if cluster.is_disengaged() => {
                    tracing::debug!(error = %error.into(), "reconcile failed after its cluster has left");
                    gone
                }
                result => Reconciled { result: result.map_err(Into::into), exists, is_cut_short: false },
            },
            () = leave_grace(&cluster, &name) => Reconciled { is_cut_short: true, ..gone },
        }
    }
}

/// Waits until a cluster has left for some time.
async fn leave_grace(cluster: &Cluster, name: &ClusterName) {
    cluster.disengaged().await;
    sleep(LEAVE_GRACE).await;
    tracing::warn!(cluster = %name, "reconcile is dropped, because its cluster has left");
}
