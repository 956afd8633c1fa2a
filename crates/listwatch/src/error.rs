//! `ListWatchError`: the failure of a LIST or a WATCH, and its class.

use std::{error::Error as StdError, fmt, io, time::Duration};

use kube_client::core::Status;
use kube_object::{DecodeError, Escaped, StatusText, set_requested_kind};

use crate::{gzip::GzipError, retry_after::retry_after};

/// Identifies the kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Lists objects.
    List,
    /// Watches objects.
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

/// Represents a failed request. The message of a [`ListWatchError`] starts with the failed request,
/// except for [`ListWatchError::Function`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The kind of the request: LIST or WATCH.
    pub verb: Verb,
    /// The path and query, without the host. A long continue token is truncated.
    pub url: String,
}

impl Target {
    /// Returns the plural name of the resource, which is the last segment of the path.
    fn resource(&self) -> &str {
        let path = self.url.split('?').next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, Escaped(&self.url))
    }
}

/// Describes the failure of a LIST or a WATCH.
///
/// The message contains the path and query of the request. The message of the server, which can contain a
/// value of an object, is included except for Secrets, see [`StatusText`]. The message of
/// [`source`](std::error::Error::source) is not included. To print the message with all sources, use
/// [`with_causes`](ListWatchError::with_causes). The message escapes the unprintable characters in the
/// texts that the server sent. The fields contain these texts unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListWatchError {
    /// The server rejected the request with an HTTP error, or sent an ERROR event.
    #[error("{target}: server responded with {}{}", StatusText(status), hint(status))]
    Status {
        /// The request.
        target: Target,
        /// The `Status` that the server sent. The field `code` is always set. The fields `reason` and
        /// `message` can be empty.
        status: Box<Status>,
        /// The minimum delay before the next request, if the response contains one (Retry-After).
        retry_after: Option<Duration>,
    },
    /// No response arrived, for example because the connection or the authentication failed.
    #[error("{target}: no response")]
    Connection {
        /// The request.
        target: Target,
        /// The error of the client.
        source: kube_client::Error,
    },
    /// The connection failed while the response arrived.
    #[error("{target}: connection failed while the response arrived")]
    Body {
        /// The request.
        target: Target,
        /// The error of the client.
        source: kube_client::Error,
    },
    /// The response to a request with [`ListWatch::gzip_lists`](crate::ListWatch::gzip_lists) cannot be
    /// decompressed. With the feature `gzip` of kube-client, the client itself decompresses responses, and
    /// such a response causes [`ListWatchError::Body`].
    #[error("{target}: cannot decompress the response")]
    Gzip {
        /// The request.
        target: Target,
        /// The reason for the failure.
        source: GzipError,
    },
    /// The server closed a watch in the middle of an event.
    #[error("{target}: response is incomplete: the last event is truncated")]
    CutOff {
        /// The request.
        target: Target,
    },
    /// An object is larger than [`ListWatch::max_object_bytes`](crate::ListWatch::max_object_bytes).
    #[error("{target}: object is larger than {limit} bytes; increase ListWatch::max_object_bytes")]
    TooLong {
        /// The request.
        target: Target,
        /// The limit in bytes.
        limit: usize,
    },
    /// The response is not the JSON of a list or of a watch event.
    #[error("{target}: malformed response: {reason}")]
    Malformed {
        /// The request.
        target: Target,
        /// The reason, without any part of the response.
        reason: String,
    },
    /// The response to a LIST is not a list of the resource. For example, its kind is `Table`.
    #[error("{target}: expected a list, got {}", Escaped(found))]
    NotAList {
        /// The request.
        target: Target,
        /// The received kind, truncated to 64 characters.
        found: String,
    },
    /// A watch event has an unknown type. The known types are ADDED, MODIFIED, DELETED, BOOKMARK and
    /// ERROR.
    #[error("{target}: unknown watch event type {found:?}")]
    UnknownEvent {
        /// The request.
        target: Target,
        /// The received type, truncated to 64 characters.
        found: String,
    },
    /// The object of a watch event has no readable name.
    #[error("{target}: cannot identify the object of a watch event: {reason}")]
    Nameless {
        /// The request.
        target: Target,
        /// The reason for the failure.
        reason: DecodeError,
    },
    /// The response was not complete in time. Only the reflector creates this error. A
    /// [`ListerWatcher`](crate::ListerWatcher) itself has no timeouts.
    #[error("{target}: timed out after {after:?}")]
    TimedOut {
        /// The request. The URL has no query.
        target: Target,
        /// The timeout.
        after: Duration,
    },
    /// The pages of a list do not end: a continue token repeats, many pages are empty, or there are too
    /// many pages. The reflector creates this error, and then requests the list in one response.
    #[error("{target}: the pages of the list do not end; stopped after {pages} pages")]
    EndlessPages {
        /// The request. The URL has no query.
        target: Target,
        /// The number of received pages.
        pages: u32,
    },
    /// A function of [`ListWatch::from_functions`](crate::ListWatch::from_functions) failed.
    /// [`ListWatchError::list_function`] and [`ListWatchError::watch_function`] create this error.
    #[error("{verb} function failed")]
    Function {
        /// The kind of the function.
        verb: Verb,
        /// The error of the function.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Classifies a failure. The class determines the next request of the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The server no longer has the requested data (410): the resourceVersion of a watch is too old, or
    /// the continue token of a list has expired. The next request must start a new list.
    Expired,
    /// The requested resourceVersion is too large: the state of the server has a lower resourceVersion
    /// (504).
    TooLarge,
    /// The server rejects the parameters of the request, for example because the resourceVersion is
    /// invalid (400, 422) or because the URL is too long (414, 431).
    Unsupported,
    /// The server is overloaded (429, or 503 with Retry-After). Retry after a delay.
    Overloaded,
    /// The connection was refused. Retry after a delay.
    Refused,
    /// The server rejects the credentials (401).
    Unauthorized,
    /// The user lacks permission (403).
    Forbidden,
    /// The resource does not exist (404), for example because its CRD was removed.
    NotFound,
    /// Any other failure. Retry after a delay.
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

/// Returns what to do about a status. A list in a namespace that does not exist is empty, so a server
/// responds with 404 only if it does not have the resource.
fn hint(status: &Status) -> &'static str {
    match status.code {
        401 => "; check the credentials of this program",
        404 => {
            "; the server does not have this resource; install its CRD with this version, or check the group and version"
        }
        _ => "",
    }
}

