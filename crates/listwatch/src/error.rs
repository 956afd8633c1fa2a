//! What can go wrong with a LIST or a WATCH, and what to do about it.

use std::{error::Error as StdError, fmt, io, time::Duration};

use kube_client::core::Status;
use kube_object::DecodeError;

/// Which of the two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// A LIST.
    List,
    /// A WATCH.
    Watch,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
        })
    }
}

/// What was asked for: shown at the head of each error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// LIST or WATCH.
    pub verb: Verb,
    /// Path and query, without the host; of a long continue token only the beginning.
    pub url: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.url)
    }
}

/// Why a LIST or a WATCH failed. Carries the URL, and never the text of an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListWatchError {
    /// The server refused: an HTTP error, or an ERROR event on a watch.
    #[error("{target}: the server answered {} {}{}", status.code, status.reason, Words(status))]
    Status {
        /// What was asked.
        target: Target,
        /// The server's answer. `code` is always set; `reason` and `message` may be empty.
        status: Box<Status>,
        /// How long the server asked to wait.
        retry_after: Option<Duration>,
    },
    /// No answer came: no connection, a failed handshake, no credentials.
    #[error("{target}: no answer: {}", Causes(source))]
    Connection {
        /// What was asked.
        target: Target,
        /// What the client says.
        source: kube_client::Error,
    },
    /// The answer broke off.
    #[error("{target}: the connection broke: {}", Causes(source))]
    Body {
        /// What was asked.
        target: Target,
        /// What the client says.
        source: kube_client::Error,
    },
    /// The answer ended in the middle of an object.
    #[error("{target}: the answer was cut off in the middle of an object")]
    CutOff {
        /// What was asked.
        target: Target,
    },
    /// An object, or what stands in its place, is larger than allowed.
    #[error(
        "{target}: more than {limit} bytes without the end of an object; see ListWatch::max_object_bytes"
    )]
    TooLong {
        /// What was asked.
        target: Target,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer is not the JSON of a list or of a watch event.
    #[error("{target}: malformed answer: {what}")]
    Malformed {
        /// What was asked.
        target: Target,
        /// What was wrong, in words that quote nothing.
        what: String,
    },
    /// The answer is of another kind, such as a `Table`.
    #[error("{target}: expected a list, got {found}")]
    NotAList {
        /// What was asked.
        target: Target,
        /// The kind that came, cut to a length that is safe to log.
        found: String,
    },
    /// A watch event of a type that this crate doesn't know.
    #[error("{target}: unknown watch event type {found:?}")]
    UnknownEvent {
        /// What was asked.
        target: Target,
        /// The type that came, cut to a length that is safe to log.
        found: String,
    },
    /// A watch event whose object can't be identified.
    #[error("{target}: a watch event whose object can't be identified: {reason}")]
    Nameless {
        /// What was asked.
        target: Target,
        /// Why it could not be decoded.
        reason: DecodeError,
    },
    /// The caller's patience is over: nothing comes, or no end of it. Never made by a
    /// [`ListerWatcher`](crate::ListerWatcher), which waits as long as its streams are held.
    #[error("{target}: given up after {after:?}")]
    TimedOut {
        /// What was asked; the URL is without a query.
        target: Target,
        /// How long it was waited.
        after: Duration,
    },
    /// A ListFunc or WatchFunc failed.
    #[error("{verb} function failed: {}", Causes(source.as_ref()))]
    Function {
        /// Which of the two.
        verb: Verb,
        /// What it said.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// What a failure means for what is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The version or the continue token is no longer held by the server: list anew.
    Expired,
    /// The server has not reached the version asked for.
    TooLarge,
    /// The server does not take these parameters, such as a version that it can't read (400, 422), or there is no way to
    /// send them, as they are too long (414, 431).
    Unsupported,
    /// The server is overloaded (429, or 503 with Retry-After): wait, then go on.
    Overloaded,
    /// Nobody listens there: wait, then go on.
    Refused,
    /// The credentials are not accepted.
    Unauthorized,
    /// The credentials don't allow this.
    Forbidden,
    /// The resource does not exist, such as one whose CRD was removed.
    NotFound,
    /// Anything else: try again after a while.
    Broken,
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorClass::Expired => "expired",
            ErrorClass::TooLarge => "too large",
            ErrorClass::Unsupported => "unsupported",
            ErrorClass::Overloaded => "overloaded",
            ErrorClass::Refused => "refused",
            ErrorClass::Unauthorized => "unauthorized",
            ErrorClass::Forbidden => "forbidden",
            ErrorClass::NotFound => "not found",
            ErrorClass::Broken => "broken",
        })
    }
}

