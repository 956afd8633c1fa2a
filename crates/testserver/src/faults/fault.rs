//! What can happen to a request.

use std::fmt;

use bytes::Bytes;
use tokio::time::Duration;

use crate::faults::disruption::Disruption;
use crate::status::Status;

/// After how much of an answer's body the connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAfter {
    /// After so many bytes of the body, in the middle of a frame if need be.
    Bytes(usize),
    /// After so many whole frames of a watch. (Of a list: pieces of about 64 KiB.)
    Frames(usize),
}

/// What happens to a request. The variants after [`Fault::Silence`] are for watches and leave other requests alone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// It is refused with this failure, and with `Retry-After` where the failure says so.
    Status(Status),
    /// It is refused as the real server refuses a user without rights.
    Forbidden {
        /// The user's name in the message.
        user: String,
    },
    /// It is refused as priority and fairness refuse one too many: 429 with `Retry-After` in seconds and, instead of a
    /// `Status`, a line of text.
    Throttled {
        /// In seconds.
        retry_after: u32,
    },
    /// It is answered with these bytes.
    Raw {
        /// The HTTP status.
        status: u16,
        /// The header `Content-Type`.
        content_type: String,
        /// The body.
        body: Bytes,
    },
    /// The connection breaks before any header; nothing was done.
    Reset,
    /// It is done, and the connection breaks before any header.
    LoseResponse,
    /// It is accepted and never answered; nothing is done.
    Hang,
    /// It is done, and answered, so much later than it came in.
    Delay(Duration),
    /// It is done at once, and answered so much later.
    LateResponse(Duration),
    /// This happens to the whole server first; then the request is served.
    Disrupt(Disruption),
    /// The answer breaks on the way, after its headers.
    Cut(CutAfter),
    /// The answer arrives in pieces of so many bytes (at least one), each sent on its own.
    Pieces(usize),
    /// A watch is accepted, says nothing and ends when its time is over.
    Silence,
    /// The event with this number is left out; the first has 0. Initial states count, bookmarks don't.
    LoseEvent(usize),
    /// The event with this number comes twice; the first has 0. Initial states count, bookmarks don't.
    RepeatEvent(usize),
    /// The watch ends cleanly after so many frames.
    CloseWatch(usize),
    /// The watch ends with an ERROR event after so many frames.
    ErrorEvent {
        /// Frames before it.
        after: usize,
        /// What the event says.
        status: Status,
    },
    /// The watch ends without a word as soon as more than so many events wait for the client to read on, as the watch
    /// cache ends one whose buffer stays full. What waited is lost to this watch.
    SlowReader(usize),
}

impl Fault {
    /// A refusal by code and reason; `retry_after` in seconds.
    pub fn status(code: u16, reason: &str, retry_after: Option<u32>) -> Self {
        let status = Status::new(code, reason, format!("injected failure: {reason}"));
        Self::Status(match retry_after {
            Some(seconds) => status.retry_after(seconds),
            None => status,
        })
    }

    /// 429 with the reason TooManyRequests, as a kube-apiserver since 1.31 refuses reads of a kind whose watch cache is
    /// not ready: after a start, or right after a CRD was created.
    pub fn initializing(retry_after: u32) -> Self {
        Self::Status(Status::new(429, "TooManyRequests", INITIALIZING).retry_after(retry_after))
    }

    /// 503, as a kube-apiserver before 1.31 says the same.
    pub fn unavailable() -> Self {
        Self::Status(Status::new(503, "ServiceUnavailable", INITIALIZING))
    }

    /// 500 with the reason InternalError, as where storage fails.
    pub fn internal_error(why: &str) -> Self {
        Self::Status(Status::internal_error(why))
    }

    /// HTTP 410 with the reason Expired, as proxies, older and aggregated servers answer a WATCH or LIST whose version
    /// is too old. (kube-apiserver itself accepts the watch and sends an ERROR event.)
    pub fn gone() -> Self {
        Self::Status(Status::expired())
    }

