//! `Index`: finds objects by a computed value, for example the node of a Pod.

use std::{borrow::Borrow, hash::Hash, marker::PhantomData, sync::Arc};

use kube_object::{Entry, Object, ObjectKey};

use crate::{Snapshot, Store, erased::IndexState};

/// Reports why an index could not be added or found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The store already has an index with this name.
    #[error("index {0:?} already exists")]
    AlreadyExists(String),
    /// An index function of this store tried to add an index. The call would wait for the index
    /// function, and therefore never return.
    #[error("cannot add index {0:?} within an index function of the same store")]
    WithinIndexFunction(String),
    /// The store has no index with this name and this type of values.
    #[error("index {0:?} does not exist or has values of another type")]
    NotFound(String),
}

/// Finds objects by a computed value. [`Store::add_index`] creates an index. An `Index` is cheap to
/// clone, and keeps the store in memory. The index of an informer also keeps this informer running.
///
/// Each call reads the latest state of the store. For several consistent reads, use [`Index::at`].
/// The objects have the order of [`Snapshot::iter`]. The order of the values is unspecified, but
/// two stores with the same history return the same order.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// # use k8s_openapi::api::core::v1::PodSpec;
/// # let pods = kube_store::Store::<Pod>::new();
/// let by_node = pods.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone())?;
/// # let mut pod = Pod::default();
/// # pod.metadata.name = Some("web-0".into());
/// # pod.spec = Some(PodSpec { node_name: Some("node-7".into()), ..Default::default() });
/// pods.add(pod);
/// assert_eq!(by_node.get("node-7").len(), 1);
/// # Ok::<(), kube_store::IndexError>(())
/// ```
pub struct Index<T, V> {
    store: Store<T>,
    name: &'static str,
    /// The position among the indexes of the store. Indexes are never removed.
    position: usize,
    value: PhantomData<fn() -> V>,
}

impl<T, V> Clone for Index<T, V> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), value: PhantomData, ..*self }
    }
}

impl<T, V> std::fmt::Debug for Index<T, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T: Object, V: Hash + Eq + Clone + Send + Sync + 'static> Index<T, V> {
    pub(crate) fn new(store: Store<T>, name: &'static str, position: usize) -> Self {
        Self { store, name, position, value: PhantomData }
    }

    /// Returns the name of the index.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the objects that have this value in the index.
    pub fn get<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> Vec<Arc<T>>
    where
        V: Borrow<Q>,
    {
        self.now(|index| index.get(value))
    }

    /// Returns the keys of the objects that have this value in the index.
    pub fn keys<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> Vec<ObjectKey>
    where
        V: Borrow<Q>,
    {
        self.now(|index| index.iter(value).map(|entry| entry.key().clone()).collect())
    }

    /// Returns the number of objects that have this value in the index.
    pub fn len<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> usize
    where
        V: Borrow<Q>,
    {
        self.now(|index| index.len(value))
    }

    /// Returns each value of the index once.
    pub fn values(&self) -> Vec<V> {
        self.now(|index| index.values().cloned().collect())
    }

    /// Returns the state of this index in a snapshot of the same store.
    ///
    /// Returns `None` if the snapshot does not contain the index, because the snapshot is older
    /// than the index.
    pub fn at<'a>(&self, snapshot: &'a Snapshot<T>) -> Option<IndexSnapshot<'a, T, V>> {
        let state = snapshot.root.indexes.state(self.position)?;
        (state.name() == self.name).then_some(IndexSnapshot { snapshot, state })
    }

    fn now<R: Default>(&self, read: impl FnOnce(IndexSnapshot<'_, T, V>) -> R) -> R {
        self.at(&self.store.snapshot()).map(read).unwrap_or_default()
    }
}

/// Holds the state of one index in a snapshot. [`Index::at`] returns it.
pub struct IndexSnapshot<'a, T, V> {
    snapshot: &'a Snapshot<T>,
    state: &'a IndexState<V>,
}

impl<T, V> Clone for IndexSnapshot<'_, T, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, V> Copy for IndexSnapshot<'_, T, V> {}

impl<T, V> std::fmt::Debug for IndexSnapshot<'_, T, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexSnapshot").finish_non_exhaustive()
    }
}

impl<'a, T: Object, V: Hash + Eq + Clone + Send + Sync + 'static> IndexSnapshot<'a, T, V> {
    /// Returns the objects that have this value in the index.
    pub fn get<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> Vec<Arc<T>>
    where
        V: Borrow<Q>,
    {
        self.iter(value).map(|entry| Arc::clone(&entry.object)).collect()
    }

    /// Iterates over the entries that have this value in the index. Unlike [`IndexSnapshot::get`],
    /// the method does not clone an `Arc` for each entry.
    pub fn iter<Q: ?Sized + Hash + Eq>(
        &self,
        value: &Q,
    ) -> impl Iterator<Item = &'a Entry<T>> + use<'a, Q, T, V>
    where
        V: Borrow<Q>,
    {
        let objects = &self.snapshot.root.objects;
        self.state.postings().slots(value).filter_map(|slot| objects.get(slot))
    }

    /// Returns the number of objects that have this value in the index.
    pub fn len<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> usize
    where
        V: Borrow<Q>,
    {
        self.state.postings().len(value)
    }

    /// Returns each value of the index once.
    pub fn values(&self) -> impl Iterator<Item = &'a V> + use<'a, T, V> {
        self.state.postings().values()
    }
}

#[cfg(test)]
mod tests;
