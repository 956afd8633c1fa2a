//! `Snapshot`: the store at one moment.

use std::sync::Arc;

use kube_object::{Entry, KeyRef, Object, ResourceVersion};

use crate::{LabelSelector, Watermark, root::Root};

/// The store at one moment: objects, indexes and watermark, all of the same step.
///
/// Cheap to clone, never changes, and blocks nobody; while it is held, writers copy the parts they
/// touch, so a snapshot kept for long costs memory. An index is asked about it with
/// [`Index::at`](crate::Index::at).
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
    /// The entry under this key, a [`KeyRef`] or an `&ObjectKey`. Allocates nothing.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Entry<T>> {
        self.root.get(key.into())
    }

    /// All entries, in unspecified order: the same for the same history, and the same in which
    /// everything else is listed.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.root.objects.iter().map(|(_, entry)| entry)
    }

    /// The entries of one namespace; those of others are not looked at.
    pub fn namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Entry<T>> + use<'a, T> {
        self.root.namespaces.slots(namespace).filter_map(|slot| self.root.objects.get(slot))
    }

    /// The objects that this selector matches.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Arc<T>> {
        match selector.matches_everything() {
            true => self.objects(),
            false => matching(self.iter(), selector),
        }
    }

    /// All objects.
    pub fn objects(&self) -> Vec<Arc<T>> {
        let mut objects = Vec::with_capacity(self.len());
        objects.extend(self.iter().map(|entry| Arc::clone(&entry.object)));
        objects
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.root.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many objects the namespace has.
    pub fn namespace_len(&self, namespace: &str) -> usize {
        self.root.namespaces.len(namespace)
    }

    /// How far the store had come.
    pub fn watermark(&self) -> Option<&ResourceVersion> {
        self.root.watermark.version.as_ref()
    }

    /// The watermark with its epoch, and whether a first list was in.
    pub fn position(&self) -> &Watermark {
        &self.root.watermark
    }

    /// How many objects are stale: their newest state could not be decoded.
    pub fn stale(&self) -> usize {
        self.root.stale.len()
    }

    /// Whether the object under this key is stale: its newest state could not be decoded, and the
    /// last good one stays.
    pub fn is_stale<'k>(&self, key: impl Into<KeyRef<'k>>) -> bool {
        self.root.find(key.into()).is_some_and(|slot| self.root.stale.contains(&slot))
    }
}

pub(crate) fn matching<'a, T: Object>(
    entries: impl Iterator<Item = &'a Entry<T>>,
    selector: &LabelSelector,
) -> Vec<Arc<T>> {
    entries.filter(|entry| selector.matches(&*entry.object)).map(|entry| Arc::clone(&entry.object)).collect()
}
