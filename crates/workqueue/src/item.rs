//! `Item`: a key that a worker processes.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;

use crate::priority::Priority;
use crate::queue::WorkQueue;

/// Holds a key while a worker processes it. Dereferences to the key.
///
/// The processing is complete when the item is dropped. [`Item::done`] and [`Item::retry`] drop the
/// item. The item is also dropped at the end of its scope, or if the worker is cancelled or panics.
/// If the key was added during the processing, the key is then ready for a worker again.
///
/// An item may move to another task. If an item is leaked, for example with `std::mem::forget`,
/// workers never receive its key again.
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

    /// Returns the highest priority with which the key was added before the worker took it.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Completes the processing. Equivalent to dropping the item.
    pub fn done(self) {}

    /// Completes the processing, counts a failure, and adds the key again after the delay that the
    /// rate limiter returns. The key keeps its priority.
    ///
    /// The queue does not limit the number of retries. A worker can give up on a key, for example
    /// if [`Item::num_requeues`] exceeds a limit. After a shutdown, the key is not added again.
    pub fn retry(self) {
        self.queue.retry(self.key.clone(), self.priority);
    }

    /// Resets the number of failures of the key in the rate limiter.
    ///
    /// Call this method after a success, or if the worker gives up on the key. The next failure
    /// then has the shortest delay.
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
