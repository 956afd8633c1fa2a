//! `Lister` and `NamespaceLister`: read-only handles on a store.

use std::sync::Arc;

use kube_object::{KeyRef, Object, ObjectKey, ResourceVersion};

use crate::{Index, LabelSelector, Objects, Snapshot, Store, StoreStats, Watermark};

/// Reads a store. A lister is cheap to clone, and keeps the store in memory. The lister of an
/// informer also keeps this informer running.
///
/// No method does I/O. Only `wait_until` and `wait_for` wait. Each call reads the latest state of
/// the store. For several consistent reads, use [`Lister::snapshot`]. The order of the returned
/// lists is unspecified.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// # use kube_store::{LabelSelector, Store};
/// # let store = Store::<Pod>::new();
/// # let mut pod = Pod::default();
/// # pod.metadata.name = Some("web-0".into());
/// # pod.metadata.namespace = Some("shop".into());
/// # pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
/// # store.add(pod);
/// let pods = store.lister(); // or the lister of an informer
/// assert!(pods.namespace("shop").get("web-0").is_some());
/// assert_eq!(pods.list(&LabelSelector::everything().equals("app", "web")).len(), 1);
/// ```
pub struct Lister<T> {
    pub(crate) store: Store<T>,
}

impl<T> Clone for Lister<T> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone() }
    }
}

impl<T> std::fmt::Debug for Lister<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lister").finish_non_exhaustive()
    }
}

impl<T: Object> Lister<T> {
    /// Returns the object with this key. The key is a [`KeyRef`] or an `&ObjectKey`.
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.store.get(key)
    }

    /// Returns the cluster-scoped object with this name. For a namespaced object, use
    /// [`Lister::namespace`] or [`Lister::get_by_key`].
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.store.get(KeyRef::new(None, name))
    }

    /// Returns a lister for one namespace.
    pub fn namespace<'n>(&self, namespace: &'n str) -> NamespaceLister<'n, T> {
        NamespaceLister { store: self.store.clone(), namespace }
    }

    /// Returns the objects that match this selector, from all namespaces.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.store.snapshot().list(selector)
    }

    /// Returns all objects. To iterate without clones of the `Arc`s, use [`Objects::iter`]. The result
    /// holds a snapshot, so this call increments only one reference count.
    pub fn list_all(&self) -> Objects<T> {
        self.store.snapshot().objects()
    }

    /// Returns the keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.store.keys()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Returns whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Returns the index with this name. See [`Store::index`].
    pub fn index<V>(&self, name: &str) -> Option<Index<T, V>>
    where
        V: std::hash::Hash + Eq + Clone + Send + Sync + 'static,
    {
        self.store.index(name)
    }

    /// Returns a snapshot of the current state. Later changes of the store do not change the
    /// snapshot.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.store.snapshot()
    }

    /// Returns the resourceVersion up to which the store contains all changes. Returns `None` if the
    /// store has no position ([`Watermark::version`]).
    pub fn resource_version(&self) -> Option<ResourceVersion> {
        self.store.resource_version()
    }

    /// Returns the resourceVersion, the epoch and the sync state of the store. See [`Watermark`].
    pub fn watermark(&self) -> Watermark {
        self.store.watermark()
    }

    /// Returns counters for metrics and debug pages.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// Returns whether the cache is no longer updated, because its informer was stopped or its
    /// store was [closed](Store::close). The lister still returns the last state.
    pub fn is_closed(&self) -> bool {
        self.store.is_closed()
    }

    /// Returns whether an initial list was applied. The list may be incomplete, because some of its
    /// items were unreadable.
    pub fn is_synced(&self) -> bool {
        self.store.is_synced()
    }
}

/// Reads the objects of one namespace. Its methods do not visit objects of other namespaces.
pub struct NamespaceLister<'n, T> {
    store: Store<T>,
    namespace: &'n str,
}

impl<T> Clone for NamespaceLister<'_, T> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), namespace: self.namespace }
    }
}

impl<T> std::fmt::Debug for NamespaceLister<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceLister").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl<T: Object> NamespaceLister<'_, T> {
    /// Returns the object with this name.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.store.get(KeyRef::new(Some(self.namespace), name))
    }

    /// Returns the objects of the namespace that match this selector.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.store.snapshot().namespace_list(self.namespace, selector)
    }

    /// Returns all objects of the namespace. Clones one `Arc` per object.
    pub fn list_all(&self) -> Vec<Arc<T>> {
        self.list(&LabelSelector::everything())
    }

    /// Returns the keys of all objects of the namespace.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.store.snapshot().namespace(self.namespace).map(|entry| entry.key().clone()).collect()
    }

    /// Returns the number of objects in the namespace.
    pub fn len(&self) -> usize {
        self.store.snapshot().namespace_len(self.namespace)
    }

    /// Returns whether the namespace has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
