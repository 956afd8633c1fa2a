//! `QueueStatus`: the state of a queue, for metrics and status pages.

use std::time::Duration;

/// Describes the state of a queue. Returned by [`WorkQueue::status`](crate::WorkQueue::status).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStatus<T> {
    /// The number of keys that are ready for a worker: the depth of the queue.
    pub ready: usize,
    /// The number of these keys in the background lane. Their [`Priority`](crate::Priority) is negative.
    pub ready_background: usize,
    /// The number of keys whose delay has not expired yet.
    pub delayed: usize,
    /// The keys that workers process. The duration is the time since the worker took the key. The key
    /// with the longest duration is first.
    pub processing: Vec<(T, Duration)>,
    /// The number of adds since the queue was created. An add of a key that is already queued, or an add
    /// after a shutdown, is not counted.
    pub adds: u64,
    /// The number of retries since the queue was created: calls of
    /// [`Item::retry`](crate::Item::retry) and
    /// [`WorkQueue::add_rate_limited`](crate::WorkQueue::add_rate_limited).
    pub retries: u64,
}

impl<T> QueueStatus<T> {
    /// Converts each key, for example to text.
    pub fn map_keys<U>(self, mut convert: impl FnMut(T) -> U) -> QueueStatus<U> {
        let Self { ready, ready_background, delayed, processing, adds, retries } = self;
        let processing = processing.into_iter().map(|(key, duration)| (convert(key), duration)).collect();
        QueueStatus { ready, ready_background, delayed, processing, adds, retries }
    }

    /// Returns the sum of the durations in `processing`.
    pub fn unfinished_work(&self) -> Duration {
        self.processing.iter().map(|(_, duration)| *duration).sum()
    }

    /// Returns the longest duration in `processing`, or zero if no worker processes a key.
    pub fn longest_running(&self) -> Duration {
        self.processing.first().map_or(Duration::ZERO, |(_, duration)| *duration)
    }
}
