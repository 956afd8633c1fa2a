//! The hazards, and the points at which they happen.

use fastrand::Rng;

use crate::faults::Fault;

/// Identifies a kind of event that a chaos test injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Hazard {
    /// The process is killed before a request, between a request and its response, or at another time.
    Kill,
    /// Another candidate acquires each Lease that has a holder, and never renews it.
    LostLease,
    /// All watches end with an ERROR event, and the client must list again.
    ExpiredWatches,
    /// The connections of all watches break.
    BrokenWatches,
    /// Another client annotates an object immediately before the operator writes it. A write with a
    /// resourceVersion then fails with a conflict.
    Conflict,
    /// A request fails, and the server does not execute it.
    FailedRequest,
    /// The server executes a request, and the connection breaks before the response.
    LostResponse,
    /// Watches, and lists at resourceVersion 0, return a stale state, which lacks the last 1 to 16 writes.
    /// The state remains stale until all faults stop.
    StaleCache,
}

impl Hazard {
    pub(super) const ALL: [Self; 8] = [
        Self::Kill,
        Self::LostLease,
        Self::ExpiredWatches,
        Self::BrokenWatches,
        Self::Conflict,
        Self::FailedRequest,
        Self::LostResponse,
        Self::StaleCache,
    ];
}

/// The side of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// An event at a request.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Step,
    Kill(Side),
    Conflict,
    Fail(Fault),
    /// Other hazards happen before a request.
    Other(Hazard),
}

impl Action {
    pub(super) fn draw(hazard: Hazard, rng: &mut Rng) -> Self {
        match hazard {
            Hazard::Kill => Self::Kill(if rng.bool() { Side::Before } else { Side::After }),
            Hazard::Conflict => Self::Conflict,
            Hazard::LostResponse => Self::Fail(Fault::LoseResponse),
            Hazard::FailedRequest => Self::Fail(match rng.u8(..4) {
                0 => Fault::internal_error("etcdserver: request timed out"),
                1 => Fault::unavailable(),
                2 => Fault::Throttled { retry_after: 1 },
                _ => Fault::Reset,
            }),
            other => Self::Other(other),
        }
    }
}

/// An action that waits for a request.
#[derive(Clone, Debug)]
pub(super) struct Armed {
    /// The number of earlier requests that the action skips.
    pub skip: u64,
    /// True if the action also counts requests for Leases. An idle leader sends only such requests.
    pub counts_leases: bool,
    pub action: Action,
}
