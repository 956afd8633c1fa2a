//! The status of a reflector.

use std::{collections::BTreeMap, fmt};

use kube_listwatch::ErrorClass;
use tokio::time::Instant;

use crate::WatchEnd;

/// Describes the phase, counts and failures of a reflector. Never contains the text of an object.
///
/// `Display` prints a line about lists and watches. If there are any, it also prints lines about
/// unreadable objects and the last failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorStatus {
    /// The current phase.
    pub phase: Phase,
    /// Whether the cache was cleared because the resource does not exist. The next complete list resets
    /// it. See [`ReflectorOptions::clear_when_gone`](crate::ReflectorOptions::clear_when_gone).
    pub cleared: bool,
    /// The number of started lists, including the first list. The pages of a list count once.
    pub lists: u64,
    /// The number of lists other than the first list and retries.
    pub relists: u64,
    /// The cause of the last list.
    pub last_relist: Option<RelistCause>,
    /// The number of lists for each cause.
    pub lists_by_cause: BTreeMap<RelistCause, u64>,
    /// The number of requested streaming lists. `lists` includes this number.
    pub streams: u64,
    /// The number of requested watches, without streaming lists that continue as a watch.
    pub watches: u64,
    /// The number of closed watches for each cause, including watches that could not be opened. A
    /// streaming list counts only after the end of its list.
    pub restarts: BTreeMap<RestartCause, u64>,
    /// The time of the last object event, including repeats.
    pub last_event: Option<Instant>,
    /// The time of the last bookmark.
    pub last_bookmark: Option<Instant>,
    /// The number of events that were dropped as repeats.
    pub repeats: u64,
    /// The number of undecodable objects.
    pub undecodable: u64,
    /// The number of list items without a usable identity.
    pub nameless: u64,
    /// The number of failed requests, including timeouts.
    pub errors: u64,
    /// The last failure with its causes and the URL. A success does not remove the text.
    pub last_error: Option<String>,
    /// The time of the last failure.
    pub last_error_at: Option<Instant>,
    /// The class of the last failure. `None` after a success.
    pub failing: Option<ErrorClass>,
    /// Whether the server rejected the last plain list as invalid (400, 422), for example because of an
    /// unknown field selector. A retry is useful only after a change of the server.
    pub rejected: bool,
    /// The time of the first failure since the last success. `None` after a success.
    pub failing_since: Option<Instant>,
}

/// Describes the phase of a reflector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// The reflector is not started.
    #[default]
    Idle,
    /// A list is open.
    Listing,
    /// A watch is open.
    Watching,
    /// The reflector waits for the backoff.
    Waiting,
    /// The resource does not exist. The reflector retries with a backoff.
    Suspended,
    /// The reflector stopped.
    Stopped,
}

/// Describes the cause of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelistCause {
    /// The first list.
    Start,
    /// The previous list failed or was incomplete.
    Retry,
    /// The server no longer has the version or the page (410).
    Expired,
    /// The server has not reached the version.
    TooLarge,
    /// The resource did not exist (404).
    NotFound,
    /// The watch made no progress, or had no version to resume from.
    Stuck,
    /// A relist was requested.
    Requested,
}

/// Describes the cause of the end of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RestartCause {
    /// The server closed the watch after the requested duration.
    Ended,
    /// The watch closed before the requested duration.
    EndedEarly,
    /// A deadline closed the silent watch.
    Silent,
    /// A relist was requested.
    Requested,
    /// The watch failed or could not be opened.
    Failed(ErrorClass),
}

impl From<WatchEnd> for RestartCause {
    fn from(end: WatchEnd) -> Self {
        match end {
            WatchEnd::Early | WatchEnd::Short => RestartCause::EndedEarly,
            WatchEnd::Full => RestartCause::Ended,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Idle => "not started",
            Phase::Listing => "listing",
            Phase::Watching => "watching",
            Phase::Waiting => "backing off",
            Phase::Suspended => "suspended because the resource does not exist",
            Phase::Stopped => "stopped",
        })
    }
}

impl fmt::Display for RelistCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RelistCause::Start => "start",
            RelistCause::Retry => "retry",
            RelistCause::Expired => "expired",
            RelistCause::TooLarge => "too large",
            RelistCause::NotFound => "not found",
            RelistCause::Stuck => "stuck",
            RelistCause::Requested => "requested",
        })
    }
}

impl fmt::Display for RestartCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestartCause::Ended => f.write_str("ended"),
            RestartCause::EndedEarly => f.write_str("ended early"),
            RestartCause::Silent => f.write_str("silent"),
            RestartCause::Requested => f.write_str("requested"),
            RestartCause::Failed(class) => class.fmt(f),
        }
    }
}

impl fmt::Display for ReflectorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lists{}", self.lists, Causes(&self.lists_by_cause))?;
        write!(f, ", {} watches restarted{}", self.restarts.values().sum::<u64>(), Causes(&self.restarts))?;
        if self.cleared {
            f.write_str("\ncleared because the resource does not exist")?;
        }
        if self.repeats + self.undecodable + self.nameless > 0 {
            write!(f, "\n{} undecodable objects, {} without identity", self.undecodable, self.nameless)?;
            write!(f, ", {} repeats", self.repeats)?;
        }
        let Some(error) = &self.last_error else { return Ok(()) };
        let ago = self.last_error_at.map_or(0, |at| at.elapsed().as_secs());
        let state = match (self.failing, self.rejected) {
            (None, _) => "recovered",
            (Some(_), true) => "rejected by the server",
            (Some(_), false) => "failing",
        };
        write!(f, "\n{} errors, {state}; the last {ago} s ago: {error}", self.errors)
    }
}

/// Prints counts by cause in brackets, or an empty text without counts.
struct Causes<'a, C>(&'a BTreeMap<C, u64>);

impl<C: fmt::Display> fmt::Display for Causes<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (cause, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} {cause}", if at == 0 { " (" } else { ", " })?;
        }
        if self.0.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}
