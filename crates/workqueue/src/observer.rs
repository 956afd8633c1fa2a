//! `Observer`: receives durations of queueing and processing.

use std::time::Duration;

/// Receives how long keys waited and how long they were processed, for example to fill histograms.
///
/// [`QueueStatus`](crate::QueueStatus) describes the current state. An observer also receives the
/// durations of completed work. The queue calls the methods from many tasks, without holding its
/// lock. They must not block.
pub trait Observer: Send + Sync + 'static {
    /// A worker took a key that was ready for `duration`.
    fn observe_queue_duration(&self, duration: Duration);

    /// A worker finished a key after processing it for `duration`.
    fn observe_work_duration(&self, duration: Duration);
}

/// Ignores all durations.
pub(crate) struct NoObserver;

impl Observer for NoObserver {
    fn observe_queue_duration(&self, _: Duration) {}

    fn observe_work_duration(&self, _: Duration) {}
}
