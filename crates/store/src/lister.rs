//! `Lister` and `NamespaceLister`: a store that can only be read.

use std::sync::Arc;

use kube_object::{KeyRef, Object, ObjectKey, ResourceVersion};

use crate::{Index, LabelSelector, Snapshot, Store, StoreStats, Watermark, snapshot::matching};

/// Reads a store. Cheap to clone; keeps the store alive.
///
/// No call does I/O or waits for one. Each call reads the newest snapshot; several answers about
/// one moment come from [`Lister::snapshot`]. Lists come in unspecified order.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_store::{LabelSelector, Store};
/// let store = Store::<Pod>::new();
/// # let mut pod = Pod::default();
/// # pod.metadata.name = Some("web-0".into());
/// # pod.metadata.namespace = Some("shop".into());
/// # pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
/// # store.add(pod);
/// let pods = store.lister();
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
    /// The object under this key, a [`KeyRef`] or an `&ObjectKey`.
    pub fn get_by_key<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<T>> {
        self.store.get(key)
    }

    /// The cluster-scoped object of this name.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.store.get(KeyRef::new(None, name))
    }

    /// The objects of one namespace.
    pub fn namespace<'n>(&self, namespace: &'n str) -> NamespaceLister<'n, T> {
        NamespaceLister { store: self.store.clone(), namespace }
    }

    /// The objects that this selector matches, of all namespaces.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        self.store.snapshot().list(selector)
    }

    /// All objects.
    pub fn list_all(&self) -> Vec<Arc<T>> {
        self.store.list()
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.store.keys()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// The index of this name, see [`Store::index`].
    pub fn index<V>(&self, name: &str) -> Option<Index<T, V>>
    where
        V: std::hash::Hash + Eq + Clone + Send + Sync + 'static,
    {
        self.store.index(name)
    }

    /// Everything as it is now, for as long as it is held.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.store.snapshot()
    }

    /// How far the cache has come; `None` until anything with a version was applied.
    pub fn watermark(&self) -> Option<ResourceVersion> {
        self.store.watermark()
    }

    /// The watermark with its epoch.
    pub fn position(&self) -> Watermark {
        self.store.position()
    }

    /// Counts for metrics and debug pages.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// Whether a first list is in the cache.
    pub fn is_synced(&self) -> bool {
        self.store.is_synced()
    }
}

/// Reads one namespace of a store; a list looks at no object of another.
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
    /// The object of this name.
    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.store.get(KeyRef::new(Some(self.namespace), name))
    }

    /// The objects that this selector matches.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        matching(self.store.snapshot().namespace(self.namespace), selector)
    }

    /// All objects of the namespace.
    pub fn list_all(&self) -> Vec<Arc<T>> {
        self.list(&LabelSelector::everything())
    }

    /// The keys of all objects of the namespace.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.store.snapshot().namespace(self.namespace).map(|entry| entry.key().clone()).collect()
    }

    /// How many objects the namespace has.
    pub fn len(&self) -> usize {
        self.store.snapshot().namespace_len(self.namespace)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
