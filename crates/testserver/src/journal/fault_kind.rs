//! The kinds of faults.

use std::fmt;

/// Identifies a fault or a disruption, without the parameters. The journal and the counts of a plan use
/// this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// A rejection with this HTTP status.
    Status(u16),
    /// Identifies [`Fault::Raw`](crate::Fault::Raw).
    Raw,
    /// Identifies [`Fault::Reset`](crate::Fault::Reset), or a request during [`crate::Outage::Refused`].
    Reset,
    /// Identifies [`Fault::LoseResponse`](crate::Fault::LoseResponse).
    LoseResponse,
    /// Identifies [`Fault::Hang`](crate::Fault::Hang).
    Hang,
    /// Identifies [`Fault::Delay`](crate::Fault::Delay).
    Delay,
    /// Identifies [`Fault::LateResponse`](crate::Fault::LateResponse).
    LateResponse,
    /// Identifies [`Fault::Cut`](crate::Fault::Cut).
    Cut,
    /// Identifies [`Fault::Chunks`](crate::Fault::Chunks).
    Chunks,
    /// Identifies [`Fault::Silence`](crate::Fault::Silence).
    Silence,
    /// Identifies [`Fault::LoseEvent`](crate::Fault::LoseEvent).
    LoseEvent,
    /// Identifies [`Fault::RepeatEvent`](crate::Fault::RepeatEvent).
    RepeatEvent,
    /// Identifies [`Fault::CloseWatch`](crate::Fault::CloseWatch).
    CloseWatch,
    /// Identifies [`Fault::ErrorEvent`](crate::Fault::ErrorEvent).
    ErrorEvent,
    /// Identifies [`Fault::SlowReader`](crate::Fault::SlowReader).
    SlowReader,
    /// Identifies [`Disruption::Compact`](crate::Disruption::Compact).
    Compact,
    /// Identifies [`Disruption::ExpireLists`](crate::Disruption::ExpireLists).
    ExpireLists,
    /// Identifies [`Disruption::ExpireWatches`](crate::Disruption::ExpireWatches).
    ExpireWatches,
    /// Identifies [`Disruption::FailWatches`](crate::Disruption::FailWatches).
    FailWatches,
    /// Identifies [`Disruption::Restart`](crate::Disruption::Restart).
    Restart,
    /// Identifies [`Disruption::Restore`](crate::Disruption::Restore).
    Restore,
    /// Identifies [`Disruption::RestoreBumped`](crate::Disruption::RestoreBumped).
    RestoreBumped,
    /// Identifies [`Disruption::Lag`](crate::Disruption::Lag).
    Lag,
    /// Identifies [`Disruption::JumpClock`](crate::Disruption::JumpClock).
    JumpClock,
}

impl FaultKind {
    /// Contains each kind once. The HTTP status of [`FaultKind::Status`] is 500.
    pub const ALL: [Self; 24] = [
        Self::Status(500),
        Self::Raw,
        Self::Reset,
        Self::LoseResponse,
        Self::Hang,
        Self::Delay,
        Self::LateResponse,
        Self::Cut,
        Self::Chunks,
        Self::Silence,
        Self::LoseEvent,
        Self::RepeatEvent,
        Self::CloseWatch,
        Self::ErrorEvent,
        Self::SlowReader,
        Self::Compact,
        Self::ExpireLists,
        Self::ExpireWatches,
        Self::FailWatches,
        Self::Restart,
        Self::Restore,
        Self::RestoreBumped,
        Self::Lag,
        Self::JumpClock,
    ];
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => write!(f, "{code}"),
            other => write!(f, "{other:?}"),
        }
    }
}
