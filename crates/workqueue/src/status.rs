//! `Status`: what a queue is doing, for metrics and for people.

use std::time::Duration;

/// What a queue is doing at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status<T> {
    /// How many keys wait for a worker.
    pub waiting: usize,
    /// How many keys come later.
    pub delayed: usize,
    /// The keys that are with a worker, and for how long; the longest first.
    pub running: Vec<(T, Duration)>,
    /// How many runs were asked for since the queue was made: adds of keys that wait already are not counted.
    pub adds: u64,
    /// How many keys came back after a failure, since then.
    pub retries: u64,
}

impl<T> Status<T> {
    /// How long those that run have run, all together.
    pub fn unfinished_work(&self) -> Duration {
        self.running.iter().map(|(_, so_long)| *so_long).sum()
    }

    /// How long the one has run that has run longest; zero if none runs.
    pub fn longest_running(&self) -> Duration {
        self.running.first().map_or(Duration::ZERO, |(_, so_long)| *so_long)
    }
}
