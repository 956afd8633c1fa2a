//! The default searches. They cover all orders of actions within small bounds, and wider bounds in
//! which one side acts immediately.

use super::{Bounds, Streams, Versions};

/// A search.
pub struct Scope {
    /// The name on the command line.
    pub name: &'static str,
    /// The bounds of the search.
    pub bounds: Bounds,
}

/// All kinds of actions, with a small number of actions per kind.
pub(super) const ALL: Bounds = Bounds {
    objects: 2,
    handlers: 2,
    changes: 1,
    faults: 1,
    times: 1,
    moves: 1,
    streams: Streams::Sent,
    versions: Versions::OneHistory,
    unordered: false,
    functions: false,
    restarts: 0,
    stops: false,
    stale_start: true,
    queue: 2,
    mark: 1,
    page: 1,
    queries: true,
    slow_calls: true,
    prompt_handlers: false,
    prompt_store: false,
};

/// The tasks of the client act immediately, so the server can perform more actions.
const PROTOCOL: Bounds = Bounds {
    changes: 3,
    faults: 3,
    moves: 0,
    slow_calls: false,
    prompt_handlers: true,
    prompt_store: true,
    ..ALL
};

/// A server whose lists have no version.
const VERSIONLESS: Bounds = Bounds { faults: 2, streams: Streams::Unasked, ..PROTOCOL };

/// A process that starts with the snapshot of an earlier process, at any time.
const RESTARTS: Bounds = Bounds { restarts: 1, changes: 2, faults: 1, handlers: 1, times: 0, ..PROTOCOL };

/// Requests that close repeatedly. They must not cause a request storm.
const ENDINGS: Bounds = Bounds { changes: 1, faults: 2, times: 12, ..PROTOCOL };

const fn scope(name: &'static str, bounds: Bounds) -> Scope {
    Scope { name, bounds }
}

/// The searches, in the order in which they are made.
pub const SCOPES: [Scope; 27] = [
    scope("everything-streams", ALL),
    scope("everything-streams-refused", Bounds { streams: Streams::Refused, ..ALL }),
    scope("everything-streams-ignored", Bounds { streams: Streams::Ignored, ..ALL }),
    scope("everything-lists", Bounds { streams: Streams::Unasked, ..ALL }),
    scope("everything-two-changes", Bounds { changes: 2, ..ALL }),
    scope("everything-two-faults", Bounds { faults: 2, ..ALL }),
    scope("everything-two-moves", Bounds { moves: 2, ..ALL }),
    scope(
        "queue",
        Bounds { changes: 2, faults: 2, moves: 0, slow_calls: false, prompt_handlers: true, ..ALL },
    ),
    scope("protocol-streams", PROTOCOL),
    scope("protocol-streams-refused", Bounds { streams: Streams::Refused, ..PROTOCOL }),
    scope("protocol-lists", Bounds { streams: Streams::Unasked, ..PROTOCOL }),
    scope("endings-streams", ENDINGS),
    scope("endings-streams-refused", Bounds { streams: Streams::Refused, ..ENDINGS }),
    scope("endings-lists", Bounds { streams: Streams::Unasked, ..ENDINGS }),
    scope("five-changes", Bounds { changes: 5, times: 0, ..PROTOCOL }),
    scope("no-list-versions", Bounds { versions: Versions::NoneInLists, ..VERSIONLESS }),
    scope("versions-per-object", Bounds { versions: Versions::PerObject, ..VERSIONLESS }),
    scope(
        "no-list-versions-streams-ignored",
        Bounds { versions: Versions::NoneInLists, streams: Streams::Ignored, faults: 1, ..VERSIONLESS },
    ),
    scope("opaque-versions", Bounds { versions: Versions::Opaque, faults: 2, ..PROTOCOL }),
    scope("opaque-list-versions", Bounds { versions: Versions::OpaqueLists, faults: 2, ..PROTOCOL }),
    scope("events-out-of-order", Bounds { unordered: true, faults: 2, ..PROTOCOL }),
    scope("functions", Bounds { functions: true, streams: Streams::Unasked, ..ALL }),
    scope(
        "busy-streams-ignored",
        Bounds { changes: 5, faults: 0, times: 0, streams: Streams::Ignored, ..PROTOCOL },
    ),
    scope("restarts-streams", RESTARTS),
    scope("restarts-lists", Bounds { streams: Streams::Unasked, changes: 3, ..RESTARTS }),
    scope("stops", Bounds { stops: true, faults: 0, ..ALL }),
    scope(
        "delivery",
        Bounds { handlers: 1, changes: 4, faults: 0, times: 0, moves: 2, prompt_store: true, ..ALL },
    ),
];
