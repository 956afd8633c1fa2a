//! The required reaction of a reflector to an event out of order: a check of the server's version, and
//! a list after the watch.

use std::time::Duration;

/// The time within which an open watch checks the version of the server.
const CHECK: Duration = Duration::from_secs(1);

/// The events out of order of one informer whose versions are numbers.
#[derive(Debug, Default)]
pub(super) struct Disorder {
    /// True if an event out of order was received since the last list.
    seen: bool,
    /// The time of the first such event, while the watch is open and no check followed.
    unchecked: Option<Duration>,
    /// The time of the last check.
    checked: Option<Duration>,
    /// The version of the later event of the last swap. The cache can lack the earlier event.
    swapped: Option<u64>,
}

impl Disorder {
    /// An event at or below the position is received.
    pub(super) fn received(&mut self, at: Duration) {
        if !self.seen && self.checked != Some(at) {
            self.unchecked = Some(at);
        }
        self.seen = true;
    }

    /// Two events are swapped. The version is of the later event.
    pub(super) fn swapped(&mut self, version: u64) {
        self.swapped = self.swapped.max(Some(version));
    }

    /// The version of the server is requested.
    pub(super) fn checked(&mut self, at: Duration) {
        self.checked = Some(at);
        self.unchecked = None;
    }

    /// The watch is closed. No check is required, as a list must follow.
    pub(super) fn closed(&mut self) {
        self.unchecked = None;
    }

    /// The reflector has received a complete list.
    pub(super) fn listed(&mut self) {
        self.seen = false;
    }

    /// A complete list with this version is applied.
    pub(super) fn applied(&mut self, version: Option<u64>) {
        self.swapped = self.swapped.filter(|swapped| version < Some(*swapped));
    }

    /// Returns whether the cache can lack an event of a swap.
    pub(super) fn may_lack_event(&self) -> bool {
        self.swapped.is_some()
    }

    /// Checks that a list precedes the next watch.
    pub(super) fn resumed(&self) -> Result<(), &'static str> {
        if self.seen { Err("no list follows a watch that sent an event out of order") } else { Ok(()) }
    }

    /// Checks that the version of the server was requested in time.
    pub(super) fn check(&self, now: Duration) -> Result<(), &'static str> {
        match self.unchecked {
            Some(at) if now > at + CHECK => {
                Err("no check of the server's version follows an event out of order")
            }
            _ => Ok(()),
        }
    }
}
