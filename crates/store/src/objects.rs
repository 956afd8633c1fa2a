//! `Objects`: all objects of a store at one moment.

use std::{hint::black_box, sync::Arc, vec};

use kube_object::{Entry, Object};

use crate::{root::Root, slots::SlotsIter};

/// The number of objects whose reference counts [`Objects::to_vec`] loads concurrently.
const PREFETCHED: usize = 32;

/// Holds all objects of a store at one moment. [`Lister::list_all`](crate::Lister::list_all) and
/// [`Snapshot::objects`](crate::Snapshot::objects) return it.
///
/// This value holds a snapshot, so [`Objects::iter`] does not change the reference count of any object.
/// [`Objects::to_vec`] changes each count, which costs much more for a large store. Drop the value soon:
/// while it exists, replaced and deleted objects stay in memory, and writers copy the parts that they change.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// # let store = kube_store::Store::<Pod>::new();
/// # let lister = store.lister();
/// let pods = lister.list_all();
/// let names: Vec<&str> = pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
/// assert_eq!(names.len(), pods.len());
/// ```
pub struct Objects<T> {
    root: Arc<Root<T>>,
}

impl<T> Clone for Objects<T> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root) }
    }
}

impl<T> std::fmt::Debug for Objects<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("len", &self.root.objects.len()).finish_non_exhaustive()
    }
}

impl<T: Object> Objects<T> {
    pub(crate) fn new(root: Arc<Root<T>>) -> Self {
        Self { root }
    }

    /// Iterates over the objects, in unspecified order.
    pub fn iter(&self) -> ObjectsIter<'_, T> {
        ObjectsIter { entries: self.root.objects.iter(), left: self.len() }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.root.objects.len()
    }

    /// Returns whether the list of objects is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects as a `Vec`, in the order of [`Objects::iter`].
    pub fn to_vec(&self) -> Vec<Arc<T>> {
        let mut objects = Vec::with_capacity(self.len());
        let mut prefetched = self.iter();
        for (position, object) in self.iter().enumerate() {
            if position % PREFETCHED == 0 {
                // The counts are scattered in memory. In this short loop, the processor waits for many
                // cache misses concurrently.
                let counts = prefetched.by_ref().take(PREFETCHED).map(Arc::strong_count);
                black_box(counts.fold(0, |all, count| all ^ count));
            }
            objects.push(Arc::clone(object));
        }
        objects
    }
}

impl<'a, T: Object> IntoIterator for &'a Objects<T> {
    type Item = &'a Arc<T>;
    type IntoIter = ObjectsIter<'a, T>;

    fn into_iter(self) -> ObjectsIter<'a, T> {
        self.iter()
    }
}

/// Clones each `Arc` into a `Vec`, and iterates over it. To iterate without clones, use `&objects`.
impl<T: Object> IntoIterator for Objects<T> {
    type Item = Arc<T>;
    type IntoIter = vec::IntoIter<Arc<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.to_vec().into_iter()
    }
}

/// Iterates over [`Objects`]. [`Objects::iter`] returns it.
pub struct ObjectsIter<'a, T> {
    entries: SlotsIter<'a, Entry<T>>,
    left: usize,
}

impl<T> Clone for ObjectsIter<'_, T> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), left: self.left }
    }
}

impl<T> std::fmt::Debug for ObjectsIter<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectsIter").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<'a, T> Iterator for ObjectsIter<'a, T> {
    type Item = &'a Arc<T>;

    #[inline]
    fn next(&mut self) -> Option<&'a Arc<T>> {
        let (_, entry) = self.entries.next()?;
        self.left -= 1;
        Some(&entry.object)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for ObjectsIter<'_, T> {}
