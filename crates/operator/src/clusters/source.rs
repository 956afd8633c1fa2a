//! The objects of all clusters as a source of keys.

use std::{
    any::{Any, type_name},
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use kube_informer::{Cached, Event, Informer, InformerFactory};
use tokio_util::sync::CancellationToken;

use super::{
    cluster::Cluster,
    informer::{ClusterInformer, Handler},
    name::{ClusterKey, ClusterName},
};
use crate::{
    Predicate, RequestKey, RequestQueue, Source,
    controller::{
        keys::KeyQueue,
        source::{EventSource, QueueKeys, SourceShutdown},
    },
    shards::gate::SourceInformers,
};

impl<Q: RequestKey> Source<Q> {
    /// Creates a source that queues the keys that `keys` returns for each event of each cluster. If a cluster
    /// leaves, the source receives a delete of each of its objects. For example, a controller of the
    /// manager's cluster reconciles an object that summarizes the Pods of all clusters.
    ///
    /// If `Q` is [`ClusterKey`], the keys of a cluster that leaves are removed from the queue. A controller
    /// does not wait for the caches of clusters when it starts.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    /// # use kube_informer::{Informer, ObjectKey};
    /// # use kube_operator::{Clusters, Controller, Source};
    /// # fn example(maps: Informer<ConfigMap>, clusters: &Clusters) -> Controller<ConfigMap> {
    /// let summary = ObjectKey::new(Some("shop"), "summary");
    /// Controller::new(&maps).watches_source(Source::watches_clusters(
    ///     &clusters.informer::<Pod>(),
    ///     move |_cluster, _event| [summary.clone()],
    /// ))
    /// # }
    /// ```
    pub fn watches_clusters<O, I>(
        informer: &ClusterInformer<O>,
        keys: impl Fn(&Cluster, &Event<O>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = Q>,
    {
        Self::clusters(informer, "", Predicate::always(), false, move |cluster, event, queue| {
            keys(cluster, event).into_iter().for_each(|key| queue.add(key));
        })
    }

    pub(super) fn clusters<O: Cached>(
        informer: &ClusterInformer<O>,
        prefix: &'static str,
        filter: Predicate<O>,
        is_primary: bool,
        keys: impl Fn(&Cluster, &Event<O>, &RequestQueue<'_, Q>) + Send + Sync + 'static,
    ) -> Self {
        let (informer, keys) = (informer.clone(), Arc::new(keys));
        Self(Box::new(ClusterSource { informer, prefix, filter, is_primary, keys }))
    }
}

/// Maps the events of all clusters to keys.
struct ClusterSource<O: Cached, F> {
    informer: ClusterInformer<O>,
    /// The start of the name in reasons, for example `owned `.
    prefix: &'static str,
    filter: Predicate<O>,
    is_primary: bool,
    keys: Arc<F>,
}

impl<O: Cached, F> ClusterSource<O, F> {
    /// Returns the part of this source for one cluster.
    fn of<Q: RequestKey>(
        &self,
        cluster: &Cluster,
        informer: &Informer<O>,
    ) -> EventSource<O, impl Fn(&Event<O>, &RequestQueue<'_, Q>) + Send + Sync + use<O, F, Q>>
    where
        F: Fn(&Cluster, &Event<O>, &RequestQueue<'_, Q>) + Send + Sync + 'static,
    {
        let (keys, of) = (Arc::clone(&self.keys), cluster.clone());
        let keys = move |event: &Event<O>, queue: &RequestQueue<'_, Q>| keys(&of, event, queue);
        let mut source = EventSource::new(informer.into(), self.filter.clone(), keys);
        // The key of a reconciled object already contains the cluster.
        if !self.is_primary {
            source.name = format!("{}{} in cluster {}", self.prefix, source.name, cluster.name()).into();
        }
        source.is_primary = self.is_primary;
        source
    }
}

impl<Q, O, F> QueueKeys<Q> for ClusterSource<O, F>
where
    Q: RequestKey,
    O: Cached,
    F: Fn(&Cluster, &Event<O>, &RequestQueue<'_, Q>) + Send + Sync + 'static,
{
    fn join(&self, _: &InformerFactory) {}

    fn informers(&self) -> SourceInformers {
        let informer = self.informer.clone();
        SourceInformers::Clusters(Box::new(move |cluster| Some(informer.attached(cluster)?.1.id())))
    }

    fn is_primary(&self) -> bool {
        self.is_primary
    }

    fn sharded_informer(&self) -> Option<String> {
        let name = || format!("of many clusters for {}", type_name::<O>());
        self.informer.shards().filter(|shards| shards.is_divided()).map(|_| name())
    }

    fn wait_for_caches(&self) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }

    fn informer_stopped(&self) -> BoxFuture<'static, String> {
        std::future::pending().boxed()
    }

    /// Does not wait for clusters, because a cluster that hangs would delay all clusters.
    fn start(
        self: Box<Self>,
        queue: KeyQueue<Q>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, SourceShutdown> {
        let informer = self.informer.clone();
        let receives_deletes = !self.is_primary;
        let purged = queue.clone();
        let handler = Handler {
            register: Arc::new(move |cluster: &Cluster, informer: &Informer<O>| {
                queue.add_cluster(cluster.name().as_str());
                let handler = self.of(cluster, informer).handler(queue.clone(), stop.clone());
                informer.add_backpressured_handler(handler)
            }),
            receives_deletes,
            purge: Some(Arc::new(move |cluster: &ClusterName| {
                purge(purged.clone(), cluster.clone()).boxed()
            })),
        };
        async move { SourceShutdown(informer.register(handler).remove().boxed()) }.boxed()
    }
}

/// Removes the keys of a cluster. Keys of other types than [`ClusterKey`] do not belong to a cluster.
async fn purge<Q: RequestKey>(keys: KeyQueue<Q>, cluster: ClusterName) {
    let is_gone = |key: &Q| {
        let key = (key as &dyn Any).downcast_ref::<ClusterKey>();
        key.is_some_and(|key| key.cluster == cluster)
    };
    keys.remove_where(is_gone).await;
    keys.remove_cluster(cluster.as_str());
}
