//! A request in the journal, with its outcome.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Duration;

use crate::journal::FaultKind;

/// Identifies the verb of a request, as in RBAC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verb {
    /// GET of one object.
    Get,
    /// GET of a collection. A streaming list is a [`Verb::Watch`]. Not all clients request it by default:
    /// the `watcher` of `kube` requests it only with `watcher::Config::streaming_lists`.
    List,
    /// A watch of a collection, with or without `sendInitialEvents`.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
    /// A request for a path without a resource, for example discovery, health or version.
    #[default]
    Other,
}

impl Verb {
    /// Returns the name of the verb in RBAC rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }
}

/// Describes the verb and the resource of a request.
#[derive(Clone, Debug, Default)]
pub struct RequestInfo {
    /// The verb.
    pub verb: Verb,
    /// The plural name of the resource. Empty for [`Verb::Other`].
    pub resource: String,
    /// The API group. Empty for the core group.
    pub group: String,
    /// The namespace in the path, if any.
    pub namespace: Option<String>,
    /// The name of the object in the path, if any.
    pub name: Option<String>,
    /// The subresource in the path, such as `status`, if any.
    pub subresource: Option<String>,
}

/// Describes the result of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The request has no response. It is still in progress, or the client cancelled it.
    #[default]
    Pending,
    /// The server sent a response with this HTTP status.
    Answered(u16),
    /// The connection broke before the server sent a response.
    Broken,
}

/// Describes the reason why a watch closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The client closed the watch.
    Client,
    /// The timeout of the watch expired.
    TimedOut,
    /// The server closed the watch before its timeout. The reason is a fault, a shutdown, a kind that
    /// is no longer served, or a slow client.
    Closed,
    /// The server broke the connection, because of a fault, an outage, a restart or a restore.
    Cut,
    /// The server sent an ERROR event with code 410, because the resourceVersion of the watch expired.
    Expired,
    /// The server sent an ERROR event with another code.
    Failed(u16),
}

/// Describes the phase of a watch when its fault took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchPhase {
    /// The watch was a streaming list, and had not yet sent the bookmark that marks the end of its
    /// initial state.
    InitialState,
    /// The watch was a streaming list that had already sent this bookmark, or the watch was not a
    /// streaming list.
    Events,
}

/// The recorded body of a request. `Debug` prints only its length.
#[derive(Clone)]
pub(crate) struct RecordedBody(pub Bytes);

impl fmt::Debug for RecordedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Describes a request in the journal, and its outcome.
///
/// `{request}` prints one line without the body. `{request:#}` also prints the recorded body. The line ends
/// with the user, and the User-Agent in parentheses. `unknown` means that the request did not contain it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Request {
    /// The number of the request. The first request after the creation of the server has number 1.
    pub number: u64,
    /// The time between the creation of the server and the arrival of the request, in tokio's time.
    pub at: Duration,
    /// The verb and the resource.
    pub info: RequestInfo,
    /// The path as the client sent it, without decoding.
    pub path: String,
    /// The query as the client sent it, without the question mark and without decoding.
    pub query: String,
    /// The header `Content-Type`, if any.
    pub content_type: Option<String>,
    /// The header `Accept`, if any.
    pub accept: Option<String>,
    /// The header `User-Agent`, if any.
    pub user_agent: Option<String>,
    /// The name of the authenticated user. `None` if the server rejected the credentials with 401.
    pub user: Option<String>,
    /// The number of the [`Replica`](crate::Replica) that received the request. The server itself has
    /// number 0.
    pub replica: u64,
    /// The kind of the fault that was applied to the request, if any.
    pub fault: Option<FaultKind>,
    /// The phase of the watch in which the fault took effect. Set only for a watch whose fault is `Cut`,
    /// `LoseEvent`, `RepeatEvent`, `CloseWatch`, `ErrorEvent` or `SlowReader`.
    pub fault_during: Option<WatchPhase>,
    /// The body, if the journal records it.
    pub(crate) body: Option<RecordedBody>,
    /// The result of the request.
    pub outcome: Outcome,
    /// The number of frames that a watch has sent so far.
    pub(crate) sent: Arc<AtomicU64>,
    /// The reason why the watch closed. `None` while the watch is open, and for other requests.
    pub ended: Option<WatchEnd>,
}

impl Request {
    /// Returns the size of the texts that a client can choose. It does not change after the request is added.
    pub(super) fn text_bytes(&self) -> usize {
        let headers = [&self.content_type, &self.accept, &self.user_agent];
        // The parts of the path are also separate texts.
        2 * self.path.len() + self.query.len() + headers.into_iter().flatten().map(String::len).sum::<usize>()
    }
    pub(crate) fn targets(&self, group: &str, resource: &str) -> bool {
        self.info.group == group && self.info.resource == resource
    }

    /// Returns the number of complete frames that the watch has sent, including bookmarks and ERROR
    /// events.
    pub fn frames(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the body as the client sent it. Returns `None` if the request has no body, or if the journal
    /// does not contain it: see [`ServerBuilder::record_bodies`](crate::ServerBuilder::record_bodies).
    pub fn body(&self) -> Option<&[u8]> {
        self.body.as_ref().map(|body| &*body.0)
    }

    /// Returns the recorded body as JSON. Returns `None` if there is no recorded body, or if it is not
    /// JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(self.body()?).ok()
    }

    /// Returns whether the path contains this object name. The path of a create contains no name, so its
    /// recorded body must contain the name.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        match &self.info.name {
            Some(found) => found == name,
            None if self.info.verb == Verb::Create => self
                .json()
                .is_some_and(|body| body.pointer("/metadata/name").is_some_and(|found| found == name)),
            None => false,
        }
    }

    /// Returns the decoded value of a query parameter. Returns `None` if the request does not have the
    /// parameter.
    pub fn parameter(&self, name: &str) -> Option<String> {
        form_urlencoded::parse(self.query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into())
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} {}", self.number, self.info.verb.name(), self.path)?;
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        match self.outcome {
            Outcome::Pending => f.write_str(" has no response")?,
            Outcome::Answered(code) => write!(f, " {code}")?,
            Outcome::Broken => f.write_str(" broken connection")?,
        }
        let senders = [&self.user, &self.user_agent].map(|sender| sender.as_deref().unwrap_or("unknown"));
        write!(f, " by {} ({})", senders[0], senders[1])?;
        if let Some(fault) = self.fault {
            write!(f, " fault: {fault}")?;
        }
        if let Some(ended) = self.ended {
            write!(f, " {ended:?} after {} frames", self.frames())?;
        }
        match (f.alternate(), self.json(), self.body()) {
            (true, Some(json), _) => write!(f, "\n{json:#}"),
            (true, None, Some(body)) => write!(f, "\n{}", body.escape_ascii()),
            _ => Ok(()),
        }
    }
}
