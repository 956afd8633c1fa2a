//! `Priority`: the order of queued keys.

/// Decides which queued keys workers receive first. There are two lanes:
///
/// - Keys with a priority of at least 0 are in the normal lane, for example changed objects.
/// - Keys with a negative priority are in the background lane, for example the objects of the initial
///   list.
///
/// While both lanes contain keys, workers receive one background key after every seven normal keys. A
/// change therefore waits for the normal keys before it, for one background key per seven of them, and
/// for at most one more background key, however long the background lane is. The background lane
/// receives at least one eighth of the work, so it never starves.
///
/// A priority is a number of seconds. Within a lane, a key with the priority `n` is ordered as if it
/// was added `n` seconds earlier. If a queued key is added again, the higher priority applies. A key
/// that thereby moves to the normal lane is ordered by the time of its first add.
///
/// controller-runtime also queues the objects of the initial list with -100. There, priorities are only
/// an order: all keys with a higher priority come first, so keys with a low priority can starve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(
    /// The number of seconds. A negative number also selects the background lane.
    pub i32,
);

impl Priority {
    /// The priority of [`WorkQueue::add`](crate::WorkQueue::add).
    pub const NORMAL: Self = Self(0);
    /// The priority of keys that can wait, for example the objects of the initial list.
    pub const LOW: Self = Self(-100);

    pub(crate) fn is_background(self) -> bool {
        self.0 < 0
    }
}
