//! The states, inputs and outputs of the state machine.

use std::time::Duration;

use kube_listwatch::{ErrorClass, ListRequest};
use kube_object::{Delta, ResourceVersion};

use crate::{Deadline, ListPlan, Position, RelistCause};

/// Describes the state of a reflector, with all its data.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum State {
    /// The reflector is not started.
    Idle,
    /// The reflector has requested a page of a list.
    Listing(Listing),
    /// A streaming list is open or requested.
    Streaming(Streaming),
    /// A watch is open or requested.
    Watching(Watching),
    /// The reflector waits for the backoff timer, without an open request.
    Waiting(Waiting),
}

/// Contains the data of [`State::Listing`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listing {
    /// The parameters of the list.
    pub plan: ListPlan,
    /// The resourceVersion of the first page. `None` until the first page is complete.
    pub version: Option<ResourceVersion>,
    /// The continue token of the page that is being requested. `None` for the first page.
    pub token: Option<String>,
    /// The continue token of an earlier page. The reflector compares later tokens with this token, to
    /// detect a cycle of tokens (Brent's algorithm). If the number of pages is a power of two, the
    /// reflector replaces this token by the token of the next page.
    pub earlier: Option<String>,
    /// The number of complete pages.
    pub pages: u32,
    /// The number of pages that the reflector has requested since the last item arrived, without the
    /// first page of the list.
    pub empty_pages: u32,
    /// True while all received items have a readable name.
    pub complete: bool,
}

/// Contains the data of [`State::Streaming`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Streaming {
    /// The parameters of the list.
    pub plan: ListPlan,
    /// True if the server accepted the request, or sent an event.
    pub opened: bool,
    /// True if the program requested a relist during this list. The reflector then lists again after
    /// this list.
    pub relist: bool,
}

/// Contains the data of [`State::Watching`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Watching {
    /// The position up to which the reflector has delivered all events.
    pub position: Position,
    /// True if the server accepted the request, or sent an event.
    pub opened: bool,
    /// True if the reflector delivered an event or a bookmark of this watch. Events that the reflector
    /// dropped do not count.
    pub delivered: bool,
    /// True if this watch received a bookmark. [`Deadline::Bookmark`] then limits the time until the
    /// next event or bookmark.
    pub bookmarked: bool,
}

/// Contains the data of [`State::Waiting`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// The request that follows the delay.
    pub then: AfterBackoff,
    /// True if the reflector waits because the resource does not exist.
    pub suspended: bool,
}

/// Describes the request that follows a backoff.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AfterBackoff {
    /// A list.
    List {
        /// The parameters of the list.
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
    /// The reflector starts with a list.
    Start,
    /// The reflector starts with a watch. An earlier process has delivered all events up to this version.
    Resume(&'a ResourceVersion),
    /// The server returned items of the page that is being requested.
    Items {
        /// True if all these items have a readable name.
        complete: bool,
    },
    /// The page that is being requested is complete.
    PageEnd {
        /// The resourceVersion in the response.
        version: &'a ResourceVersion,
        /// The continue token of the next page. `None` for the last page.
        next: Option<&'a str>,
    },
    /// The server accepted the request of a streaming list or of a watch.
    Opened,
    /// The server returned its current resourceVersion, which [`Output::CheckVersion`] requested.
    ServerVersion(&'a ResourceVersion),
    /// The watch returned an event.
    Event {
        /// The kind of the event.
        kind: EventKind,
        /// The resourceVersion of the event.
        version: &'a ResourceVersion,
    },
    /// The watch closed without an error.
    WatchEnded(WatchEnd),
    /// The open request failed with this class of failure. The duration is the Retry-After of the
    /// response. `None` if the response contains no Retry-After.
    Failed(ErrorClass, Option<Duration>),
    /// The time of this deadline has passed.
    Fired(Deadline),
    /// The program requested a relist, for example because the source lost events.
    ///
    /// If a plain list is open, or if a list follows the current delay, the reflector does not send
    /// another list. If a streaming list is open, the source may have lost events of this list. The
    /// reflector therefore lists again after the streaming list.
    Relist,
    /// The selector of the source changed. If a watch is open or requested, the reflector requests it again
    /// from its position.
    Rewatch,
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

/// Describes how long a watch was open before it closed without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    /// The watch closed within a second. To prevent a loop of requests, the reflector waits for the
    /// backoff before the next request.
    Early,
    /// The watch closed after a second or later, but before its requested duration.
    Short,
    /// The watch stayed open for its requested duration.
    Full,
}

/// Represents an action for the driver. The driver executes the actions of a transition in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Drop the open request and all deadlines, and request a page of a list.
    List {
        /// The request for the page.
        request: ListRequest,
        /// True if the list starts a new epoch, because the server may have lost its history. An equal
        /// resourceVersion then does not prove that a cached object is unchanged.
        fresh: bool,
    },
    /// Drop the open request and all deadlines, and request a streaming list.
    Stream {
        /// The minimum resourceVersion of the list. `None` requests the most recent state.
        not_older_than: Option<ResourceVersion>,
        /// True if the list starts a new epoch, because the server may have lost its history. An equal
        /// resourceVersion then does not prove that a cached object is unchanged.
        fresh: bool,
    },
    /// Drop the open request and all deadlines, and request a watch from this resourceVersion.
    Watch(ResourceVersion),
    /// Drop the open request and all deadlines, and wait for the backoff. The duration is the
    /// Retry-After of a response, which is the minimum delay.
    BackOff(Option<Duration>),
    /// Request the current resourceVersion of the server, while the watch stays open. The next list,
    /// watch or backoff cancels this request.
    CheckVersion,
    /// Start a deadline. If the deadline is already running, restart it.
    Arm(Deadline),
    /// Stop a deadline.
    Disarm(Deadline),
    /// Push the objects or the bookmark of the input to the sink.
    Deliver,
    /// Drop the event of the input. Either the event is out of order, or it is a bookmark that does not
    /// move the position.
    Discard,
    /// Push a delta without an object to the sink.
    Mark(Marker),
    /// Count a started list in the status. The list has this cause.
    Count(RelistCause),
    /// Report an error, because the pages of the list probably never end.
    AbandonPages {
        /// The number of received pages.
        pages: u32,
    },
}

/// Represents a delta that contains no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marker {
    /// The resource does not exist. The receiver deletes all cached objects.
    Clear,
    /// A list starts.
    Begin {
        /// True if the list starts a new epoch, because the server may have lost its history. An equal
        /// resourceVersion then does not prove that a cached object is unchanged.
        fresh: bool,
    },
    /// A list is complete.
    End {
        /// The resourceVersion of the list.
        version: ResourceVersion,
        /// True if all items have a readable name. The receiver then deletes the cached objects that the
        /// list does not contain. If `complete` is false, the receiver keeps these objects.
        complete: bool,
    },
}

impl<T> From<Marker> for Delta<T> {
    fn from(marker: Marker) -> Self {
        match marker {
            Marker::Clear => Delta::Clear,
            Marker::Begin { fresh } => Delta::Begin { without_reuse: fresh },
            Marker::End { version, complete } => Delta::End { version, complete },
        }
    }
}
