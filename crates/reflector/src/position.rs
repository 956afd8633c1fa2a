//! `Position`: the resourceVersion up to which events were delivered.

use kube_object::ResourceVersion;

use crate::{EventKind, ListPlan, ServerLimits};

/// Represents the resourceVersion up to which the reflector has delivered all events. Also contains
/// facts about the requests since the last list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// The resourceVersion up to which the reflector has delivered all events. Each list sets it, and
    /// each delivered event or bookmark can move it.
    pub version: ResourceVersion,
    /// True if an event or a bookmark has moved `version` since the last list.
    pub moved: bool,
    /// True if the last list started a new epoch or replaced a failed request without a delay, and no
    /// watch has stayed open for its requested duration since then. If `version` then expires, the
    /// reflector waits for the backoff before the next list. Otherwise, a server that expires the
    /// resourceVersion of each list would cause a loop of lists.
    pub unstable: bool,
    /// The sum of the weights of the watches since `version` last moved. At a sum of 12 or more, the
    /// reflector relists.
    ///
    /// - A watch has weight 6 if it delivered no event and stayed open for its requested duration.
    /// - A watch has weight 1 if it delivered no event and closed before its requested duration.
    /// - A watch has weight 4 if it failed, or closed within a second.
    pub stall_weight: u8,
    /// True if a watch failed, closed early or sent an event out of order since `version` last moved.
    /// The server may have been restored to an older state. After the server accepts the next watch, the
    /// reflector therefore compares the current resourceVersion of the server with `version`.
    /// This comparison sets the field to false.
    pub check_version: bool,
    /// True if a watch sent an event whose resourceVersion was not higher than `version`, or a bookmark
    /// whose resourceVersion was lower than `version`, since the last list. The reflector discarded this
    /// event, and may have missed a change. Also true if the reflector delivered an event that did not move
    /// the position, because one of them is opaque. A watch from `version` would repeat this event after
    /// later events, and the cache would return to older states. When the watch closes, the reflector
    /// therefore lists.
    pub disordered: bool,
    /// True if an earlier process delivered the events up to a first `version`, and no list has followed. The
    /// next list then starts a new epoch, because it must not rely on this version. It follows an expiry of
    /// the version without a delay.
    pub resumed: bool,
    /// The features of lists that the server does not support, as observed in earlier requests.
    pub limits: ServerLimits,
}

/// Describes a watch without progress, with its weight. The reflector relists at a sum of 12, for
/// example after two silences or three failures.
///
/// Without a relist, two faults would last indefinitely. A server accepts a watch from a future
/// resourceVersion and sends no events. If a server cannot decode an event, each watch fails at this
/// event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StallKind {
    /// The watch failed, or closed within a second.
    Failure = 4,
    /// The watch was open for its full duration and delivered no event.
    Silence = 6,
    /// The watch closed early and delivered no event, possibly because of a proxy.
    ShortSilence = 1,
}

/// The sum of weights that causes a relist.
const STUCK_WEIGHT: u8 = 12;

impl Position {
    /// Returns the position after a complete list.
    pub(crate) fn listed(version: ResourceVersion, plan: &ListPlan) -> Self {
        let &ListPlan { fresh, limits, immediate, .. } = plan;
        Self {
            version,
            moved: false,
            unstable: fresh || immediate,
            stall_weight: 0,
            check_version: false,
            disordered: false,
            resumed: false,
            limits,
        }
    }

    /// Returns the position up to which an earlier process delivered all events.
    pub(crate) fn resumed(version: ResourceVersion) -> Self {
        Self {
            version,
            moved: false,
            unstable: false,
            stall_weight: 0,
            check_version: false,
            disordered: false,
            resumed: true,
            limits: ServerLimits::default(),
        }
    }

    /// Returns the position after a newer event or bookmark.
    pub(crate) fn moved_to(self, version: ResourceVersion) -> Self {
        Self { version, moved: true, stall_weight: 0, check_version: false, ..self }
    }

    /// Returns the position after a watch that was open for its requested duration. The history is then
    /// stable again, and streaming lists are possible again.
    pub(crate) fn lasted(self) -> Self {
        let limits = ServerLimits { no_streaming: false, ..self.limits };
        Self { unstable: false, limits, ..self }
    }

    /// Returns whether a relist may follow an expired version without a delay.
    pub(crate) fn may_expire(&self) -> bool {
        (self.moved || self.resumed) && !self.unstable
    }

    /// Returns the position after a watch without progress.
    pub(crate) fn after(self, watch: StallKind) -> Self {
        Self { stall_weight: self.stall_weight.saturating_add(watch as u8), ..self }
    }

    /// Returns the position after a failure in which the server can have lost its history.
    pub(crate) fn unchecked(self) -> Self {
        Self { check_version: true, ..self }
    }

    /// Returns whether the server at this resourceVersion has not reached the position. If a
    /// resourceVersion is not a number, it cannot be compared.
    pub(crate) fn is_ahead_of(&self, server: &ResourceVersion) -> bool {
        self.version > *server
    }

    /// Returns whether the next request must be a relist, because resumed watches make no progress.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stall_weight >= STUCK_WEIGHT
    }

    /// Returns the position after an event at or below it.
    pub(crate) fn disordered(self) -> Self {
        Self { disordered: true, ..self }.unchecked()
    }

    /// Returns the position after a delivered event that did not move it, because they cannot be compared.
    pub(crate) fn overtaken(self) -> Self {
        Self { disordered: true, ..self }
    }

    /// Returns whether the position can be compared with other resourceVersions, because it is a number.
    pub(crate) fn is_comparable(&self) -> bool {
        !self.version.is_opaque()
    }

    /// Returns whether a server with ordered resourceVersions does not send this event after the
    /// position. Such a server can repeat the position in a bookmark.
    pub(crate) fn is_out_of_order(&self, kind: EventKind, version: &ResourceVersion) -> bool {
        match kind {
            EventKind::Bookmark | EventKind::InitialEnd => self.version > *version,
            EventKind::Added | EventKind::Changed => self.version.at_least(version),
        }
    }

    /// Returns whether an event at `version` moves the position.
    ///
    /// A position that is not a number does not move to a number. The objects of such a server may count
    /// their versions separately, so that later events could have lower numbers.
    pub(crate) fn can_move_to(&self, version: &ResourceVersion) -> bool {
        match (self.version.is_opaque(), version.is_opaque()) {
            (false, false) => self.version < *version,
            (true, true) => version.is_resumable(),
            (true, false) | (false, true) => false,
        }
    }
}