/// A server's own words, on one line. An internal error is an exception: there a webhook may have quoted an object.
struct Words<'a>(&'a Status);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.reason == "InternalError" || self.0.message.is_empty() {
            return Ok(());
        }
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        write!(f, ": {}", self.0.message.chars().map(printable).collect::<String>())
    }
}

/// How many characters of a server's own words are kept: enough for any that a person wrote.
const WORDS: usize = 1024;

impl ListWatchError {
    /// A refusal, its words cut to a length that is safe to log.
    pub(crate) fn status(target: Target, mut status: Box<Status>, retry_after: Option<Duration>) -> Self {
        for words in [&mut status.reason, &mut status.message] {
            if let Some((end, _)) = words.char_indices().nth(WORDS) {
                words.truncate(end);
            }
        }
        ListWatchError::Status { target, status, retry_after }
    }

    /// What this failure means.
    pub fn class(&self) -> ErrorClass {
        match self {
            ListWatchError::Status { status, retry_after, .. } => class_of(status, retry_after.is_some()),
            // No request could be made of them: a URL has at most 64 KiB.
            ListWatchError::Connection { source: kube_client::Error::HttpError(_), .. } => {
                ErrorClass::Unsupported
            }
            ListWatchError::Connection { source, .. } if is_refused(source) => ErrorClass::Refused,
            ListWatchError::Function { source, .. } => match source.downcast_ref::<kube_client::Error>() {
                Some(kube_client::Error::Api(status)) => class_of(status, retry_after(status).is_some()),
                Some(error) if is_refused(error) => ErrorClass::Refused,
                _ => ErrorClass::Broken,
            },
            _ => ErrorClass::Broken,
        }
    }

    /// How long the server asked to wait before the next request.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ListWatchError::Status { retry_after, .. } => *retry_after,
            ListWatchError::Function { source, .. } => match source.downcast_ref::<kube_client::Error>() {
                Some(kube_client::Error::Api(status)) => retry_after(status),
                _ => None,
            },
            _ => None,
        }
    }

    /// An error of a ListFunc. Of one that serde_json gave only position and category are kept, since
    /// its text quotes the object.
    pub fn list_function(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        ListWatchError::Function { verb: Verb::List, source: without_quotes(source.into()) }
    }

    /// An error of a WatchFunc, see [`ListWatchError::list_function`].
    pub fn watch_function(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        ListWatchError::Function { verb: Verb::Watch, source: without_quotes(source.into()) }
    }
}

/// What is left of a serde_json error, whose text may quote a Secret.
#[derive(Debug, thiserror::Error)]
#[error("an answer that can't be decoded: {category:?} error at line {line} column {column}")]
struct Undecodable {
    category: serde_json::error::Category,
    line: usize,
    column: usize,
}

impl From<&serde_json::Error> for Undecodable {
    fn from(error: &serde_json::Error) -> Self {
        Self { category: error.classify(), line: error.line(), column: error.column() }
    }
}

fn without_quotes(source: Box<dyn StdError + Send + Sync>) -> Box<dyn StdError + Send + Sync> {
    let quoting = match source.downcast_ref::<kube_client::Error>() {
        Some(kube_client::Error::SerdeError(error)) => Some(error),
        _ => source.downcast_ref::<serde_json::Error>(),
    };
    match quoting.map(Undecodable::from) {
        Some(error) => Box::new(error),
        None => source,
    }
}

/// `details.retryAfterSeconds`, which kube-apiserver also sends as the Retry-After header.
pub(crate) fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

fn class_of(status: &Status, asked_to_wait: bool) -> ErrorClass {
    match (status.code, status.reason.as_str()) {
        (410, _) | (_, "Expired" | "Gone") => ErrorClass::Expired,
        _ if is_too_large(status) => ErrorClass::TooLarge,
        (429, _) => ErrorClass::Overloaded,
        (401, _) => ErrorClass::Unauthorized,
        (403, _) => ErrorClass::Forbidden,
        (404, _) => ErrorClass::NotFound,
        (400 | 414 | 422 | 431, _) => ErrorClass::Unsupported,
        // Another failure may ask to wait too, and yet be of what was asked for, so that it comes again and again.
        (503, _) if asked_to_wait => ErrorClass::Overloaded,
        _ => ErrorClass::Broken,
    }
}

