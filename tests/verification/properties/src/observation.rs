//! What can be observed of a server, an informer and its handlers: plain data, small enough to be made at every step.
//!
//! Objects are told apart by numbers that the observer gives out: one for each key, one for each uid, one for each
//! state that was ever written (its value), so that a version that a restored server uses again is another state.

/// The number of a key. Their order is that of the keys.
pub type Key = u32;

/// The number of a handler.
pub type HandlerId = u32;

/// An object in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// Its address.
    pub key: Key,
    /// Its incarnation.
    pub uid: u64,
    /// Its resourceVersion.
    pub version: u64,
    /// Which write it is from.
    pub value: u64,
}

/// What a handler is told, or what the store says has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// An object is new.
    Added {
        /// Its state.
        object: Object,
        /// `is_in_initial_list`.
        initial: bool,
    },
    /// An object has changed, or is shown again by a resync.
    Updated {
        /// The state before.
        old: Object,
        /// The state now.
        new: Object,
    },
    /// An object is gone.
    Deleted {
        /// Its last known state.
        last: Object,
        /// `final_state_unknown`.
        unknown: bool,
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

    /// The state that it leads to; `None` where the object is gone.
    pub fn after(&self) -> Option<Object> {
        match self {
            Event::Added { object, .. } => Some(*object),
            Event::Updated { new, .. } => Some(*new),
            Event::Deleted { .. } => None,
        }
    }

    /// Whether it shows again what is there.
    pub fn is_resync(&self) -> bool {
        matches!(self, Event::Updated { old, new } if old == new)
    }
}

/// How far a cache has come. Within an epoch versions can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Mark {
    /// Counted up when the version may go back.
    pub epoch: u64,
    /// `None` before anything was seen.
    pub version: Option<u64>,
}

/// What a handler finds when it looks into the cache during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct View {
    /// What is cached under the key of the event.
    pub cached: Option<Object>,
    /// What an index finds under the key of the event.
    pub indexed: Option<Object>,
    /// The cache's watermark.
    pub mark: Mark,
    /// The informer says that it is synced.
    pub synced: bool,
}

/// What has moved a cache or a reflector's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It could not be observed.
    Unknown,
    /// Changes and bookmarks.
    Changes,
    /// The end of a relist.
    Relist {
        /// It reused nothing of the cache: the one before had expired or was too large.
        fresh: bool,
    },
}

/// What a cache shows: one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown<'a> {
    /// All objects, by key.
    pub objects: &'a [Object],
    /// The keys whose object is marked stale.
    pub stale: &'a [Key],
    /// The watermark.
    pub mark: Mark,
    /// All that has changed since the last snapshot that was observed, in order; `None` if that was not seen.
    pub events: Option<&'a [Event]>,
    /// What has made it so.
    pub cause: Cause,
    /// Nothing has kept the cache from knowing all up to its watermark: no event was lost on its way, no list was
    /// incomplete since the last complete one, and no restored server has passed the cache's version unnoticed.
    pub exact: bool,
}

/// Something that was seen to happen. Observations are made in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation<'a> {
    /// The server wrote a state.
    Wrote {
        /// The state.
        object: Object,
        /// Clients can decode it.
        decodable: bool,
    },
    /// The server deleted the object, at this version.
    Erased {
        /// Its address.
        key: Key,
        /// The version of the deletion.
        version: u64,
    },
    /// The server's state is again that of this version, and versions after it are used again.
    Restored {
        /// The version.
        version: u64,
    },
    /// The server can't be restored to a state before this version any more.
    Compacted {
        /// The version.
        version: u64,
    },
    /// The reflector begins a list that reuses nothing of the cache. For those who can't observe the causes of
    /// [`Shown`]; others need not say it.
    FreshRelist,
    /// All up to here has left the reflector.
    Position {
        /// Up to where.
        mark: Mark,
        /// What has moved it.
        cause: Cause,
    },
    /// A batch of deltas is applied.
    Batch {
        /// The key of each delta that has one.
        keys: &'a [Key],
    },
    /// This is what the cache shows from now on.
    Cache(Shown<'a>),
    /// A query against what the cache shows now.
    Query {
        /// All that it may find, in the order of keys: what the snapshot of the moment holds, found without the query.
        expected: &'a [Object],
        /// What it found, in the order of keys.
        found: &'a [Object],
    },
    /// The informer says that it is synced.
    InformerSynced,
    /// A handler is registered. What it is shown first is what the cache shows at this moment.
    Joined {
        /// Which.
        handler: HandlerId,
        /// From how many waiting events on its changes are merged.
        mark: usize,
    },
    /// All that is cached is queued for a handler once more. For those who observe the changes of the cache.
    Resynced {
        /// Which.
        handler: HandlerId,
    },
    /// A handler is called.
    Told {
        /// Which.
        handler: HandlerId,
        /// With what.
        event: Event,
        /// What it sees in the cache at this moment, if it looks.
        view: Option<View>,
    },
    /// The call has returned.
    Returned {
        /// Whose.
        handler: HandlerId,
    },
    /// The handler says that it is synced.
    HandlerSynced {
        /// Which.
        handler: HandlerId,
    },
    /// Nothing waits for the handler, and it is not being called.
    Drained {
        /// Which.
        handler: HandlerId,
    },
    /// The handler was removed, and the removal is complete.
    Left {
        /// Which.
        handler: HandlerId,
    },
    /// Faults are over and nothing is on its way: the server has told all, the cache has applied all.
    Quiet,
    /// An object was decoded and is about to be transformed.
    Decoded(Object),
    /// The transform was called with this object.
    Transformed(Object),
    /// The informer was stopped, and the stop has returned. What is left of it:
    Stopped {
        /// Tasks that run.
        tasks: usize,
        /// Connections or requests that are open.
        sockets: usize,
        /// Timers that are armed.
        timers: usize,
    },
}
