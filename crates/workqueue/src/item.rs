//! A key in a worker's hands. While it lives its key is with no other worker.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;

use crate::priority::Priority;
use crate::queue::WorkQueue;

/// A key that a worker is working on; dereferences to the key.
///
/// The work is over when the item is dropped: at the end of a scope, in [`Item::done`] or [`Item::retry`], with
/// the worker's cancelled future, or while its panic unwinds. A key that was added meanwhile then waits again.
/// An item may move to another task; leaking one (`std::mem::forget`) blocks its key for ever.
#[must_use = "dropping an item says that its work is over"]
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

    /// The priority with which it has waited: the highest that it was added with.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// The work is over: the same as dropping the item, in a word.
    pub fn done(self) {}

    /// The work is over and failed: the key comes back when the queue's rate limiter says, with the same priority.
    ///
    /// Whether to give up on a key is the caller's decision; [`Item::num_requeues`] helps with it. Ignored after
    /// a shutdown, as every add is.
    pub fn retry(self) {
        self.queue.retry(self.key.clone(), self.priority);
    }

    /// Forgets the failures of the key, so that its next failure waits the shortest time. Call it after success
    /// and when giving up.
    pub fn forget(&self) {
        self.queue.forget(&self.key);
    }

    /// How many failures of the key the rate limiter remembers.
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
