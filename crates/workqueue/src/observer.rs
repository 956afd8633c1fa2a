//! `Observer`: receives durations of queueing and processing.

use std::time::Duration;

/// Receives two durations for each key: the time that the key was ready, and the time that a worker
/// processed the key. Programs use these durations for histograms.
///
/// [`QueueStatus`](crate::QueueStatus) contains only the current state. An observer also receives the
/// durations of completed work. The queue calls the methods from many tasks, without
/// holding its lock. The methods must not block.
pub trait Observer: Send + Sync + 'static {
    /// Records that a worker took a key that was ready for `duration`.
    fn observe_queue_duration(&self, duration: Duration);

    /// Records that a worker completed a key after it processed the key for `duration`.
    fn observe_work_duration(&self, duration: Duration);
}

/// Ignores all durations.
pub(crate) struct NoObserver;

impl Observer for NoObserver {
    fn observe_queue_duration(&self, _: Duration) {}

    fn observe_work_duration(&self, _: Duration) {}
}