/// The reason and the message of a status are truncated to this length.
const MAX_STATUS_CHARS: usize = 1024;

impl ListWatchError {
    /// Creates an error from a status. Truncates its texts to a length that is safe to log.
    pub(crate) fn status(target: Target, mut status: Box<Status>, retry_after: Option<Duration>) -> Self {
        // Without the kind, `StatusText` would not show the message.
        set_requested_kind(&mut status, target.resource());
        for text in [&mut status.reason, &mut status.message] {
            if let Some((end, _)) = text.char_indices().nth(MAX_STATUS_CHARS) {
                text.truncate(end);
            }
        }
        ListWatchError::Status { target, status, retry_after }
    }

    /// Returns the class of this failure.
    pub fn class(&self) -> ErrorClass {
        match self {
            ListWatchError::Status { status, retry_after, .. } => class_of(status, retry_after.is_some()),
            // The `http` crate rejects a URL longer than 64 KiB.
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

    /// Returns the minimum delay before the next request, if the response contains one (Retry-After).
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

    /// Returns the message, followed by the messages of all sources, on one line. Escapes unprintable
    /// characters in all messages.
    ///
    /// Use this method for logs: `tracing::warn!("{}", error.with_causes())`.
    pub fn with_causes(&self) -> impl fmt::Display + '_ {
        Escaped(WithCauses(self))
    }

    /// Creates the error of a list function.
    ///
    /// If `source` is an error of serde_json, the method keeps only its category and position, because
    /// its message can contain a part of the object. If `source` is a `kube_client::Error::Api`, the
    /// method escapes its reason and message, because a program can log `source` alone. If [`StatusText`]
    /// does not show the message, the method removes it.
    pub fn list_function(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        ListWatchError::Function { verb: Verb::List, source: loggable(source.into()) }
    }

    /// Creates the error of a watch function. Changes `source` like [`ListWatchError::list_function`].
    pub fn watch_function(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        ListWatchError::Function { verb: Verb::Watch, source: loggable(source.into()) }
    }
}

/// Replaces a serde_json error, because its text can contain a part of a Secret.
#[derive(Debug, thiserror::Error)]
#[error("cannot decode the response: {category:?} error at line {line} column {column}")]
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

/// Returns an error whose text contains no part of an object and no control characters of the server.
fn loggable(source: Box<dyn StdError + Send + Sync>) -> Box<dyn StdError + Send + Sync> {
    let source = match source.downcast::<kube_client::Error>() {
        Ok(error) => match *error {
            kube_client::Error::SerdeError(error) => return Box::new(Undecodable::from(&error)),
            kube_client::Error::Api(status) => return Box::new(kube_client::Error::Api(escaped(status))),
            other => return Box::new(other),
        },
        Err(source) => source,
    };
    match source.downcast::<serde_json::Error>() {
        Ok(error) => Box::new(Undecodable::from(&*error)),
        Err(source) => source,
    }
}

/// Escapes the texts of a status. If `StatusText` does not show the message, replaces the messages.
fn escaped(mut status: Box<Status>) -> Box<Status> {
    let text = StatusText(&status);
    let message = if text.is_complete() {
        Escaped(&status.message).to_string()
    } else if is_too_large(&status) {
        TOO_LARGE.to_owned() // `class_of` compares this text
    } else {
        text.to_string()
    };
    if !text.is_complete() {
        status
            .details
            .iter_mut()
            .flat_map(|details| &mut details.causes)
            .for_each(|cause| cause.message.clear());
    }
    status.reason = Escaped(&status.reason).to_string();
    status.message = message;
    status
}

fn class_of(status: &Status, has_retry_after: bool) -> ErrorClass {
    match (status.code, status.reason.as_str()) {
        (410, _) | (_, "Expired" | "Gone") => ErrorClass::Expired,
        _ if is_too_large(status) => ErrorClass::TooLarge,
        (429, _) => ErrorClass::Overloaded,
        (401, _) => ErrorClass::Unauthorized,
        (403, _) => ErrorClass::Forbidden,
        (404, _) => ErrorClass::NotFound,
        (400 | 414 | 422 | 431, _) => ErrorClass::Unsupported,
        // Other codes can have a Retry-After too, but their cause can be the request. The failure would
        // repeat.
        (503, _) if has_retry_after => ErrorClass::Overloaded,
        _ => ErrorClass::Broken,
    }
}

const TOO_LARGE: &str = "Too large resource version";

/// A newer server reports the reason in `details.causes`. An older server sends only a text, in the
/// cause or in the status.
fn is_too_large(status: &Status) -> bool {
    let timeout = status.code == 504 || status.reason == "Timeout";
    let cause = status.details.iter().flat_map(|details| &details.causes);
    timeout
        && (cause.clone().any(|cause| cause.reason == "ResourceVersionTooLarge")
            || cause.clone().any(|cause| cause.message.contains(TOO_LARGE))
            || status.message.contains(TOO_LARGE))
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

/// An error with its causes. Omits a cause if the previous message already contains it.
struct WithCauses<'a>(&'a (dyn StdError + 'static));

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut previous = self.0.to_string();
        f.write_str(&previous)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !previous.contains(&text) {
                write!(f, ": {text}")?;
            }
            previous = text;
            next = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
