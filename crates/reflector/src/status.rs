//! The status of a reflector.

use std::{collections::BTreeMap, fmt};

use kube_listwatch::ErrorClass;
use tokio::time::Instant;

use crate::WatchEnd;

/// Describes the phase, counts and failures of a reflector. Never contains the text of an object.
///
/// `Display` prints one line with the numbers of lists and watches. Further lines report undecodable
/// objects and the last failure, if there are any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorStatus {
    /// The current phase.
    pub phase: Phase,
    /// Whether the reflector cleared the cache because the resource does not exist. The value is `false`
    /// again after the next complete list. See
    /// [`ReflectorOptions::clear_when_gone`](crate::ReflectorOptions::clear_when_gone).
    pub cleared: bool,
    /// The number of started lists, including the first list. A list with several pages counts once.
    pub lists: u64,
    /// The number of started lists, without lists whose cause is [`RelistCause::Start`] or
    /// [`RelistCause::Retry`].
    pub relists: u64,
    /// The cause of the last list. `None` before the first list.
    pub last_relist: Option<RelistCause>,
    /// The number of lists for each cause.
    pub lists_by_cause: BTreeMap<RelistCause, u64>,
    /// The number of requested streaming lists. `lists` also counts them.
    pub streams: u64,
    /// The number of requested watches. A streaming list that continues as a watch does not count.
    pub watches: u64,
    /// The number of closed watches for each cause, including watches that the server did not accept. A
    /// streaming list counts only if it continued as a watch.
    pub restarts: BTreeMap<RestartCause, u64>,
    /// The number of watch events with an object, including events that the reflector dropped.
    pub events: u64,
    /// The time of the last watch event with an object, including events that the reflector dropped.
    pub last_event: Option<Instant>,
    /// The time of the last bookmark.
    pub last_bookmark: Option<Instant>,
    /// The number of watch events and bookmarks that the reflector dropped. The reflector drops an event
    /// or bookmark if its resourceVersion is not higher than the last delivered resourceVersion.
    pub repeats: u64,
    /// The number of objects in lists and watch events that could not be decoded.
    pub undecodable: u64,
    /// The number of list items without a readable name.
    pub nameless: u64,
    /// The number of failed requests, including timeouts.
    pub errors: u64,
    /// The message of the last failure, with its causes and the URL. A success does not remove the
    /// message.
    pub last_error: Option<String>,
    /// The time of the last failure.
    pub last_error_at: Option<Instant>,
    /// The class of the last failure. `None` if a request has succeeded since the last failure.
    pub failing: Option<ErrorClass>,
    /// Whether the server rejected the last LIST request as invalid (400, 414, 422 or 431), for
    /// example because of an unknown field selector. The reflector still retries the list.
    pub rejected: bool,
    /// The time of the first failure since the last success. `None` if no request is failing.
    pub failing_since: Option<Instant>,
}

/// Describes the phase of a reflector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// The reflector is not started, or it is sharded and has no slots.
    #[default]
    Idle,
    /// A list or a streaming list is open or requested.
    Listing,
    /// A watch is open or requested.
    Watching,
    /// The reflector waits for the backoff.
    Waiting,
    /// The reflector waits because the resource does not exist. After each delay of the backoff, the
    /// reflector lists the resource again.
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
    /// The server rejected the requested resourceVersion or the continue token as expired (410).
    Expired,
    /// The requested resourceVersion was higher than the resourceVersion of the server.
    TooLarge,
    /// A watch failed because the resource did not exist (404).
    NotFound,
    /// Watches could not deliver the current state. Several watches in a row delivered no event or
    /// failed, a watch sent an event out of order, an event could not move the position, or a watch started
    /// without a resourceVersion.
    Stuck,
    /// The program requested a relist.
    Requested,
    /// The program added slots to a sharded informer. The list contains only these slots.
    SlotsGained,
}

/// Describes the reason why a watch closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RestartCause {
    /// The server closed the watch, which had been open for its requested duration.
    Ended,
    /// The server closed the watch without an error, before the requested duration had passed.
    EndedEarly,
    /// The reflector closed the watch, because the watch exceeded a deadline. Either no event or
    /// bookmark arrived in time, or the server did not close the watch in time.
    Silent,
    /// The reflector closed the watch, because the program requested a relist or other slots.
    Requested,
    /// The request of the watch failed, or the open watch failed.
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
            Phase::Suspended => "waiting until the resource exists",
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
            RelistCause::SlotsGained => "slots gained",
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
        write!(f, ", {} watches closed{}", self.restarts.values().sum::<u64>(), Causes(&self.restarts))?;
        if self.cleared {
            f.write_str("\ncleared because the resource does not exist")?;
        }
        if self.repeats + self.undecodable + self.nameless > 0 {
            write!(
                f,
                "\n{} undecodable objects, {} list items without a name",
                self.undecodable, self.nameless
            )?;
            write!(f, ", {} repeated events", self.repeats)?;
        }
        let Some(error) = &self.last_error else { return Ok(()) };
        let ago = self.last_error_at.map_or(0, |at| at.elapsed().as_secs());
        let state = match (self.failing, self.rejected) {
            (None, _) => "recovered",
            (Some(_), true) => "rejected by the server",
            (Some(_), false) => "retrying",
        };
        write!(f, "\n{} failed requests, {state}; last failure {ago} s ago: {error}", self.errors)
    }
}

/// Prints the counts of all causes in brackets, or an empty text if there are no counts.
struct Causes<'a, C>(&'a BTreeMap<C, u64>);

impl<C: fmt::Display> fmt::Display for Causes<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (cause, count)) in self.0.iter().enumerate() {
            write!(f, "{}{cause}: {count}", if at == 0 { " (" } else { ", " })?;
        }
        if self.0.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}