    /// A 200 with these bytes as JSON.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self::Raw { status: 200, content_type: "application/json".into(), body: body.into() }
    }

    /// A watch that is accepted and begins with an ERROR event.
    pub fn error(status: Status) -> Self {
        Self::ErrorEvent { after: 0, status }
    }

    /// What it is, without its numbers.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Status(status) => FaultKind::Status(status.code()),
            Self::Forbidden { .. } => FaultKind::Status(403),
            Self::Throttled { .. } => FaultKind::Status(429),
            Self::Raw { .. } => FaultKind::Raw,
            Self::Reset => FaultKind::Reset,
            Self::LoseResponse => FaultKind::LoseResponse,
            Self::Hang => FaultKind::Hang,
            Self::Delay(_) => FaultKind::Delay,
            Self::LateResponse(_) => FaultKind::LateResponse,
            Self::Disrupt(disruption) => disruption.kind(),
            Self::Cut(_) => FaultKind::Cut,
            Self::Pieces(_) => FaultKind::Pieces,
            Self::Silence => FaultKind::Silence,
            Self::LoseEvent(_) => FaultKind::LoseEvent,
            Self::RepeatEvent(_) => FaultKind::RepeatEvent,
            Self::CloseWatch(_) => FaultKind::CloseWatch,
            Self::ErrorEvent { .. } => FaultKind::ErrorEvent,
            Self::SlowReader(_) => FaultKind::SlowReader,
        }
    }

    /// Whether it happens to watches only.
    pub(crate) fn is_for_watches(&self) -> bool {
        matches!(
            self,
            Self::Silence
                | Self::LoseEvent(_)
                | Self::RepeatEvent(_)
                | Self::CloseWatch(_)
                | Self::ErrorEvent { .. }
                | Self::SlowReader(_)
        )
    }
}

const INITIALIZING: &str = "storage is (re)initializing";

/// What a fault is, without its numbers: for the journal and for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// Refused with this HTTP status.
    Status(u16),
    /// [`Fault::Raw`].
    Raw,
    /// [`Fault::Reset`], or no server was there ([`crate::Outage::Refused`]).
    Reset,
    /// [`Fault::LoseResponse`].
    LoseResponse,
    /// [`Fault::Hang`].
    Hang,
    /// [`Fault::Delay`].
    Delay,
    /// [`Fault::LateResponse`].
    LateResponse,
    /// [`Fault::Cut`].
    Cut,
    /// [`Fault::Pieces`].
    Pieces,
    /// [`Fault::Silence`].
    Silence,
    /// [`Fault::LoseEvent`].
    LoseEvent,
    /// [`Fault::RepeatEvent`].
    RepeatEvent,
    /// [`Fault::CloseWatch`].
    CloseWatch,
    /// [`Fault::ErrorEvent`].
    ErrorEvent,
    /// [`Fault::SlowReader`].
    SlowReader,
    /// [`Disruption::Compact`].
    Compact,
    /// [`Disruption::ExpireLists`].
    ExpireLists,
    /// [`Disruption::ExpireWatches`].
    ExpireWatches,
    /// [`Disruption::FailWatches`].
    FailWatches,
    /// [`Disruption::Restart`].
    Restart,
    /// [`Disruption::Restore`].
    Restore,
    /// [`Disruption::RestoreBumped`].
    RestoreBumped,
    /// [`Disruption::Lag`].
    Lag,
    /// [`Disruption::JumpClock`].
    JumpClock,
}

impl FaultKind {
    /// One of each.
    pub const ALL: [Self; 24] = [
        Self::Status(500),
        Self::Raw,
        Self::Reset,
        Self::LoseResponse,
        Self::Hang,
        Self::Delay,
        Self::LateResponse,
        Self::Cut,
        Self::Pieces,
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

#[cfg(test)]
mod tests {
    use super::FaultKind as K;

    /// The place of a kind among all: whoever adds one has to say it here.
    fn place(kind: K) -> usize {
        match kind {
            K::Status(_) => 0,
            K::Raw => 1,
            K::Reset => 2,
            K::LoseResponse => 3,
            K::Hang => 4,
            K::Delay => 5,
            K::LateResponse => 6,
            K::Cut => 7,
            K::Pieces => 8,
            K::Silence => 9,
            K::LoseEvent => 10,
            K::RepeatEvent => 11,
            K::CloseWatch => 12,
            K::ErrorEvent => 13,
            K::SlowReader => 14,
            K::Compact => 15,
            K::ExpireLists => 16,
            K::ExpireWatches => 17,
            K::FailWatches => 18,
            K::Restart => 19,
            K::Restore => 20,
            K::RestoreBumped => 21,
            K::Lag => 22,
            K::JumpClock => 23,
        }
    }

    #[test]
    fn each_kind_of_fault_is_listed_once() {
        let places: Vec<usize> = K::ALL.into_iter().map(place).collect();
        assert_eq!(places, (0..K::ALL.len()).collect::<Vec<_>>());
    }
}
