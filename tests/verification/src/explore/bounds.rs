//! The bounds of a search.

use kube_object::ResourceVersion;

use super::server::Stored;

/// The response of a server to a streaming list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Streams {
    /// The server supports streaming lists.
    Sent,
    /// The server rejects the parameters.
    Refused,
    /// The server handles the request as a plain watch and never sends the final bookmark.
    Ignored,
    /// The reflector does not request streaming lists.
    Unasked,
}

/// The versions that a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Versions {
    /// Each write has a version of one history, and so has each list.
    OneHistory,
    /// Lists have no version. The versions of objects and bookmarks belong to one history.
    NoneInLists,
    /// Lists and bookmarks have no version. The versions of an object count its writes.
    PerObject,
    /// All versions are opaque: texts that are not numbers. All versions belong to one history.
    Opaque,
    /// The versions of lists and bookmarks are opaque. The versions of an object count its writes.
    OpaqueLists,
}

/// The start of an opaque version. The number of the version in the history follows.
pub(super) const OPAQUE: &str = "v";

impl Versions {
    /// Returns whether lists have versions.
    pub(super) fn are_in_lists(self) -> bool {
        !matches!(self, Versions::NoneInLists | Versions::PerObject)
    }

    /// Returns whether the versions of lists cannot be compared.
    pub(super) fn are_opaque_in_lists(self) -> bool {
        matches!(self, Versions::Opaque | Versions::OpaqueLists)
    }

    /// Returns whether the versions of an object count its writes.
    pub(super) fn count_per_object(self) -> bool {
        matches!(self, Versions::PerObject | Versions::OpaqueLists)
    }

    /// Returns the version that a list of this state has.
    pub(super) fn of_list(self, version: u64) -> ResourceVersion {
        if self.are_in_lists() { self.of_bookmark(version) } else { "".into() }
    }

    /// Returns the version that a bookmark after this write has.
    pub(super) fn of_bookmark(self, version: u64) -> ResourceVersion {
        if self.are_opaque_in_lists() { opaque(version) } else { version.into() }
    }

    /// Returns the version that the server sends with this state of an object.
    pub(super) fn of_object(self, stored: &Stored) -> ResourceVersion {
        match self {
            Versions::OneHistory | Versions::NoneInLists => stored.object.version.into(),
            Versions::PerObject | Versions::OpaqueLists => stored.count.into(),
            Versions::Opaque => opaque(stored.object.version),
        }
    }
}

fn opaque(version: u64) -> ResourceVersion {
    ResourceVersion::new(&format!("{OPAQUE}{version}"))
}

/// The maximum number of each action that could otherwise repeat indefinitely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Objects, by name.
    pub objects: u32,
    /// Writes of the server.
    pub changes: u8,
    /// Faults.
    pub faults: u8,
    /// Watches that close early, deadlines that fire early, and requested relists.
    pub times: u8,
    /// Handlers that exist from the start.
    pub handlers: u32,
    /// Handlers that are added late, removed, or resynced.
    pub moves: u8,
    /// Streaming lists.
    pub streams: Streams,
    /// The versions of the server. If they have no order, the server is not restored and repeats no
    /// event: no client can detect an older state then.
    pub versions: Versions,
    /// True if a watch may send events out of order, and may continue after a restore. The server must
    /// have [`Versions::OneHistory`].
    pub unordered: bool,
    /// True if the source consists of functions, which decode each object and report no acceptance of a
    /// request.
    pub functions: bool,
    /// Processes that start with the snapshot of the process before.
    pub restarts: u8,
    /// True if the program may stop the informer.
    pub stops: bool,
    /// True if the first list may return an old state.
    pub stale_start: bool,
    /// Objects in the queue in front of the store.
    pub queue: usize,
    /// The mark of the backlogs.
    pub mark: usize,
    /// Items of a page.
    pub page: u32,
    /// True if an index is queried after each write of the store, in addition to the handlers.
    pub queries: bool,
    /// Other things happen between a handler's call and its return.
    pub slow_calls: bool,
    /// True if handlers receive queued events before all other actions.
    pub prompt_handlers: bool,
    /// True if queued deltas are applied before all other actions.
    pub prompt_store: bool,
}
