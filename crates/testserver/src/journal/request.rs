//! One request in the journal: what it asked for, and what became of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Duration;

use crate::faults::FaultKind;

/// What a request does, in the words of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One object.
    Get,
    /// A collection.
    List,
    /// A collection's changes.
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
    /// Anything that is not about a resource: discovery, health, version.
    Other,
}

impl Verb {
    /// The verb as RBAC writes it.
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

/// What a request is about.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// What it does.
    pub verb: Verb,
    /// The plural name of the resource, empty for [`Verb::Other`].
    pub resource: String,
    /// The API group, empty for the core group.
    pub group: String,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name in the path.
    pub name: Option<String>,
    /// The subresource in the path, such as `status`.
    pub subresource: Option<String>,
}

impl RequestInfo {
    /// What is not about a resource.
    pub(crate) fn other() -> Self {
        Self {
            verb: Verb::Other,
            resource: String::new(),
            group: String::new(),
            namespace: None,
            name: None,
            subresource: None,
        }
    }
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not answered (yet), or given up by the client before the answer.
    Pending,
    /// Answered with this HTTP status.
    Answered(u16),
    /// The connection was broken instead of an answer.
    Broken,
}

/// How a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The client went away.
    Client,
    /// Its time was over.
    TimedOut,
    /// The server ended it cleanly before its time: it was told to or shuts down, the kind is no longer served, or the
    /// client read too slowly.
    Closed,
    /// The connection was broken.
    Cut,
    /// By an ERROR event: the version is too old (code 410).
    Expired,
    /// By an ERROR event with another code.
    Failed(u16),
}

/// What a watch was telling when the fault that it met took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchPhase {
    /// The initial state, or less.
    InitialState,
    /// What happened since, or all that there is to a watch that has no initial state with an end.
    Events,
}

/// One request as it came in, and what became of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// Its place among all requests since the server was built; the first is 1.
    pub number: u64,
    /// When it came in, on tokio's clock, since the server was built.
    pub at: Duration,
    /// What it was about.
    pub info: RequestInfo,
    /// The path, as sent.
    pub path: String,
    /// The query, as sent, without the question mark.
    pub query: String,
    /// The header `Content-Type`, if any.
    pub content_type: Option<String>,
    /// The header `Accept`, if any.
    pub accept: Option<String>,
    /// The header `User-Agent`, if any.
    pub user_agent: Option<String>,
    /// The user whom the server took it for; none for a token that nobody has.
    pub user: Option<String>,
    /// The replica that answered; the server itself is 0.
    pub replica: u64,
    /// The fault that it met.
    pub fault: Option<FaultKind>,
    /// When that took effect, if it was one that happens to a watch at some frame or event of it: cut, lose, repeat,
    /// close, error, slow reader.
    pub fault_during: Option<WatchPhase>,
    /// How it was answered.
    pub outcome: Outcome,
    /// How many frames a watch has sent; it counts on.
    pub(crate) sent: Arc<AtomicU64>,
    /// How a watch ended, once it has.
    pub ended: Option<WatchEnd>,
}

impl Request {
    /// A request that has not been numbered yet.
    pub(crate) fn new(info: RequestInfo) -> Self {
        Self {
            number: 0,
            at: Duration::ZERO,
            info,
            path: String::new(),
            query: String::new(),
            content_type: None,
            accept: None,
            user_agent: None,
            user: None,
            replica: 0,
            fault: None,
            fault_during: None,
            outcome: Outcome::Pending,
            sent: Arc::default(),
            ended: None,
        }
    }

    /// Whether it is about this resource (plural).
    pub(crate) fn targets(&self, group: &str, resource: &str) -> bool {
        self.info.group == group && self.info.resource == resource
    }

    /// How many frames a watch has sent whole by now, bookmarks and ERROR events among them.
    pub fn frames(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The value of a query parameter, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        form_urlencoded::parse(self.query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into())
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "#{} {} {}?{} {:?}",
            self.number,
            self.info.verb.name(),
            self.path,
            self.query,
            self.outcome
        )?;
        if let Some(fault) = self.fault {
            write!(f, " fault: {fault}")?;
        }
        if let Some(ended) = self.ended {
            write!(f, " {ended:?} after {} frames", self.frames())?;
        }
        Ok(())
    }
}
