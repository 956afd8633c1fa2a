//! The states of a reflector, what moves them and what they ask for.

use std::time::Duration;

use kube_listwatch::{ErrorClass, ListRequest};
use kube_object::ResourceVersion;

use crate::{Deadline, ListPlan, Position, RelistCause};

/// What a reflector is doing. The data of a state is all that is known there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing has been asked yet.
    Idle,
    /// A page is being read.
    Listing(Listing),
    /// A streaming list is being read.
    Streaming(Streaming),
    /// A watch is open, or being opened.
    Watching(Watching),
    /// No request is open until the backoff timer fires.
    Waiting(Waiting),
}

/// A list in progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listing {
    /// What is listed.
    pub plan: ListPlan,
    /// The version that the first page gave; `None` while that page is being read.
    pub version: Option<ResourceVersion>,
    /// The token that the page being read was asked for by; `None` for the first.
    pub token: Option<String>,
    /// An earlier one: that which came with the page whose number is the last power of two. Tokens that go round in
    /// circles come to it again.
    pub earlier: Option<String>,
    /// How many pages have been read.
    pub pages: u32,
    /// Each item so far could be identified.
    pub complete: bool,
}

/// A streaming list in progress: a watch that has not yet told the end of the state it began with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Streaming {
    /// What is listed.
    pub plan: ListPlan,
    /// Somebody has asked for a relist since it began.
    pub relist: bool,
}

/// A watch in progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Watching {
    /// Everything up to here has been delivered.
    pub position: Position,
    /// This watch has brought an event or a bookmark that was no repeat.
    pub spoke: bool,
    /// This watch has brought a bookmark, so that more must come.
    pub bookmarked: bool,
    /// The watch began without a version, so the ADDED events at its beginning are the current
    /// state in no order: they are delivered, whatever their versions.
    pub synthetic: bool,
}

/// A pause before the next request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// What is asked next.
    pub then: AfterBackoff,
    /// The resource does not exist: it may come back.
    pub suspended: bool,
}

/// What follows a pause.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AfterBackoff {
    /// This list.
    List {
        /// What is listed.
        plan: ListPlan,
        /// Why.
        cause: RelistCause,
    },
    /// A watch from this position.
    Watch(Position),
}

/// What has happened. Objects stay with the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// Begin.
    Start,
    /// Items of the page being read.
    Items {
        /// All of them could be identified.
        complete: bool,
    },
    /// The page has been read.
    PageEnd {
        /// The version that it gives.
        version: &'a ResourceVersion,
        /// The token of the next page.
        next: Option<&'a str>,
    },
    /// An event of the watch.
    Event {
        /// Which.
        kind: EventKind,
        /// Its version.
        version: &'a ResourceVersion,
    },
    /// The watch ended without an error.
    WatchEnded(WatchEnd),
    /// The open request failed.
    Failed(ErrorClass, Option<Duration>),
    /// A deadline has passed.
    Fired(Deadline),
    /// Somebody asks for a relist, for example because events may have been lost. A list that is
    /// read or waits already is as good: no watch was open since it was decided on. A streaming list
    /// is a watch itself: the relist follows it.
    Relist,
}

/// The kinds of watch events that a reflector tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// ADDED.
    Added,
    /// MODIFIED or DELETED.
    Changed,
    /// BOOKMARK.
    Bookmark,
    /// The BOOKMARK that ends the initial events of a streaming list.
    InitialEnd,
}

/// How long a watch lasted that ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    /// Less than a second: asking again at once could loop.
    Early,
    /// Shorter than the time asked for.
    Short,
    /// The time asked for.
    Full,
}

/// What to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Drop the open request and all deadlines, and ask for a page.
    List {
        /// The page.
        request: ListRequest,
        /// Reuse nothing of the cache.
        fresh: bool,
    },
    /// Drop the open request and all deadlines, and ask for a streaming list.
    Stream {
        /// The state is at least as new as this version; `None` asks for the most recent.
        not_older_than: Option<ResourceVersion>,
        /// Reuse nothing of the cache.
        fresh: bool,
    },
    /// Drop the open request and all deadlines, and watch after this version.
    Watch(ResourceVersion),
    /// Drop the open request and all deadlines, and wait: as long as the backoff says, and no
    /// shorter than this, which is what the server asked for.
    BackOff(Option<Duration>),
    /// Set a deadline, in place of the same one set before.
    Arm(Deadline),
    /// Forget a deadline.
    Disarm(Deadline),
    /// Hand on what has come.
    Deliver,
    /// Drop what has come: it has been delivered before.
    Discard,
    /// Hand this on after what has been delivered before.
    Mark(Marker),
    /// A relist begins, for this reason.
    Count(RelistCause),
}

/// The deltas that are no objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marker {
    /// The resource does not exist: nothing of it is kept.
    Clear,
    /// A relist begins.
    Begin {
        /// Reuse nothing of the cache.
        fresh: bool,
    },
    /// A relist is complete.
    End {
        /// The version of the list.
        version: ResourceVersion,
        /// Each item could be identified, so what was not listed is gone.
        complete: bool,
    },
}
