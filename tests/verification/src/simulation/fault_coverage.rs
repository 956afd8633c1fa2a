//! The number of times that each fault met each state of a reflector. An empty cell was not simulated.

use std::{collections::BTreeMap, fmt};

use kube_informer::{Phase, ReflectorStatus};
use kube_testserver::{FaultKind, Request, StreamingLists, Verb, WatchPhase};

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimulatedFault {
    /// A request is rejected with 401.
    Unauthorized,
    /// A request is rejected with 403.
    Forbidden,
    /// A request is rejected with 404, although the resource exists.
    NotFound,
    /// A request is rejected with 406.
    NotAcceptable,
    /// A request is rejected with 409.
    Conflict,
    /// A request is rejected with 422.
    Invalid,
    /// A request is rejected with 429 and Retry-After.
    Throttled,
    /// A request is rejected with 500.
    InternalError,
    /// A request is rejected with 503.
    Unavailable,
    /// A request is rejected with HTTP 410.
    HttpGone,
    /// A request is rejected with 504, because its version is too large.
    TooLarge,
    /// The response has an invalid body, a page of a proxy, or a redirect.
    Nonsense,
    /// The connection of a request is reset, or there is no server.
    Reset,
    /// It breaks after the request was served.
    LoseAnswer,
    /// A request gets no response.
    Hang,
    /// A request is served late.
    Delay,
    /// The response of a request is delayed.
    LateAnswer,
    /// A response is truncated before, in or after a frame.
    Cut,
    /// A response arrives in small pieces.
    Pieces,
    /// A watch sends no data.
    Silence,
    /// A watch leaves out an event.
    Lose,
    /// A watch sends an event twice.
    Repeat,
    /// A watch closes early.
    Close,
    /// A watch ends with an ERROR event.
    Error,
    /// A watch closes because the client reads too slowly.
    SlowReader,
    /// A second replica serves the request. It may lag.
    OtherReplica,
    /// Open watches break.
    CutWatches,
    /// Open watches end cleanly.
    ClosedWatches,
    /// Open watches end with an ERROR event of a failing store.
    FailedWatches,
    /// Open watches expire.
    ExpiredWatches,
    /// Open watches leave out their next event.
    LoseNext,
    /// Open watches send their next event twice.
    RepeatNext,
    /// Open watches swap two consecutive events of different objects.
    SwapNext,
    /// Open watches send an invalid event.
    Inject,
    /// A streaming list is rejected with 422.
    StreamsRefused,
    /// A streaming list fails with an ERROR event.
    StreamsFailed,
    /// A streaming list is handled as a plain watch.
    StreamsIgnored,
    /// All history is forgotten.
    Compact,
    /// The history of lists is forgotten.
    ExpireLists,
    /// The history of watches is forgotten.
    ExpireWatches,
    /// The server restarts.
    Restart,
    /// etcd is restored: versions are reused, and watches have a future version.
    Restore,
    /// etcd is restored with its revision bumped.
    RestoreBumped,
    /// The watch cache lags.
    Lag,
    /// The lag of the other replica changes.
    OtherLag,
    /// The server does not accept connections.
    Refused,
    /// The server does not accept connections, and etcd is restored.
    RestoreInOutage,
    /// The server does nothing.
    Frozen,
    /// etcd is restored while an informer waits for the next page of a list.
    RestoreInList,
    /// The clock of the server jumps.
    JumpClock,
    /// It is set.
    SetClock,
    /// An object can't be decoded by the server.
    Corrupt,
    /// The CRD is removed.
    CrdGone,
}

use SimulatedFault as T;

