//! `ClusterInformer`: the informers of one type in all clusters.

use std::{collections::BTreeMap, fmt, hash::Hash, sync::Arc};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use kube_informer::{
    Cached, Event, FactoryError, HandlerRegistration, Index, IndexError, Informer, LabelSelector, handler_fn,
};
use parking_lot::{Mutex, RwLock};

use super::{
    cluster::Cluster,
    gate::ClusterShards,
    name::{ClusterKey, ClusterName},
    registry::Member,
};

/// Reads the objects of one type in all clusters, and calls handlers with the events of all clusters.
/// [`Clusters::informer`](super::Clusters::informer) creates it. Clones share their handlers.
///
/// Each cluster has a separate cache and resourceVersion, so a read of several clusters is not a consistent
/// snapshot. A read searches the cache of each cluster, without requests.
///
/// Do not add or remove handlers and indexes within an index function.
pub struct ClusterInformer<T: Cached>(Arc<Inner<T>>);

type Select<T> = Box<dyn Fn(&Cluster) -> Result<Informer<T>, FactoryError> + Send + Sync>;
type Register<T> = Arc<dyn Fn(&Cluster, &Informer<T>) -> HandlerRegistration<T> + Send + Sync>;
type Purge = Arc<dyn Fn(&ClusterName) -> BoxFuture<'static, ()> + Send + Sync>;
type AddIndex<T> = Arc<dyn Fn(&Informer<T>) + Send + Sync>;

/// The lock `changes` is held while handlers are registered, which may wait for index functions. An index
/// function therefore never waits for it. The lock `table` is held for short reads and writes only.
struct Inner<T: Cached> {
    select: Select<T>,
    shards: Option<ClusterShards>,
    changes: Mutex<()>,
    table: RwLock<Table<T>>,
}

struct Table<T: Cached> {
    clusters: BTreeMap<ClusterName, Attached<T>>,
    handlers: BTreeMap<u64, Arc<Handler<T>>>,
    indexes: BTreeMap<&'static str, AddIndex<T>>,
    next_id: u64,
}

struct Attached<T: Cached> {
    cluster: Cluster,
    informer: Informer<T>,
    registrations: BTreeMap<u64, HandlerRegistration<T>>,
}

/// A handler of all clusters.
pub(super) struct Handler<T: Cached> {
    pub(super) register: Register<T>,
    /// The handler receives a delete of each object of a cluster that leaves.
    pub(super) receives_deletes: bool,
    /// Removes the keys that the handler has queued for a cluster that has left.
    pub(super) purge: Option<Purge>,
}

impl<T: Cached> Clone for ClusterInformer<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Cached> fmt::Debug for ClusterInformer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterInformer").finish_non_exhaustive()
    }
}

