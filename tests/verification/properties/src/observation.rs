//! Observations of a server, an informer and its handlers. Observations are plain data, so creating one
//! at each step is cheap.
//!
//! The observer assigns numbers to objects: one to each key, one to each uid, and one to each written
//! state (its value). If a restored server reuses a version, the new state has a different value.

use kube_object::Removal;

/// The number of a key. Numbers and keys have the same order.
pub type Key = u32;

/// The number of a handler.
pub type HandlerId = u32;

/// An object in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// The number of the key.
    pub key: Key,
    /// The number of the uid.
    pub uid: u64,
    /// The resourceVersion.
    pub version: u64,
    /// Which write it is from.
    pub value: u64,
}

/// An event that a handler gets, or a change that the store reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// An object is new.
    Added {
        /// The state of the object.
        object: Object,
        /// `is_in_initial_list`.
        initial: bool,
    },
    /// An object was changed, or a resync delivers its current state.
    Updated {
        /// The state before.
        old: Object,
        /// The state now.
        new: Object,
    },
    /// An object was deleted.
    Deleted {
        /// The last known state.
        last: Object,
        /// Why the object was removed.
        removal: Removal,
    },
}

impl Event {
    /// The key that it is about.
    pub fn key(&self) -> Key {
        match self {
            Event::Added { object, .. } => object.key,
            Event::Updated { new, .. } => new.key,
            Event::Deleted { last, .. } => last.key,
        }
    }

    /// Returns the state after the event, or `None` after a delete.
    pub fn after(&self) -> Option<Object> {
        match self {
            Event::Added { object, .. } => Some(*object),
            Event::Updated { new, .. } => Some(*new),
            Event::Deleted { .. } => None,
        }
    }

    /// Returns whether a resync delivers the current state.
    pub fn is_resync(&self) -> bool {
        matches!(self, Event::Updated { old, new } if old == new)
    }
}

/// The progress of a cache. Versions of the same epoch can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mark {
    /// Incremented when the version may decrease.
    pub epoch: u64,
    /// `None` before the first list or event.
    pub version: Option<u64>,
}

/// The state of the cache during a call of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheView {
    /// The cached object with the key of the event.
    pub cached: Option<Object>,
    /// The object that an index returns for the key of the event.
    pub indexed: Option<Object>,
    /// The cache's watermark.
    pub mark: Mark,
    /// True if the informer reports that it is synced.
    pub synced: bool,
}

/// The cause of a change of a cache or of the position of a reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The cause was not observed.
    Unknown,
    /// Changes and bookmarks.
    Changes,
    /// The end of a relist.
    Relist {
        /// True if the list did not reuse cached objects, because the version before had expired or was
        /// too large.
        fresh: bool,
    },
}

/// The content of a cache: one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheState<'a> {
    /// All objects, by key.
    pub objects: &'a [Object],
    /// The keys whose object is marked stale.
    pub stale: &'a [Key],
    /// The watermark.
    pub mark: Mark,
    /// All changes since the last observed snapshot, in order. `None` if they were not observed.
    pub events: Option<&'a [Event]>,
    /// The cause of the change.
    pub cause: Cause,
    /// The relation of the content to the watermark.
    pub content: Content,
}

/// The relation of the content of a cache to its watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The content is the state of the server at the watermark: no event was lost, each list since the
    /// last complete list was complete, and no restored server reached the version of the cache
    /// undetected.
    AtWatermark,
    /// The last list was incomplete. Each object has its state at the watermark or a later state.
    NotOlder,
    /// The relation is not known.
    Unknown,
}

/// An observed action. Observations are recorded in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation<'a> {
    /// The server wrote a state.
    Written {
        /// The state.
        object: Object,
        /// Clients can decode it.
        decodable: bool,
    },
    /// The server deleted the object, at this version.
    Deleted {
        /// The number of the key.
        key: Key,
        /// The version of the deletion.
        version: u64,
    },
    /// The server has the state of this version again, and reuses later versions.
    Restored {
        /// The version.
        version: u64,
    },
    /// The server can no longer be restored to a state before this version.
    Compacted {
        /// The version.
        version: u64,
    },
    /// The reflector starts a list that does not reuse cached objects. Only observers that cannot
    /// observe the causes of [`CacheState`] report this observation.
    FreshRelist,
    /// All up to here has left the reflector.
    Position {
        /// Up to where.
        mark: Mark,
        /// The cause of the change.
        cause: Cause,
    },
    /// A batch of deltas is applied.
    Batch {
        /// The key of each delta that has a key.
        keys: &'a [Key],
    },
    /// The new content of the cache.
    Cache(CacheState<'a>),
    /// A query on the present content of the cache.
    Query {
        /// The expected results in the order of keys, computed from a snapshot without the query.
        expected: &'a [Object],
        /// The results of the query in the order of keys.
        found: &'a [Object],
    },
    /// The informer reports that it is synced.
    InformerSynced,
    /// A handler is registered. Its initial events are the present content of the cache.
    HandlerAdded {
        /// Which.
        handler: HandlerId,
        /// The number of queued events from which the handler's changes are coalesced.
        mark: usize,
    },
    /// All cached objects are queued for a handler a second time. Only for observers of the changes of
    /// the cache.
    Resynced {
        /// Which.
        handler: HandlerId,
    },
    /// A handler is called.
    Called {
        /// Which.
        handler: HandlerId,
        /// The delivered event.
        event: Event,
        /// The state of the cache during the call, if the handler reads it.
        view: Option<CacheView>,
    },
    /// The call has returned.
    Returned {
        /// The number of the handler.
        handler: HandlerId,
    },
    /// The handler reports that it is synced.
    HandlerSynced {
        /// Which.
        handler: HandlerId,
    },
    /// The queue of the handler is empty, and no call is running.
    Drained {
        /// Which.
        handler: HandlerId,
    },
    /// The handler was removed, and the removal is complete.
    HandlerRemoved {
        /// Which.
        handler: HandlerId,
    },
    /// No fault is active, the server has sent all events, and the cache has applied them.
    Quiet,
    /// An object was decoded and is about to be transformed.
    Decoded(Object),
    /// The transform was called with this object.
    Transformed(Object),
    /// The informer was stopped, and the stop has returned. The fields count the remaining resources.
    Stopped {
        /// Tasks that run.
        tasks: usize,
        /// Connections or requests that are open.
        sockets: usize,
        /// Timers that are armed.
        timers: usize,
    },
}