const ALL: [SimulatedFault; 53] = [
    T::Unauthorized,
    T::Forbidden,
    T::NotFound,
    T::NotAcceptable,
    T::Conflict,
    T::Invalid,
    T::Throttled,
    T::InternalError,
    T::Unavailable,
    T::HttpGone,
    T::TooLarge,
    T::Nonsense,
    T::Reset,
    T::LoseAnswer,
    T::Hang,
    T::Delay,
    T::LateAnswer,
    T::Cut,
    T::Pieces,
    T::Silence,
    T::Lose,
    T::Repeat,
    T::Close,
    T::Error,
    T::SlowReader,
    T::OtherReplica,
    T::CutWatches,
    T::ClosedWatches,
    T::FailedWatches,
    T::ExpiredWatches,
    T::LoseNext,
    T::RepeatNext,
    T::SwapNext,
    T::Inject,
    T::StreamsRefused,
    T::StreamsFailed,
    T::StreamsIgnored,
    T::Compact,
    T::ExpireLists,
    T::ExpireWatches,
    T::Restart,
    T::Restore,
    T::RestoreBumped,
    T::Lag,
    T::OtherLag,
    T::Refused,
    T::RestoreInOutage,
    T::Frozen,
    T::RestoreInList,
    T::JumpClock,
    T::SetClock,
    T::Corrupt,
    T::CrdGone,
];

/// The state of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReflectorState {
    /// It reads a page of a list.
    Listing,
    /// The reflector reads a streaming list.
    Streaming,
    /// It watches.
    Watching,
    /// The reflector backs off.
    Waiting,
    /// It backs off, as the resource does not exist.
    Suspended,
}

use ReflectorState as S;

const STATES: [ReflectorState; 5] = [S::Listing, S::Streaming, S::Watching, S::Waiting, S::Suspended];

impl ReflectorState {
    /// Returns the state of a reflector with this last request.
    pub(super) fn of(status: &ReflectorStatus, last: Option<&Request>) -> Option<Self> {
        match status.phase {
            Phase::Listing => last.and_then(Self::asking),
            Phase::Watching => Some(S::Watching),
            Phase::Waiting => Some(S::Waiting),
            Phase::Suspended => Some(S::Suspended),
            Phase::Idle | Phase::Stopped => None,
        }
    }

    /// Returns the state of a reflector when the fault of this request takes effect.
    pub(super) fn struck(request: &Request) -> Option<Self> {
        let asking = Self::asking(request)?;
        let at_a_frame = matches!(
            request.fault?,
            FaultKind::Cut
                | FaultKind::LoseEvent
                | FaultKind::RepeatEvent
                | FaultKind::CloseWatch
                | FaultKind::ErrorEvent
                | FaultKind::SlowReader
        );
        match request.fault_during {
            _ if !at_a_frame || asking == S::Listing => Some(asking),
            Some(WatchPhase::Events) => Some(S::Watching),
            Some(WatchPhase::InitialState) => Some(asking),
            None => None,
        }
    }

    /// Returns the state of a reflector that sends this request.
    pub(super) fn asking(request: &Request) -> Option<Self> {
        match request.info.verb {
            Verb::List => Some(S::Listing),
            Verb::Watch if request.query.contains("sendInitialEvents=true") => Some(S::Streaming),
            Verb::Watch => Some(S::Watching),
            _ => None,
        }
    }
}

impl SimulatedFault {
    /// Returns the fault kind of a request fault, or `None` for kinds that the simulation does not
    /// inject into requests.
    pub(super) fn of(fault: FaultKind) -> Option<Self> {
        Some(match fault {
            FaultKind::Status(401) => T::Unauthorized,
            FaultKind::Status(403) => T::Forbidden,
            FaultKind::Status(404) => T::NotFound,
            FaultKind::Status(406) => T::NotAcceptable,
            FaultKind::Status(409) => T::Conflict,
            FaultKind::Status(422) => T::Invalid,
            FaultKind::Status(504) => T::TooLarge,
            FaultKind::Status(429) => T::Throttled,
            FaultKind::Status(500) => T::InternalError,
            FaultKind::Status(503) => T::Unavailable,
            FaultKind::Status(410) => T::HttpGone,
            FaultKind::Raw => T::Nonsense,
            FaultKind::Reset => T::Reset,
            FaultKind::LoseResponse => T::LoseAnswer,
            FaultKind::Hang => T::Hang,
            FaultKind::Delay => T::Delay,
            FaultKind::LateResponse => T::LateAnswer,
            FaultKind::Cut => T::Cut,
            FaultKind::Chunks => T::Pieces,
            FaultKind::Silence => T::Silence,
            FaultKind::LoseEvent => T::Lose,
            FaultKind::RepeatEvent => T::Repeat,
            FaultKind::CloseWatch => T::Close,
            FaultKind::ErrorEvent => T::Error,
            FaultKind::SlowReader => T::SlowReader,
            FaultKind::Compact => T::Compact,
            FaultKind::ExpireLists => T::ExpireLists,
            FaultKind::ExpireWatches => T::ExpireWatches,
            FaultKind::Restart => T::Restart,
            FaultKind::Lag => T::Lag,
            FaultKind::JumpClock => T::JumpClock,
            FaultKind::FailWatches => T::ExpiredWatches,
            _ => return None,
        })
    }