impl<T: Cached> ClusterInformer<T> {
    pub(super) fn new(
        select: impl Fn(&Cluster) -> Result<Informer<T>, FactoryError> + Send + Sync + 'static,
        shards: Option<ClusterShards>,
    ) -> Self {
        let (clusters, handlers, indexes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let table = RwLock::new(Table { clusters, handlers, indexes, next_id: 0 });
        Self(Arc::new(Inner { select: Box::new(select), shards, changes: Mutex::new(()), table }))
    }

    /// Returns the shard group of the manager.
    pub(super) fn shards(&self) -> Option<&ClusterShards> {
        self.0.shards.as_ref()
    }

    pub(super) fn member(&self) -> Arc<dyn Member> {
        Arc::clone(&self.0) as _
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &ClusterKey) -> Option<Arc<T>> {
        self.informer(&key.cluster)?.lister().get_by_key(&key.key)
    }

    /// Returns the objects of all clusters that match this selector, sorted by cluster.
    pub fn list(&self, selector: &LabelSelector) -> Vec<(ClusterName, Arc<T>)> {
        self.flat_map(|informer| informer.lister().list(selector))
    }

    /// Returns the keys of the objects of all clusters, sorted by cluster.
    pub fn keys(&self) -> Vec<ClusterKey> {
        let keys = self.flat_map(|informer| informer.lister().keys());
        keys.into_iter().map(|(cluster, key)| ClusterKey { cluster, key }).collect()
    }

    /// Returns the number of objects in all clusters.
    pub fn len(&self) -> usize {
        self.informers().iter().map(|(_, informer)| informer.lister().len()).sum()
    }

    /// Returns true if no cluster has an object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the informer of a cluster. Returns `None` if the cluster is not engaged.
    pub fn informer(&self, cluster: impl AsRef<str>) -> Option<Informer<T>> {
        self.attached(cluster.as_ref()).map(|(_, informer)| informer)
    }

    pub(super) fn attached(&self, cluster: &str) -> Option<(Cluster, Informer<T>)> {
        let table = self.0.table.read();
        let attached = table.clusters.get(cluster).filter(|attached| !attached.cluster.is_disengaged())?;
        Some((attached.cluster.clone(), attached.informer.clone()))
    }

    /// Returns the informers of all clusters, sorted by cluster.
    pub fn informers(&self) -> Vec<(ClusterName, Informer<T>)> {
        let table = self.0.table.read();
        table.clusters.iter().map(|(name, attached)| (name.clone(), attached.informer.clone())).collect()
    }

    fn flat_map<R>(&self, read: impl Fn(&Informer<T>) -> Vec<R>) -> Vec<(ClusterName, R)> {
        let informers = self.informers();
        let named = |(name, informer): &(ClusterName, Informer<T>)| {
            let name = name.clone();
            read(informer).into_iter().map(move |found| (name.clone(), found)).collect::<Vec<_>>()
        };
        informers.iter().flat_map(named).collect()
    }

    /// Adds an index of the objects of all clusters. See [`Informer::add_index`].
    ///
    /// # Errors
    /// Returns [`IndexError::AlreadyExists`] if an index with this name exists.
    pub fn add_index<V, I>(
        &self,
        name: &'static str,
        values: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Result<ClusterIndex<T, V>, IndexError>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        let _change = self.0.changes.lock();
        if self.0.table.read().indexes.contains_key(name) {
            return Err(IndexError::AlreadyExists(name.to_owned()));
        }
        let values = Arc::new(values);
        let add: AddIndex<T> = Arc::new(move |informer| {
            let values = Arc::clone(&values);
            // Another `ClusterInformer` of the same informer may have added the index.
            if let Err(error) = informer.add_index(name, move |object: &T| values(object)) {
                tracing::debug!(%error, "cannot add the index to a cluster");
            }
        });
        self.informers().iter().for_each(|(_, informer)| add(informer));
        self.0.table.write().indexes.insert(name, add);
        Ok(ClusterIndex { informer: self.clone(), name, values: std::marker::PhantomData })
    }

    /// Registers a handler for all current and later clusters. If a cluster leaves, the handler receives a
    /// delete of each of its objects, with [`Removal::Left`](kube_informer::Removal::Left).
    ///
    /// The calls for one cluster are sequential. Calls for different clusters overlap. A slow call therefore
    /// delays only its own cluster. If the cluster has many pending events, they are coalesced as in
    /// [`Informer::add_handler`].
    pub fn add_handler(
        &self,
        handler: impl Fn(&Cluster, &Event<T>) + Send + Sync + 'static,
    ) -> ClusterHandlerRegistration<T> {
        let handler = Arc::new(handler);
        let register = move |cluster: &Cluster, informer: &Informer<T>| {
            let (handler, cluster) = (Arc::clone(&handler), cluster.clone());
            informer.add_handler(handler_fn(move |event: &Event<T>| handler(&cluster, event)))
        };
        self.register(Handler { register: Arc::new(register), receives_deletes: true, purge: None })
    }

    pub(super) fn register(&self, handler: Handler<T>) -> ClusterHandlerRegistration<T> {
        let _change = self.0.changes.lock();
        let attached: Vec<_> = {
            let table = self.0.table.read();
            table.clusters.values().map(|known| (known.cluster.clone(), known.informer.clone())).collect()
        };
        let registered: Vec<_> = attached
            .into_iter()
            .map(|(cluster, informer)| (cluster.name().clone(), (handler.register)(&cluster, &informer)))
            .collect();
        let mut table = self.0.table.write();
        let id = table.next_id;
        table.next_id += 1;
        table.handlers.insert(id, Arc::new(handler));
        for (name, registration) in registered {
            // The lock of the changes is held, so the cluster is still attached.
            if let Some(attached) = table.clusters.get_mut(&name) {
                attached.registrations.insert(id, registration);
            }
        }
        ClusterHandlerRegistration { id, informer: self.clone() }
    }

    /// Removes a handler from all clusters.
    fn unregister(&self, id: u64) -> Vec<HandlerRegistration<T>> {
        let mut table = self.0.table.write();
        let handler = table.handlers.remove(&id);
        let attached = table.clusters.values_mut();
        let registrations = attached.filter_map(|attached| attached.registrations.remove(&id)).collect();
        drop(table);
        drop(handler); // without the lock
        registrations
    }
}

impl<T: Cached> Member for Inner<T> {
    fn attach(&self, cluster: &Cluster) -> Result<(), FactoryError> {
        let informer = (self.select)(cluster)?;
        let _change = self.changes.lock();
        let (handlers, indexes) = {
            let table = self.table.read();
            if cluster.is_disengaged() || table.clusters.contains_key(cluster.name()) {
                return Ok(());
            }
            (table.handlers.clone(), table.indexes.clone())
        };
        indexes.values().for_each(|add| add(&informer));
        let registrations =
            handlers.into_iter().map(|(id, handler)| (id, (handler.register)(cluster, &informer))).collect();
        let attached = Attached { cluster: cluster.clone(), informer, registrations };
        let mut table = self.table.write();
        table.clusters.insert(cluster.name().clone(), attached);
        // A handler can be removed without the lock of the changes.
        let Table { clusters, handlers, .. } = &mut *table;
        let mut removed = Vec::new();
        if let Some(Attached { registrations, .. }) = clusters.get_mut(cluster.name()) {
            let ids: Vec<u64> =
                registrations.keys().filter(|id| !handlers.contains_key(id)).copied().collect();
            removed.extend(ids.iter().filter_map(|id| registrations.remove(id)));
        }
        drop(table);
        drop(removed);
        Ok(())
    }

