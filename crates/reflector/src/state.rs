//! The states, inputs and outputs of the state machine.

use std::time::Duration;

use kube_listwatch::{ErrorClass, ListRequest};
use kube_object::ResourceVersion;

use crate::{Deadline, ListPlan, Position, RelistCause};

/// Describes the state of a reflector, with all its data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum State {
    /// The reflector is not started.
    Idle,
    /// A page of a list is open.
    Listing(Listing),
    /// A streaming list is open.
    Streaming(Streaming),
    /// A watch is open or opening.
    Watching(Watching),
    /// The reflector waits for the backoff timer, without an open request.
    Waiting(Waiting),
}

/// Contains the data of [`State::Listing`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listing {
    /// The requested list.
    pub plan: ListPlan,
    /// The version of the first page. `None` until that page is complete.
    pub version: Option<ResourceVersion>,
    /// The continue token of the open page. `None` for the first page.
    pub token: Option<String>,
    /// An earlier token, to detect tokens that repeat in a cycle. It is replaced whenever the number of
    /// pages is a power of two (Brent's algorithm).
    pub earlier: Option<String>,
    /// The number of complete pages.
    pub pages: u32,
    /// True while all items have an identity.
    pub complete: bool,
}

/// Contains the data of [`State::Streaming`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Streaming {
    /// The requested list.
    pub plan: ListPlan,
    /// True if the server accepted the request, or sent an event.
    pub opened: bool,
    /// True if a relist was requested during this list.
    pub relist: bool,
}

/// Contains the data of [`State::Watching`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Watching {
    /// The reflector delivered all events up to this position.
    pub position: Position,
    /// True if this watch delivered an event or a bookmark. Repeats do not count.
    pub delivered: bool,
    /// True if this watch received a bookmark. The next event must then arrive before the bookmark deadline.
    pub bookmarked: bool,
}

/// Contains the data of [`State::Waiting`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// The next request.
    pub then: AfterBackoff,
    /// Whether the resource does not exist.
    pub suspended: bool,
}

/// Describes the request after a backoff.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AfterBackoff {
    /// A list.
    List {
        /// The requested list.
        plan: ListPlan,
        /// The reason for the list.
        cause: RelistCause,
    },
    /// A watch from a position.
    Watch(Position),
}

/// Represents an input of the state machine. Inputs do not contain objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// The reflector starts.
    Start,
    /// The open page returned items.
    Items {
        /// True if all these items have an identity.
        complete: bool,
    },
    /// The open page is complete.
    PageEnd {
        /// The version of the page.
        version: &'a ResourceVersion,
        /// The token of the next page.
        next: Option<&'a str>,
    },
    /// The server accepted the request of a streaming list or of a watch.
    Opened,
    /// The current version of the server, after [`Output::CheckVersion`].
    ServerVersion(&'a ResourceVersion),
    /// The watch returned an event.
    Event {
        /// The kind of the event.
        kind: EventKind,
        /// The version of the event.
        version: &'a ResourceVersion,
    },
    /// The watch closed without an error.
    WatchEnded(WatchEnd),
    /// The open request failed. The duration is the Retry-After of the response.
    Failed(ErrorClass, Option<Duration>),
    /// A deadline fired.
    Fired(Deadline),
    /// A relist was requested, for example because the source lost events. An open or planned list
    /// satisfies the request, because no watch was open since its decision. A streaming list does not
    /// satisfy the request, because it is a watch. The relist follows it.
    Relist,
}

/// Describes the kind of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// An ADDED event.
    Added,
    /// A MODIFIED or DELETED event.
    Changed,
    /// A BOOKMARK event.
    Bookmark,
    /// The BOOKMARK event after the initial events of a streaming list.
    InitialEnd,
}

/// Describes the duration of a watch that closed without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    /// Less than a second. An immediate request could cause a loop.
    Early,
    /// Less than the requested duration.
    Short,
    /// The requested duration.
    Full,
}

/// Represents an action for the driver. The driver executes the actions in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Drop the open request and all deadlines, and request a page.
    List {
        /// The page.
        request: ListRequest,
        /// True if the list starts a new epoch, so cached versions are not compared.
        fresh: bool,
    },
    /// Drop the open request and all deadlines, and request a streaming list.
    Stream {
        /// The minimum version of the state. `None` requests the most recent state.
        not_older_than: Option<ResourceVersion>,
        /// True if the list starts a new epoch, so cached versions are not compared.
        fresh: bool,
    },
    /// Drop the open request and all deadlines, and watch after this version.
    Watch(ResourceVersion),
    /// Drop the open request and all deadlines, and wait for the backoff. The duration is the minimum
    /// delay, from Retry-After.
    BackOff(Option<Duration>),
    /// Request the current version of the server, beside the open watch. A later request cancels it.
    CheckVersion,
    /// Set a deadline. Replaces its earlier time.
    Arm(Deadline),
    /// Remove a deadline.
    Disarm(Deadline),
    /// Deliver the input.
    Deliver,
    /// Drop the input, because it is a repeat.
    Discard,
    /// Push a delta without an object.
    Mark(Marker),
    /// Count a list with this cause.
    Count(RelistCause),
}

/// Represents a delta without an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marker {
    /// The resource does not exist, and its cached objects are deleted.
    Clear,
    /// A list starts.
    Begin {
        /// True if the list starts a new epoch, so cached versions are not compared.
        fresh: bool,
    },
    /// A list is complete.
    End {
        /// The version of the list.
        version: ResourceVersion,
        /// True if all items have an identity. If so, objects that are not listed are deleted.
        complete: bool,
    },
}
