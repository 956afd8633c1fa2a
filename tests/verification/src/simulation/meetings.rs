//! Which trouble has met a reflector in which state, and how often: an empty cell is something that was not simulated.

use std::{collections::BTreeMap, fmt};

use kube_informer::{Phase, ReflectorStatus};
use kube_testserver::{FaultKind, Request, StreamingLists, Verb, WatchPhase};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// A request is refused with 401.
    Unauthorized,
    /// A request is refused with 403.
    Forbidden,
    /// A request is refused with 404, though the resource is there.
    NotFound,
    /// A request is refused with 406.
    NotAcceptable,
    /// A request is refused with 409.
    Conflict,
    /// A request is refused with 422.
    Invalid,
    /// A request is refused with 429 and Retry-After.
    Throttled,
    /// A request is refused with 500.
    InternalError,
    /// A request is refused with 503.
    Unavailable,
    /// A request is refused with HTTP 410.
    HttpGone,
    /// A request is refused with 504, its version being too large.
    TooLarge,
    /// A request is answered with something else: a body that is none, a page, a redirect.
    Nonsense,
    /// The connection of a request breaks; also where there is no server.
    Reset,
    /// It breaks after the request was served.
    LoseAnswer,
    /// A request is never answered.
    Hang,
    /// A request is served late.
    Delay,
    /// A request is served, and answered late.
    LateAnswer,
    /// An answer breaks before, in or after a frame.
    Cut,
    /// An answer comes in pieces.
    Pieces,
    /// A watch says nothing.
    Silence,
    /// A watch leaves out an event.
    Lose,
    /// A watch tells an event twice.
    Repeat,
    /// A watch ends early.
    Close,
    /// A watch ends with an ERROR event.
    Error,
    /// A watch ends because it was not read.
    SlowReader,
    /// A request is answered by another replica, which may lag.
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
    /// Open watches tell their next event twice.
    RepeatNext,
    /// Open watches say what is no event.
    Inject,
    /// A streaming list is refused with 422.
    StreamsRefused,
    /// A streaming list is refused by an ERROR event.
    StreamsFailed,
    /// A streaming list is taken for a watch.
    StreamsIgnored,
    /// All history is forgotten.
    Compact,
    /// The history of lists is forgotten.
    ExpireLists,
    /// The history of watches is forgotten.
    ExpireWatches,
    /// The server starts anew.
    Restart,
    /// etcd is restored: versions come again, watches are at a version of the future.
    Restore,
    /// etcd is restored with its revision bumped.
    RestoreBumped,
    /// The watch cache lags.
    Lag,
    /// That of the other replica does.
    OtherLag,
    /// The server is not there.
    Refused,
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

use Trouble as T;

const ALL: [Trouble; 51] = [
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
    T::Frozen,
    T::RestoreInList,
    T::JumpClock,
    T::SetClock,
    T::Corrupt,
    T::CrdGone,
];

/// What the reflector is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReflectorState {
    /// It reads a page of a list.
    Listing,
    /// It reads a streaming list.
    Streaming,
    /// It watches.
    Watching,
    /// It backs off.
    Waiting,
    /// It backs off, as the resource does not exist.
    Suspended,
}

use ReflectorState as S;

const STATES: [ReflectorState; 5] = [S::Listing, S::Streaming, S::Watching, S::Waiting, S::Suspended];

impl ReflectorState {
    /// What a reflector does whose last request is this one.
    pub(super) fn of(status: &ReflectorStatus, last: Option<&Request>) -> Option<Self> {
        match status.phase {
            Phase::Listing => last.and_then(Self::asking),
            Phase::Watching => Some(S::Watching),
            Phase::Waiting => Some(S::Waiting),
            Phase::Suspended => Some(S::Suspended),
            Phase::Idle | Phase::Stopped => None,
        }
    }

    /// What a reflector does when the fault of this request takes effect, if it has.
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

    /// What a reflector does that sends this request.
    pub(super) fn asking(request: &Request) -> Option<Self> {
        match request.info.verb {
            Verb::List => Some(S::Listing),
            Verb::Watch if request.query.contains("sendInitialEvents=true") => Some(S::Streaming),
            Verb::Watch => Some(S::Watching),
            _ => None,
        }
    }
}

impl Trouble {
    /// Of a fault that a request has met; `None` of those that no request is given here.
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

    /// Why no request is given a fault of this kind.
    #[cfg(test)]
    fn is_not_given(fault: FaultKind) -> Option<&'static str> {
        match fault {
            FaultKind::Restore | FaultKind::RestoreBumped => {
                Some("whoever restores the server here has to know to which version")
            }
            _ => None,
        }
    }

    /// Of a way not to support a streaming list.
    pub(super) fn of_streams(how: StreamingLists) -> Option<Self> {
        match how {
            StreamingLists::Served => None,
            StreamingLists::Refused => Some(T::StreamsRefused),
            StreamingLists::ErrorEvent => Some(T::StreamsFailed),
            StreamingLists::Ignored => Some(T::StreamsIgnored),
        }
    }

    /// Why this can't meet a reflector in this state; `None` where it can.
    fn cannot_meet(self, state: ReflectorState) -> Option<&'static str> {
        let no_request = matches!(state, S::Waiting | S::Suspended);
        match self {
            T::StreamsRefused | T::StreamsFailed | T::StreamsIgnored if state != S::Streaming => {
                Some("nobody asks for a streaming list")
            }
            _ if self <= T::Inject && no_request => Some("no request is open"),
            T::Silence | T::Lose | T::Repeat | T::Close | T::Error | T::SlowReader if state == S::Listing => {
                Some("it happens to watches")
            }
            _ if (T::CutWatches..=T::Inject).contains(&self) && state == S::Listing => {
                Some("no watch is open")
            }
            T::Lose | T::LoseNext if state == S::Streaming => Some("no client can see it"),
            T::RestoreInList if state != S::Listing => Some("no list is read"),
            _ => None,
        }
    }
}

/// How often each trouble has met a reflector in each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meetings(BTreeMap<(Trouble, ReflectorState), u64>);

impl Meetings {
    pub(super) fn count(&mut self, trouble: Trouble, state: ReflectorState) {
        *self.0.entry((trouble, state)).or_default() += 1;
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (cell, count) in &other.0 {
            *self.0.entry(*cell).or_default() += count;
        }
    }

    /// The cells that could have a number and have none.
    #[must_use]
    pub fn missing(&self) -> Vec<(Trouble, ReflectorState)> {
        let cells = ALL.iter().flat_map(|trouble| STATES.map(|state| (*trouble, state)));
        cells.filter(|cell| cell.0.cannot_meet(cell.1).is_none() && !self.0.contains_key(cell)).collect()
    }
}

impl fmt::Display for Meetings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<16}", "")?;
        STATES.iter().try_for_each(|state| write!(f, "{:>11}", format!("{state:?}").to_lowercase()))?;
        for trouble in ALL {
            write!(f, "\n{:<16}", format!("{trouble:?}"))?;
            for state in STATES {
                match (self.0.get(&(trouble, state)), trouble.cannot_meet(state)) {
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
            let (row, reason) = (Trouble::of(kind), Trouble::is_not_given(kind));
            assert!(row.is_some() != reason.is_some(), "{kind}: {row:?}, {reason:?}");
        }
    }

    #[test]
    fn each_row_is_shown_once() {
        assert!(ALL.is_sorted_by(|one, next| one < next));
        assert_eq!(ALL.last(), Some(&T::CrdGone));
        assert_eq!(ALL.len(), T::CrdGone as usize + 1);
    }
}
