//! `Priority`: the order of queued keys.

/// Moves a key ahead in the queue, as if it had been added this many seconds earlier.
///
/// If keys are added at the same time, workers receive the keys with a higher priority first. A key
/// with a low priority does not starve. For example, a key with priority 0 precedes each key with
/// priority 100 that is added more than 100 seconds later.
///
/// controller-runtime uses the same values. For example, it queues the objects of the initial list
/// with -100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(
    /// The number of seconds. A negative number moves the key back.
    pub i32,
);

impl Priority {
    /// The priority of [`WorkQueue::add`](crate::WorkQueue::add).
    pub const NORMAL: Self = Self(0);
    /// The priority of keys that can wait, for example the objects of the initial list. Such a key
    /// precedes keys with normal priority that are added more than 100 seconds later.
    pub const LOW: Self = Self(-100);
}
