//! `Position` in the server's history.

use kube_object::ResourceVersion;

use crate::{ListPlan, ServerLimits};

/// Represents a version up to which the reflector delivered all events, with facts about earlier requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Position {
    /// The version of the last list, event or bookmark.
    pub version: ResourceVersion,
    /// True if the reflector delivered an event or a bookmark after the last list.
    pub moved: bool,
    /// Whether the last list followed an expired version or an immediate retry, and no watch lasted
    /// since. If a version expires in this state, the server may expire every version. The next list
    /// then has a delay.
    pub unstable: bool,
    /// The sum of the weights of the watches that stalled at this version. See `StallKind`.
    pub stall_weight: u8,
    /// True if a watch failed after the last event, bookmark or list. The server may have been restored
    /// to an older state since. The next watch then checks the version of the server.
    pub check_version: bool,
    /// The limits of the server that earlier requests showed.
    pub limits: ServerLimits,
}

/// A watch without progress, and its weight. Two silences, three failures, or a combination cause a
/// relist.
///
/// Without a relist, two faults would last indefinitely. A server accepts a watch from a future version
/// and sends no events. If a server cannot decode an event, each watch fails at this event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StallKind {
    /// The watch failed, or closed within a second.
    Failure = 4,
    /// The watch lasted and delivered no event.
    Silence = 6,
    /// The watch closed early and delivered no event, possibly because of a proxy. Twelve of these equal
    /// two silences.
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
            limits,
        }
    }

    /// Returns the position after a newer event or bookmark.
    pub(crate) fn moved_to(self, version: ResourceVersion) -> Self {
        Self { version, moved: true, stall_weight: 0, check_version: false, ..self }
    }

    /// Returns the position after a watch that lasted its requested duration. Earlier failures are
    /// forgotten.
    pub(crate) fn lasted(self) -> Self {
        let limits = ServerLimits { no_streaming: false, ..self.limits };
        Self { unstable: false, limits, ..self }
    }

    /// Returns whether a relist may follow an expired version without a delay.
    pub(crate) fn may_expire(&self) -> bool {
        self.moved && !self.unstable
    }

    /// Returns the position after a watch without progress.
    pub(crate) fn after(self, watch: StallKind) -> Self {
        Self { stall_weight: self.stall_weight.saturating_add(watch as u8), ..self }
    }

    /// Returns the position after a failure in which the server can have lost its history.
    pub(crate) fn unchecked(self) -> Self {
        Self { check_version: true, ..self }
    }

    /// Returns whether the server at this version has not reached the position. Versions that are not
    /// numbers cannot be compared.
    pub(crate) fn is_ahead_of(&self, server: &ResourceVersion) -> bool {
        self.version > *server
    }

    /// Returns whether the next request must be a relist, because resumed watches make no progress.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stall_weight >= STUCK_WEIGHT
    }

    /// Returns whether an event at `version` was already delivered.
    pub(crate) fn has_passed(&self, version: &ResourceVersion) -> bool {
        self.version.at_least(version)
    }
}
