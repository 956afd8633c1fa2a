//! What a program and a person can see of a reflector.

use std::{collections::BTreeMap, fmt};

use kube_listwatch::ErrorClass;
use tokio::time::Instant;

use crate::WatchEnd;

/// A reflector's state in numbers and words. Never holds object contents.
///
/// Its `Display` is for people: a line for lists and watches, and one each for what could not be read and for the last
/// failure, where there was any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorStatus {
    /// What it is doing.
    pub phase: Phase,
    /// The resource does not exist and what was cached of it was given up, by
    /// [`ReflectorOptions::clear_when_gone`](crate::ReflectorOptions::clear_when_gone); until the next list is complete.
    pub cleared: bool,
    /// Lists begun, the first one included; the pages of one list count once.
    pub lists: u64,
    /// Lists begun to replace a state that was lost, not to repeat a failed list.
    pub relists: u64,
    /// Why the last list was begun.
    pub last_relist: Option<RelistCause>,
    /// Of the lists, how many were begun for each reason.
    pub lists_by_cause: BTreeMap<RelistCause, u64>,
    /// Of the lists, those asked for as streaming lists.
    pub streams: u64,
    /// Watches begun; one that a streaming list has become is not counted again.
    pub watches: u64,
    /// How many watches came to an end for each reason, failed attempts to open one included. A streaming list counts
    /// once it has become a watch.
    pub restarts: BTreeMap<RestartCause, u64>,
    /// When a watch last brought an object, new or not.
    pub last_event: Option<Instant>,
    /// When a watch last brought a bookmark.
    pub last_bookmark: Option<Instant>,
    /// Events dropped because they had been delivered before.
    pub repeats: u64,
    /// Objects that could not be decoded.
    pub undecodable: u64,
    /// Items of lists that could not even be identified.
    pub nameless: u64,
    /// Requests that failed, or that a deadline has ended.
    pub errors: u64,
    /// The last failure in words, with the URL; kept after recovery.
    pub last_error: Option<String>,
    /// When that was.
    pub last_error_at: Option<Instant>,
    /// The class of the last failure, until the next success.
    pub failing: Option<ErrorClass>,
    /// When the first failure since the last success was, until the next one.
    pub failing_since: Option<Instant>,
}

/// What a reflector is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not started.
    #[default]
    Idle,
    /// Reading a list.
    Listing,
    /// Watching.
    Watching,
    /// Backing off.
    Waiting,
    /// The resource does not exist; looking now and then whether it is back.
    Suspended,
    /// Ended.
    Stopped,
}

/// Why a list was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RelistCause {
    /// The first one.
    Start,
    /// The one before failed or was incomplete.
    Retry,
    /// The server no longer has the version or the page.
    Expired,
    /// The server has not reached the version.
    TooLarge,
    /// The resource had ceased to exist.
    NotFound,
    /// Resuming the watch led nowhere, or there was no version to resume from.
    Stuck,
    /// Somebody asked.
    Asked,
}

/// Why a watch came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RestartCause {
    /// The server ended it at its time.
    Ended,
    /// It ended before its time.
    EndedEarly,
    /// Nothing came any more, and a deadline has ended it.
    Silent,
    /// Somebody asked for a relist.
    Asked,
    /// It failed, or could not be opened.
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
            Phase::Suspended => "suspended, as the resource does not exist",
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
            RelistCause::Asked => "asked",
        })
    }
}

impl fmt::Display for RestartCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RestartCause::Ended => f.write_str("ended"),
            RestartCause::EndedEarly => f.write_str("ended early"),
            RestartCause::Silent => f.write_str("silent"),
            RestartCause::Asked => f.write_str("asked"),
            RestartCause::Failed(class) => class.fmt(f),
        }
    }
}

impl fmt::Display for ReflectorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lists{}", self.lists, Causes(&self.lists_by_cause))?;
        write!(f, ", {} watches restarted{}", self.restarts.values().sum::<u64>(), Causes(&self.restarts))?;
        if self.cleared {
            f.write_str("\ncleared, as the resource does not exist")?;
        }
        if self.repeats + self.undecodable + self.nameless > 0 {
            write!(f, "\n{} undecodable objects, {} without a name", self.undecodable, self.nameless)?;
            write!(f, ", {} repeats", self.repeats)?;
        }
        let Some(error) = &self.last_error else { return Ok(()) };
        let ago = self.last_error_at.map_or(0, |at| at.elapsed().as_secs());
        let lasts = if self.failing.is_some() { "failing" } else { "recovered" };
        write!(f, "\n{} errors, {lasts}; the last {ago} s ago: {error}", self.errors)
    }
}

/// Counts by cause, in brackets; nothing where there are none.
struct Causes<'a, C>(&'a BTreeMap<C, u64>);

impl<C: fmt::Display> fmt::Display for Causes<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (cause, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} {cause}", if at == 0 { " (" } else { ", " })?;
        }
        if self.0.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}
