//! `RecorderStatus`: what has become of the events.

/// What has become of all events that were reported: each is counted in one of `sent`, `waiting`, `failed` and `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecorderStatus {
    /// The server has them: as events, or as a number in a series.
    pub sent: u64,
    /// Not written yet, those among them that are counted for a later write of their series.
    pub waiting: u64,
    /// Lost with a write that the server has refused, or that has failed too often.
    pub failed: u64,
    /// Never tried.
    pub dropped: DroppedEvents,
    /// How many series are remembered now: a repeat of one of these is counted with it.
    pub tracked_series: usize,
}

/// Events that were never tried, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DroppedEvents {
    /// Too many were waiting to be written.
    pub queue_full: u64,
    /// There were too many about the same object.
    pub rate_limited: u64,
    /// Without a reason or an action, or about an object in a namespace that can't be.
    pub invalid: u64,
    /// Reported after the stop, or not written in time after it.
    pub stopped: u64,
}

impl DroppedEvents {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.queue_full + self.rate_limited + self.invalid + self.stopped
    }
}
