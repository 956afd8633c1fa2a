//! The faults of one request.

use bytes::Bytes;
use tokio::time::Duration;

use crate::faults::disruption::Disruption;
use crate::journal::FaultKind;
use crate::status::Status;

/// Selects the part of a response body that is sent before the connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAfter {
    /// Sends this number of bytes, and then breaks the connection, even within a frame.
    Bytes(usize),
    /// Sends this number of complete watch frames, and then breaks the connection. For a list, a frame
    /// is a chunk of about 64 KiB.
    Frames(usize),
}

/// Describes a fault of one request. [`Fault::Silence`] and the variants after it affect only watches.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// Rejects the request with this status. If the status contains a delay, also sends the header
    /// `Retry-After`.
    Status(Status),
    /// Rejects the request with the 403 response of kube-apiserver for a user without rights.
    Forbidden {
        /// The name of the user in the error message.
        user: String,
    },
    /// Rejects the request like API priority and fairness. The response is 429 with `Retry-After`, and
    /// its body is a line of text instead of a `Status`.
    Throttled {
        /// The value of `Retry-After`, in seconds.
        retry_after: u32,
    },
    /// Sends these bytes as the response. The request is not executed.
    Raw {
        /// The HTTP status.
        status: u16,
        /// The header `Content-Type`.
        content_type: String,
        /// The body.
        body: Bytes,
    },
    /// Breaks the connection before the response headers. The request is not executed.
    Reset,
    /// Executes the request, and breaks the connection before the response headers.
    LoseResponse,
    /// Accepts the request, and sends no response. The request is not executed.
    Hang,
    /// Executes the request after this delay.
    Delay(Duration),
    /// Executes the request immediately, and sends the response after this delay.
    LateResponse(Duration),
    /// Disrupts the entire server, and then executes the request.
    Disrupt(Disruption),
    /// Executes the request, sends a part of the response, and breaks the connection.
    Cut(CutAfter),
    /// Sends the response in chunks of this number of bytes, and flushes each chunk separately. The
    /// minimum is one byte.
    Chunks(usize),
    /// Accepts the watch, but sends neither events nor bookmarks until the watch times out.
    Silence,
    /// Omits the event with this number. The first event has number 0. Initial events count, but
    /// bookmarks do not.
    LoseEvent(usize),
    /// Sends the event with this number twice. The first event has number 0. Initial events count, but
    /// bookmarks do not.
    RepeatEvent(usize),
    /// Closes the watch without an error after this number of frames.
    CloseWatch(usize),
    /// Closes the watch with an ERROR event.
    ErrorEvent {
        /// The number of frames before the ERROR event.
        after: usize,
        /// The object of the ERROR event.
        status: Status,
    },
    /// Closes the watch without an ERROR event if the client has more than this number of unread events.
    /// The watch does not deliver these events. kube-apiserver closes a watch in this way if the buffer
    /// of the watch stays full.
    SlowReader(usize),
}

impl Fault {
    /// Creates a rejection with this HTTP status code and reason. `retry_after` is in seconds.
    ///
    /// # Panics
    /// Panics if the code is not in the range from 200 to 599.
    pub fn status(code: u16, reason: &str, retry_after: Option<u32>) -> Self {
        assert!((200..600).contains(&code), "{code} is not the code of a response; use 200 to 599");
        let status = Status::new(code, reason, format!("injected failure: {reason}"));
        Self::Status(match retry_after {
            Some(seconds) => status.retry_after(seconds),
            None => status,
        })
    }

    /// Creates the response of kube-apiserver 1.31 and newer while its watch cache is not ready: 429
    /// with the reason TooManyRequests.
    ///
    /// The watch cache is not ready after a start of the server, and directly after the creation of a
    /// CRD.
    pub fn initializing(retry_after: u32) -> Self {
        Self::Status(Status::new(429, "TooManyRequests", INITIALIZING).retry_after(retry_after))
    }

    /// Creates the response of kube-apiserver before 1.31 while its watch cache is not ready: 503.
    pub fn unavailable() -> Self {
        Self::Status(Status::new(503, "ServiceUnavailable", INITIALIZING))
    }

    /// Creates the response to a failure of the storage: 500 with the reason InternalError.
    pub fn internal_error(message: &str) -> Self {
        Self::Status(Status::internal_error(message))
    }

    /// Creates the rejection of an expired resourceVersion: HTTP 410 with the reason Expired.
    ///
    /// Proxies, older servers and aggregated servers reject a LIST or WATCH in this way. kube-apiserver
    /// instead accepts such a watch and sends an ERROR event.
    pub fn gone() -> Self {
        Self::Status(Status::expired())
    }

    /// Creates a response with HTTP status 200 and with these bytes as a JSON body.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self::Raw { status: 200, content_type: "application/json".into(), body: body.into() }
    }

    /// Creates a fault that accepts a watch and closes it with an ERROR event as the first frame.
    pub fn error(status: Status) -> Self {
        Self::ErrorEvent { after: 0, status }
    }

    /// Returns the kind of this fault, without the parameters.
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
            Self::Chunks(_) => FaultKind::Chunks,
            Self::Silence => FaultKind::Silence,
            Self::LoseEvent(_) => FaultKind::LoseEvent,
            Self::RepeatEvent(_) => FaultKind::RepeatEvent,
            Self::CloseWatch(_) => FaultKind::CloseWatch,
            Self::ErrorEvent { .. } => FaultKind::ErrorEvent,
            Self::SlowReader(_) => FaultKind::SlowReader,
        }
    }

    pub(crate) fn is_watch_only(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::FaultKind as K;

    /// Returns the index of a kind in `ALL`. A new kind does not compile without an index.
    fn index(kind: K) -> usize {
        match kind {
            K::Status(_) => 0,
            K::Raw => 1,
            K::Reset => 2,
            K::LoseResponse => 3,
            K::Hang => 4,
            K::Delay => 5,
            K::LateResponse => 6,
            K::Cut => 7,
            K::Chunks => 8,
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
    fn all_contains_each_fault_kind_once() {
        let indexes: Vec<usize> = K::ALL.into_iter().map(index).collect();
        assert_eq!(indexes, (0..K::ALL.len()).collect::<Vec<_>>());
    }
}
