//! `RecorderStatus`: the number of events by their state.

/// Counts all reported events. Each event is counted once: as `sent`, `waiting`, `failed` or `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStatus {
    /// The number of events that were written to the server, as an Event or in the count of a series.
    pub sent: u64,
    /// The number of events that are not written yet. This includes repeats that wait for the next
    /// write of their series.
    pub waiting: u64,
    /// The number of events that were lost because the server rejected the write, or all tries failed.
    pub failed: u64,
    /// The number of events that were dropped, by cause.
    pub dropped: DroppedEvents,
    /// The number of open series. A repeat of an open series increments its count.
    pub tracked_series: usize,
}

/// Counts dropped events by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DroppedEvents {
    /// The number of events that were dropped because 1000 writes were waiting.
    pub queue_full: u64,
    /// The number of events that exceeded the rate limit of their object.
    pub rate_limited: u64,
    /// The number of events with an empty reason or action, or with an invalid namespace.
    pub invalid: u64,
    /// The number of events that were reported after the stop, or that were not written when the
    /// recorder stopped.
    pub stopped: u64,
}

impl DroppedEvents {
    /// Returns the total number of dropped events.
    pub fn total(&self) -> u64 {
        self.queue_full + self.rate_limited + self.invalid + self.stopped
    }
}
