//! `RecorderStatus`: the number of events by their state.

/// Counts all reported events. Each is counted once: as `sent`, `waiting`, `failed` or `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStatus {
    /// Written to the server, as an event or in the count of a series.
    pub sent: u64,
    /// Not written yet. Includes repeats that are counted for the next write of their series.
    pub waiting: u64,
    /// Lost because the server rejected the write, or because all tries failed.
    pub failed: u64,
    /// Never tried.
    pub dropped: DroppedEvents,
    /// The number of series that are tracked now. A repeat of one of them is counted in it.
    pub tracked_series: usize,
}

/// Counts dropped events by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DroppedEvents {
    /// Too many writes were waiting.
    pub queue_full: u64,
    /// Too many events about the same object.
    pub rate_limited: u64,
    /// The reason or the action was empty, or the namespace of the object was invalid.
    pub invalid: u64,
    /// Reported after the stop, or not written before the timeout of the stop.
    pub stopped: u64,
}

impl DroppedEvents {
    /// Returns the sum.
    pub fn total(&self) -> u64 {
        self.queue_full + self.rate_limited + self.invalid + self.stopped
    }
}