/// Newer servers name the cause, older ones only say it in a cause's message or in the text.
fn is_too_large(status: &Status) -> bool {
    const TEXT: &str = "Too large resource version";
    let timeout = status.code == 504 || status.reason == "Timeout";
    let cause = status.details.iter().flat_map(|details| &details.causes);
    timeout
        && (cause.clone().any(|cause| cause.reason == "ResourceVersionTooLarge")
            || cause.clone().any(|cause| cause.message.contains(TEXT))
            || status.message.contains(TEXT))
}

fn is_refused(error: &kube_client::Error) -> bool {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = error.source();
    }
    false
}

/// An error with its causes, since hyper's own text is only "client error (Connect)".
struct Causes<'a>(&'a (dyn StdError + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !said.contains(&text) {
                write!(f, ": {text}")?;
            }
            said = text;
            next = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_client::core::response::{StatusCause, StatusDetails};

    fn class(code: u16, reason: &str) -> ErrorClass {
        let status = Status { code, reason: reason.into(), ..Status::default() };
        class_of(&status, false)
    }

    fn timeout(message: &str, cause: Option<(&str, &str)>) -> ErrorClass {
        let causes = cause
            .map(|(reason, message)| StatusCause {
                reason: reason.into(),
                message: message.into(),
                field: String::new(),
            })
            .into_iter()
            .collect();
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes,
            retry_after_seconds: 1,
        };
        let status = Status {
            code: 504,
            reason: "Timeout".into(),
            message: message.into(),
            details: Some(details),
            ..Status::default()
        };
        class_of(&status, true)
    }

    #[test]
    fn a_server_s_words_are_shown_on_one_line_and_those_of_an_internal_error_not_at_all() {
        let shown = |code, reason: &str, message: &str| {
            let status = Status { code, reason: reason.into(), message: message.into(), ..Status::default() };
            let target = Target { verb: Verb::List, url: "/api/v1/pods".to_owned() };
            ListWatchError::status(target, Box::new(status), None).to_string()
        };
        let forbidden = shown(403, "Forbidden", "pods is forbidden\n[+] all is well\x1b[2J");
        assert_eq!(
            forbidden,
            "LIST /api/v1/pods: the server answered 403 Forbidden: pods is forbidden [+] all is well [2J"
        );
        let webhook = shown(500, "InternalError", "conversion webhook failed: hunter2");
        assert_eq!(webhook, "LIST /api/v1/pods: the server answered 500 InternalError");
    }

    #[test]
    fn statuses_are_classified_by_code_and_reason() {
        assert_eq!(class(410, "Expired"), ErrorClass::Expired);
        assert_eq!(class(410, "Gone"), ErrorClass::Expired);
        assert_eq!(class(0, "Gone"), ErrorClass::Expired);
        assert_eq!(class(429, "TooManyRequests"), ErrorClass::Overloaded);
        assert_eq!(class(401, ""), ErrorClass::Unauthorized);
        assert_eq!(class(403, ""), ErrorClass::Forbidden);
        assert_eq!(class(404, ""), ErrorClass::NotFound);
        assert_eq!(class(422, "Invalid"), ErrorClass::Unsupported);
        assert_eq!(class(400, "BadRequest"), ErrorClass::Unsupported);
        assert_eq!(class(414, ""), ErrorClass::Unsupported);
        assert_eq!(class(431, ""), ErrorClass::Unsupported);
        assert_eq!(class(500, ""), ErrorClass::Broken);
    }

    #[test]
    fn too_large_a_version_is_known_by_cause_message_or_text() {
        let text = "Too large resource version: 9, current: 5";
        assert_eq!(timeout("", Some(("ResourceVersionTooLarge", ""))), ErrorClass::TooLarge);
        assert_eq!(timeout("", Some(("", text))), ErrorClass::TooLarge);
        assert_eq!(timeout(text, None), ErrorClass::TooLarge);
        assert_eq!(timeout("the request timed out", None), ErrorClass::Broken);
    }

    #[test]
    fn a_server_that_asks_to_wait_is_overloaded_only_where_it_says_so() {
        let asks_to_wait =
            |code| class_of(&Status { code, reason: String::new(), ..Status::default() }, true);
        assert_eq!([429, 503].map(asks_to_wait), [ErrorClass::Overloaded; 2]);
        assert_eq!([500, 502, 504].map(asks_to_wait), [ErrorClass::Broken; 3]);
        assert_eq!(class(503, ""), ErrorClass::Broken);
    }
}
