//! `Observer`: who is told how long keys wait and how long they are worked on.

use std::time::Duration;

/// Is told what a [`Status`](crate::Status) can't show: the durations of what is over. For histograms.
///
/// Calls come from any number of tasks, without a lock of the queue, and must not block.
pub trait Observer: Send + Sync + 'static {
    /// A key was taken that has waited so long since its first add, or since it came due.
    fn waited(&self, so_long: Duration);

    /// A key was with a worker for so long.
    fn worked(&self, so_long: Duration);
}

/// Tells nobody.
pub(crate) struct NoObserver;

impl Observer for NoObserver {
    fn waited(&self, _: Duration) {}

    fn worked(&self, _: Duration) {}
}
