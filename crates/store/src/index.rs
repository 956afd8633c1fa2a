//! `Index`: look-ups by a value that is computed from the object, such as the node of a Pod.

use std::{borrow::Borrow, hash::Hash, marker::PhantomData, sync::Arc};

use kube_object::{Entry, Object, ObjectKey};

use crate::{Snapshot, Store, erased::IndexState};

/// An index could not be added or found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The store has an index of this name already.
    #[error("there is an index named {0:?} already")]
    AlreadyExists(String),
    /// The store has no index of this name with values of the type asked for.
    #[error("there is no index named {0:?} with values of this type")]
    NotFound(String),
}

/// A typed handle on one index of a store. Cheap to clone; keeps the store alive.
///
/// Made by [`Store::add_index`]. Each call reads the newest snapshot; several answers about one
/// moment come from [`Index::at`]. Objects come in the order of [`Snapshot::iter`], values in
/// one that is unspecified but the same in each run.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// # use k8s_openapi::api::core::v1::PodSpec;
/// let pods = kube_store::Store::<Pod>::new();
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
    /// Place among the store's indexes, of which none is ever removed.
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

    /// The name it was added under.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The objects that have this value.
    pub fn get<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> Vec<Arc<T>>
    where
        V: Borrow<Q>,
    {
        self.now(|index| index.get(value))
    }

    /// The keys of the objects that have this value.
    pub fn keys<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> Vec<ObjectKey>
    where
        V: Borrow<Q>,
    {
        self.now(|index| index.iter(value).map(|entry| entry.key().clone()).collect())
    }

    /// How many objects have this value.
    pub fn len<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> usize
    where
        V: Borrow<Q>,
    {
        self.now(|index| index.len(value))
    }

    /// Each value that some object has, once.
    pub fn values(&self) -> Vec<V> {
        self.now(|index| index.values().cloned().collect())
    }

    /// This index as it was at one moment.
    ///
    /// `None` for a snapshot that was taken before the index was added, or from another store.
    pub fn at<'a>(&self, snapshot: &'a Snapshot<T>) -> Option<IndexSnapshot<'a, T, V>> {
        let state = snapshot.root.indexes.state(self.position)?;
        (state.name() == self.name).then_some(IndexSnapshot { snapshot, state })
    }

    fn now<R: Default>(&self, read: impl FnOnce(IndexSnapshot<'_, T, V>) -> R) -> R {
        self.at(&self.store.snapshot()).map(read).unwrap_or_default()
    }
}

/// One index at one moment.
pub struct IndexSnapshot<'a, T, V> {
    snapshot: &'a Snapshot<T>,
    state: &'a IndexState<T, V>,
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
    /// The objects that have this value.
    pub fn get<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> Vec<Arc<T>>
    where
        V: Borrow<Q>,
    {
        self.iter(value).map(|entry| Arc::clone(&entry.object)).collect()
    }

    /// The entries that have this value, without taking a reference on each.
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

    /// How many objects have this value.
    pub fn len<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> usize
    where
        V: Borrow<Q>,
    {
        self.state.postings().len(value)
    }

    /// Each value that some object has, once.
    pub fn values(&self) -> impl Iterator<Item = &'a V> + use<'a, T, V> {
        self.state.postings().values()
    }
}

#[cfg(test)]
mod tests;
