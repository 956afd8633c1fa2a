//! `Item`: a key that a worker processes.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;

use crate::priority::Priority;
use crate::queue::WorkQueue;

/// Holds a key while a worker processes it. Dereferences to the key.
///
/// Processing is complete when the item is dropped: explicitly by [`Item::done`] or
/// [`Item::retry`], at the end of a scope, when the worker's future is cancelled, or when the
/// worker panics. If the key was added during processing, the queue then makes it ready again. An
/// item may move to another task. If an item is leaked (`std::mem::forget`), its key stays blocked.
#[must_use = "dropping an item completes the processing of its key"]
pub struct Item<T: Eq + Hash + Clone + 'static> {
    key: T,
    priority: Priority,
    queue: WorkQueue<T>,
}

impl<T: Eq + Hash + Clone + 'static> Item<T> {
    /// `key` must have just been taken from `queue`.
    pub(crate) fn new(key: T, priority: Priority, queue: WorkQueue<T>) -> Self {
        Item { key, priority, queue }
    }

    /// Returns the highest priority with which the key was added since it was last taken.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Completes the processing. Equivalent to dropping the item.
    pub fn done(self) {}

    /// Completes the processing and adds the key again with the same priority, after the delay of
    /// the rate limiter.
    ///
    /// The caller decides when to give up on a key, for example by [`Item::num_requeues`]. After a
    /// shutdown the key is not added.
    pub fn retry(self) {
        self.queue.retry(self.key.clone(), self.priority);
    }

    /// Resets the failures of the key in the rate limiter.
    ///
    /// Call this after a success and after giving up, so that the next failure has the shortest
    /// delay.
    pub fn forget(&self) {
        self.queue.forget(&self.key);
    }

    /// Returns the number of failures of the key that the rate limiter remembers.
    pub fn num_requeues(&self) -> u32 {
        self.queue.num_requeues(&self.key)
    }
}

impl<T: Eq + Hash + Clone + 'static> Deref for Item<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.key
    }
}

impl<T: Eq + Hash + Clone + 'static> Drop for Item<T> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}

impl<T: Eq + Hash + Clone + fmt::Debug + 'static> fmt::Debug for Item<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(&self.key).finish()
    }
}
