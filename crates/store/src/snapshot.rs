//! `Snapshot`: an immutable state of a store.

use std::sync::Arc;

use kube_object::{Entry, KeyRef, Object, ResourceVersion};

use crate::{LabelSelector, Objects, Watermark, root::Root};

/// The maximum number of slots that a page visits, for each entry of its limit.
const SLOTS_PER_ENTRY: usize = 16;

/// Holds an immutable state of a store: objects, indexes and watermark.
///
/// A snapshot is cheap to clone, never changes, and never blocks a writer. While a snapshot exists,
/// writers copy the parts that they change, so a long-lived snapshot needs additional memory. To
/// read an index of the snapshot, use [`Index::at`](crate::Index::at).
pub struct Snapshot<T> {
    pub(crate) root: Arc<Root<T>>,
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root) }
    }
}

impl<T> std::fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("objects", &self.root.objects.len())
            .field("watermark", &self.root.watermark)
            .finish_non_exhaustive()
    }
}

impl<T: Object> Snapshot<T> {
    /// Returns the entry with this key. The key is a [`KeyRef`] or an `&ObjectKey`. The lookup does
    /// not allocate.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Entry<T>> {
        self.root.get(key.into())
    }

    /// Iterates over all entries. The order is unspecified, but two stores with the same history
    /// use the same order. All methods that return several objects use this order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.root.objects.iter().map(|(_, entry)| entry)
    }

    /// Returns a page of at most `limit` entries, and the cursor of the next page. The cursor of the
    /// first page is zero. The last page returns `None` as the next cursor. A page can be empty although
    /// other pages follow, because each call inspects a limited number of positions. A deleted object
    /// leaves an empty position.
    ///
    /// The pages have the order of [`Snapshot::iter`]. An object keeps its position while it
    /// exists, so a cursor is also valid for later snapshots of the same store.
    pub fn page(&self, cursor: usize, limit: usize) -> (Vec<Entry<T>>, Option<usize>) {
        let end = self.root.objects.used();
        let last = end.min(cursor.saturating_add(limit.max(1).saturating_mul(SLOTS_PER_ENTRY)));
        let mut entries = Vec::with_capacity(limit.min(last.saturating_sub(cursor)));
        let mut next = cursor;
        while next < last && entries.len() < limit {
            entries.extend(self.root.objects.get(next as u32).cloned());
            next += 1;
        }
        (entries, (next < end).then_some(next))
    }

    /// Iterates over the namespaces that contain objects, in unspecified order.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.root.namespaces.values().map(|namespace| &**namespace)
    }

    /// Iterates over the entries of one namespace. The iterator does not visit other namespaces.
    pub fn namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Entry<T>> + use<'a, T> {
        self.root.namespaces.slots(namespace).filter_map(|slot| self.root.objects.get(slot))
    }

    /// Returns the objects that match this selector.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        if selector.matches_everything() { self.objects().to_vec() } else { matching(self.iter(), selector) }
    }

    /// Returns the objects of a namespace that match this selector.
    pub fn namespace_list(&self, namespace: &str, selector: &LabelSelector) -> Vec<Arc<T>> {
        matching(self.namespace(namespace), selector)
    }

    /// Returns all objects. The result shares the objects with the snapshot, so this call costs only a
    /// reference count.
    pub fn objects(&self) -> Objects<T> {
        Objects::new(Arc::clone(&self.root))
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.root.objects.len()
    }

    /// Returns whether the snapshot is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of objects in the namespace.
    pub fn namespace_len(&self, namespace: &str) -> usize {
        self.root.namespaces.len(namespace)
    }

    /// Returns the resourceVersion up to which the snapshot contains all changes. Returns `None` if the
    /// snapshot has no position ([`Watermark::version`]).
    pub fn resource_version(&self) -> Option<&ResourceVersion> {
        self.root.watermark.version.as_ref()
    }

    /// Returns the resourceVersion, the epoch and the sync state of the snapshot.
    pub fn watermark(&self) -> &Watermark {
        &self.root.watermark
    }

    /// Returns the number of stale objects. An object is stale if its latest state could not be
    /// decoded. The snapshot then contains the last state that could be decoded.
    pub fn stale_len(&self) -> usize {
        self.root.stale.len()
    }

    /// Returns whether the object with this key is stale. An object is stale if its latest state
    /// could not be decoded. The snapshot then contains the last state that could be decoded.
    pub fn is_stale<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.root.find(key.into()).is_some_and(|slot| self.root.stale.contains(&slot))
    }
}

fn matching<'a, T: Object>(
    entries: impl Iterator<Item = &'a Entry<T>>,
    selector: &LabelSelector,
) -> Vec<Arc<T>> {
    entries.filter(|entry| selector.matches(&*entry.object)).map(|entry| Arc::clone(&entry.object)).collect()
}
