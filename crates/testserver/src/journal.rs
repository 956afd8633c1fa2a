//! What was asked: a bounded record of every request, for tests that count.

use std::collections::VecDeque;
use std::fmt;

use parking_lot::Mutex;

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
pub struct About {
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

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Not answered (yet), or given up by the client before the answer.
    Pending,
    /// Answered with this HTTP status.
    Answered(u16),
    /// The connection was broken instead of an answer.
    Broken,
}

/// One request as it came in.
#[derive(Clone, Debug)]
pub struct Request {
    /// What it was about.
    pub about: About,
    /// The path, as sent.
    pub path: String,
    /// The query, as sent, without the question mark.
    pub query: String,
    /// The header `Content-Type`, if any.
    pub content_type: Option<String>,
    /// The header `Accept`, if any.
    pub accept: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
}

impl Request {
    /// The value of a query parameter, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        form_urlencoded::parse(self.query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into())
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}?{} {:?}", self.about.verb, self.path, self.query, self.outcome)
    }
}

/// The journal keeps this many requests; beyond that the oldest are dropped.
pub const JOURNAL_CAPACITY: usize = 16_384;

/// The record of a server's requests, oldest first, at most [`JOURNAL_CAPACITY`] of them.
#[derive(Debug, Default)]
pub struct Journal(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    /// The number of the first request that is still kept.
    first: u64,
    requests: VecDeque<Request>,
}

/// Which request an outcome belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl Journal {
    /// All requests that are kept, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.0.lock().requests.iter().cloned().collect()
    }

    /// How many of the kept requests `wanted` picks.
    pub fn count_where(&self, wanted: impl Fn(&Request) -> bool) -> usize {
        self.0.lock().requests.iter().filter(|request| wanted(request)).count()
    }

    /// How many of the kept requests have this verb and this resource (plural).
    pub fn count(&self, verb: Verb, resource: &str) -> usize {
        self.count_where(|request| request.about.verb == verb && request.about.resource == resource)
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        let mut ring = self.0.lock();
        ring.first += ring.requests.len() as u64;
        ring.requests.clear();
    }

    pub(crate) fn begin(&self, request: Request) -> Ticket {
        let mut ring = self.0.lock();
        if ring.requests.len() == JOURNAL_CAPACITY {
            ring.requests.pop_front();
            ring.first += 1;
        }
        ring.requests.push_back(request);
        Ticket(ring.first + ring.requests.len() as u64 - 1)
    }

    pub(crate) fn end(&self, ticket: Ticket, outcome: Outcome) {
        let mut ring = self.0.lock();
        let place = ticket.0.checked_sub(ring.first).and_then(|at| usize::try_from(at).ok());
        if let Some(request) = place.and_then(|at| ring.requests.get_mut(at)) {
            request.outcome = outcome;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: Verb) -> Request {
        let about = About {
            verb,
            resource: "pods".into(),
            group: String::new(),
            namespace: None,
            name: None,
            subresource: None,
        };
        Request {
            about,
            path: "/api/v1/pods".into(),
            query: "limit=5&x=a%20b".into(),
            content_type: None,
            accept: None,
            outcome: Outcome::Pending,
        }
    }

    #[test]
    fn the_oldest_requests_are_dropped_at_the_bound() {
        let journal = Journal::default();
        let first = journal.begin(request(Verb::Get));
        for _ in 0..JOURNAL_CAPACITY {
            journal.begin(request(Verb::List));
        }
        journal.end(first, Outcome::Answered(200));
        assert_eq!(journal.count(Verb::Get, "pods"), 0);
        assert_eq!(journal.count(Verb::List, "pods"), JOURNAL_CAPACITY);
        assert!(journal.requests().iter().all(|r| r.outcome == Outcome::Pending));
    }

    #[test]
    fn an_outcome_finds_its_request_and_parameters_are_decoded() {
        let journal = Journal::default();
        journal.begin(request(Verb::List));
        let ticket = journal.begin(request(Verb::Watch));
        journal.end(ticket, Outcome::Answered(200));
        let watch = journal.requests().pop().unwrap();
        assert_eq!(watch.outcome, Outcome::Answered(200));
        assert_eq!(watch.parameter("x").as_deref(), Some("a b"));
    }
}
