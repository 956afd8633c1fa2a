//! `Priority`: the order of queued keys.

/// Moves a key ahead in the queue, as if it had been added this many seconds earlier.
///
/// Workers therefore receive keys with a higher priority first. No key starves: after a key has
/// waited for the difference in seconds, it precedes every key that is added later. The values
/// match controller-runtime, which queues the objects of the initial list with -100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(
    /// Seconds. A negative value moves the key back.
    pub i32,
);

impl Priority {
    /// The priority of [`WorkQueue::add`](crate::WorkQueue::add).
    pub const NORMAL: Self = Self(0);
    /// The priority of keys that may wait for a minute or two, for example the objects of the initial list.
    pub const LOW: Self = Self(-100);
}