    /// Returns the reason why this kind of fault is not injected into requests.
    #[cfg(test)]
    fn is_not_given(fault: FaultKind) -> Option<&'static str> {
        match fault {
            FaultKind::Restore | FaultKind::RestoreBumped => {
                Some("a restore requires a version that the simulation chooses")
            }
            _ => None,
        }
    }

    /// Returns the kind of a missing support for streaming lists.
    pub(super) fn of_streams(how: StreamingLists) -> Option<Self> {
        match how {
            StreamingLists::Served => None,
            StreamingLists::Refused => Some(T::StreamsRefused),
            StreamingLists::ErrorEvent => Some(T::StreamsFailed),
            StreamingLists::Ignored => Some(T::StreamsIgnored),
        }
    }

    /// Returns the reason why this fault cannot meet a reflector in this state, or `None` otherwise.
    fn cannot_meet(self, state: ReflectorState) -> Option<&'static str> {
        let no_request = matches!(state, S::Waiting | S::Suspended);
        match self {
            T::StreamsRefused | T::StreamsFailed | T::StreamsIgnored if state != S::Streaming => {
                Some("no streaming list is requested")
            }
            _ if self <= T::Inject && no_request => Some("no request is open"),
            T::Silence | T::Lose | T::Repeat | T::Close | T::Error | T::SlowReader if state == S::Listing => {
                Some("the fault affects watches")
            }
            _ if (T::CutWatches..=T::Inject).contains(&self) && state == S::Listing => {
                Some("no watch is open")
            }
            T::Lose | T::LoseNext | T::SwapNext if state == S::Streaming => Some("no client can see it"),
            T::RestoreInList if state != S::Listing => Some("no list is read"),
            _ => None,
        }
    }
}

/// How often each fault occurred in each state of a reflector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCoverage(BTreeMap<(SimulatedFault, ReflectorState), u64>);

impl FaultCoverage {
    pub(super) fn count(&mut self, fault: SimulatedFault, state: ReflectorState) {
        *self.0.entry((fault, state)).or_default() += 1;
    }

    /// Adds the numbers of a second run.
    pub fn add(&mut self, other: &Self) {
        for (cell, count) in &other.0 {
            *self.0.entry(*cell).or_default() += count;
        }
    }

    /// Returns the possible cells without a number.
    #[must_use]
    pub fn missing(&self) -> Vec<(SimulatedFault, ReflectorState)> {
        let cells = ALL.iter().flat_map(|fault| STATES.map(|state| (*fault, state)));
        cells.filter(|cell| cell.0.cannot_meet(cell.1).is_none() && !self.0.contains_key(cell)).collect()
    }
}

impl fmt::Display for FaultCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<16}", "")?;
        STATES.iter().try_for_each(|state| write!(f, "{:>11}", format!("{state:?}").to_lowercase()))?;
        for fault in ALL {
            write!(f, "\n{:<16}", format!("{fault:?}"))?;
            for state in STATES {
                match (self.0.get(&(fault, state)), fault.cannot_meet(state)) {
                    (Some(count), _) => write!(f, "{count:>11}")?,
                    (None, Some(_)) => write!(f, "{:>11}", "-")?,
                    (None, None) => write!(f, "{:>11}", "MISSING")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_fault_has_a_row_or_a_reason() {
        for kind in FaultKind::ALL {
            let (row, reason) = (SimulatedFault::of(kind), SimulatedFault::is_not_given(kind));
            assert!(row.is_some() != reason.is_some(), "{kind}: {row:?}, {reason:?}");
        }
    }

    #[test]
    fn each_row_is_printed_once() {
        assert!(ALL.is_sorted_by(|one, next| one < next));
        assert_eq!(ALL.last(), Some(&T::CrdGone));
        assert_eq!(ALL.len(), T::CrdGone as usize + 1);
    }
}