    fn detach<'a>(&'a self, cluster: &'a Cluster) -> BoxFuture<'a, ()> {
        async move {
            let (attached, handlers) = {
                let _change = self.changes.lock();
                let mut table = self.table.write();
                let is_this =
                    table.clusters.get(cluster.name()).is_some_and(|known| known.cluster.is(cluster));
                let attached = is_this.then(|| table.clusters.remove(cluster.name())).flatten();
                (attached, table.handlers.clone())
            };
            let Some(Attached { registrations, .. }) = attached else { return };
            join_all(registrations.into_iter().map(|(id, registration)| {
                let receives_deletes = handlers.get(&id).is_some_and(|handler| handler.receives_deletes);
                if receives_deletes {
                    registration.remove_after_deletes().boxed()
                } else {
                    registration.remove().boxed()
                }
            }))
            .await;
        }
        .boxed()
    }

    fn purge<'a>(&'a self, cluster: &'a Cluster) -> BoxFuture<'a, ()> {
        let purges: Vec<_> = {
            let table = self.table.read();
            table.handlers.values().filter_map(|handler| handler.purge.clone()).collect()
        };
        join_all(purges.iter().map(|purge| purge(cluster.name()))).map(drop).boxed()
    }
}

/// Owns a handler of a [`ClusterInformer`]. If the registration is dropped, the handler is removed and its
/// queued events are dropped.
#[must_use = "dropping the registration removes the handler"]
#[derive(Debug)]
pub struct ClusterHandlerRegistration<T: Cached> {
    id: u64,
    informer: ClusterInformer<T>,
}

impl<T: Cached> ClusterHandlerRegistration<T> {
    /// Removes the handler and drops its queued events. Waits for running calls.
    ///
    /// Do not wait for this method within a call of the handler, because they would wait for each other
    /// indefinitely.
    ///
    /// # Cancel safety
    /// The handler is always removed. If you drop the future, you do not know when the running calls have
    /// returned.
    pub async fn remove(self) {
        let registrations = self.informer.unregister(self.id);
        join_all(registrations.into_iter().map(HandlerRegistration::remove)).await;
    }
}

impl<T: Cached> Drop for ClusterHandlerRegistration<T> {
    fn drop(&mut self) {
        drop(self.informer.unregister(self.id));
    }
}

/// Finds the objects of all clusters by a value. [`ClusterInformer::add_index`] creates it.
pub struct ClusterIndex<T: Cached, V> {
    informer: ClusterInformer<T>,
    name: &'static str,
    values: std::marker::PhantomData<fn() -> V>,
}

impl<T: Cached, V: Hash + Eq + Clone + Send + Sync + 'static> ClusterIndex<T, V> {
    /// Returns the objects of all clusters with this value, sorted by cluster.
    pub fn get(&self, value: &V) -> Vec<(ClusterName, Arc<T>)> {
        self.informer.flat_map(|informer| self.of(informer).map_or_else(Vec::new, |index| index.get(value)))
    }

    /// Returns the keys of the objects of all clusters with this value, sorted by cluster.
    pub fn keys(&self, value: &V) -> Vec<ClusterKey> {
        let keys = self
            .informer
            .flat_map(|informer| self.of(informer).map_or_else(Vec::new, |index| index.keys(value)));
        keys.into_iter().map(|(cluster, key)| ClusterKey { cluster, key }).collect()
    }

    fn of(&self, informer: &Informer<T>) -> Option<Index<T, V>> {
        informer.index(self.name)
    }
}

impl<T: Cached, V> fmt::Debug for ClusterIndex<T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterIndex").field("name", &self.name).finish_non_exhaustive()
    }
}
