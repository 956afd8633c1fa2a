//! The journal: a bounded record of the requests. Tests count requests or wait for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

mod fault_kind;
mod request;
mod request_match;

pub use fault_kind::FaultKind;
pub(crate) use request::RecordedBody;
pub use request::{Outcome, Request, RequestInfo, Verb, WatchEnd, WatchPhase};
pub use request_match::RequestMatch;

/// The maximum number of requests in the journal. In a full journal, a new request replaces the oldest
/// request.
pub const JOURNAL_CAPACITY: usize = 16_384;

/// The maximum size of the URLs and headers of all requests, in bytes. Then a new request replaces the oldest
/// requests, because clients without a valid token can send long URLs.
const MAX_RECORD_BYTES: usize = 32 << 20;

/// Records the last [`JOURNAL_CAPACITY`] requests of a server.
///
/// A record contains the URL and a few headers. It typically needs a few hundred bytes of memory.
/// [`ServerBuilder::record_bodies`](crate::ServerBuilder::record_bodies) adds the bodies.
///
/// ```
/// use http_body_util::Full;
/// use kube_testserver::{RequestMatch, Server, Verb};
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let server = Server::builder().record_bodies(1 << 20).build();
/// let body = r#"{"metadata": {"name": "settings"}, "data": {"colour": "blue"}}"#;
/// let request = http::Request::post("/api/v1/namespaces/default/configmaps").body(Full::from(body));
/// server.service().respond(request.unwrap()).await.unwrap();
/// let creates = RequestMatch::verb(Verb::Create).resource("configmaps").name("settings");
/// let sent = server.journal().find(&creates);
/// assert_eq!(sent[0].json().unwrap()["data"]["colour"], "blue");
/// println!("{:#}", sent[0]);
/// # });
/// ```
#[derive(Debug)]
pub struct Journal {
    started: Instant,
    ring: Mutex<Ring>,
    /// Notified after each change.
    changed: watch::Sender<()>,
    unanswered: AtomicUsize,
    /// The maximum number of bytes of all recorded bodies. With 0, the journal records no bodies.
    max_body_bytes: usize,
}

/// A request without a response whose client still waits.
pub(crate) struct Unanswered(Arc<Journal>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Marks a position in the journal. [`Journal::since`] returns the requests after this position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalMark(u64);

#[derive(Debug)]
struct Ring {
    /// The number of the first request in the journal.
    first: u64,
    /// Shared with predicates, which run without the lock because they may read the journal.
    requests: VecDeque<Arc<Request>>,
    /// The number and the length of each recorded body, oldest first.
    bodies: VecDeque<(u64, usize)>,
    body_bytes: usize,
    record_bytes: usize,
}

impl Ring {
    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.requests.pop_front() {
            self.first += 1;
            self.record_bytes -= oldest.text_bytes();
        }
    }

    fn next(&self) -> u64 {
        self.first + self.requests.len() as u64
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Request> {
        let index = number.checked_sub(self.first)?;
        self.requests.get_mut(usize::try_from(index).ok()?).map(Arc::make_mut)
    }

    fn since(&self, mark: JournalMark) -> Vec<Arc<Request>> {
        let before = usize::try_from(mark.0.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.requests.iter().skip(before).cloned().collect()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl Journal {
    pub(crate) fn new(max_body_bytes: usize) -> Self {
        Self {
            started: Instant::now(),
            ring: Mutex::new(Ring {
                first: 1,
                requests: VecDeque::new(),
                bodies: VecDeque::new(),
                body_bytes: 0,
                record_bytes: 0,
            }),
            max_body_bytes,
            changed: watch::Sender::new(()),
            unanswered: AtomicUsize::new(0),
        }
    }

    /// Returns the last request in the journal for which `wanted` returns true.
    pub fn last(&self, wanted: impl Fn(&Request) -> bool) -> Option<Request> {
        // Without the lock, because the predicate may read the journal.
        let kept = self.kept(JournalMark(0));
        kept.into_iter().rev().find(|request| wanted(request)).map(Arc::unwrap_or_clone)
    }

    /// Returns the number of requests whose clients still wait for a response.
    pub fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Counts a request as unanswered until the returned value is dropped.
    pub(crate) fn count_unanswered(self: &Arc<Self>) -> Unanswered {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        Unanswered(Arc::clone(self))
    }

    /// Returns all requests in the journal, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.since(JournalMark(0))
    }

    /// Returns the requests in the journal that `matches` selects, oldest first.
    pub fn find(&self, matches: &RequestMatch) -> Vec<Request> {
        let kept = self.kept(JournalMark(0));
        kept.into_iter().filter(|request| matches.selects(request)).map(Arc::unwrap_or_clone).collect()
    }

    /// Returns a mark for the current position. Later requests are after this mark.
    pub fn mark(&self) -> JournalMark {
        JournalMark(self.ring.lock().next())
    }

    /// Returns the requests after `mark`, oldest first.
    pub fn since(&self, mark: JournalMark) -> Vec<Request> {
        self.kept(mark).into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// Returns the number of requests in the journal for which `wanted` returns true.
    pub fn count_where(&self, wanted: impl Fn(&Request) -> bool) -> usize {
        self.count_since(JournalMark(0), wanted)
    }

    /// Returns the number of requests after `mark` for which `wanted` returns true.
    pub fn count_since(&self, mark: JournalMark, wanted: impl Fn(&Request) -> bool) -> usize {
        self.kept(mark).iter().filter(|request| wanted(request)).count()
    }

    /// Returns the number of requests in the journal with this verb and this plural name of the
    /// resource.
    pub fn count(&self, verb: Verb, resource: &str) -> usize {
        self.count_where(|request| request.info.verb == verb && request.info.resource == resource)
    }

    /// Waits for a request after `mark` for which `wanted` returns true. If several requests match,
    /// returns the oldest request.
    ///
    /// `wanted` runs again when a request changes, so it can also check the outcome. If no request
    /// matches, this method waits indefinitely. Use a timeout.
    ///
    /// # Cancel safety
    /// If the future is dropped, the journal does not change.
    pub async fn wait_for(&self, mark: JournalMark, wanted: impl Fn(&Request) -> bool) -> Request {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let found = self.kept(mark).into_iter().find(|request| wanted(request));
            if let Some(found) = found {
                return Arc::unwrap_or_clone(found);
            }
            // The journal holds the sender, so this cannot fail.
            let _ = changed.changed().await;
        }
    }

    fn kept(&self, mark: JournalMark) -> Vec<Arc<Request>> {
        self.ring.lock().since(mark)
    }

    /// Removes all requests. The numbers of later requests continue after the removed requests.
    pub fn clear(&self) {
        let mut ring = self.ring.lock();
        ring.first = ring.next();
        ring.requests.clear();
        ring.bodies.clear();
        (ring.body_bytes, ring.record_bytes) = (0, 0);
    }

    /// Adds a request, and sets its number and time.
    pub(crate) fn begin(&self, request: &mut Request) -> Ticket {
        request.at = Instant::now().saturating_duration_since(self.started);
        let mut ring = self.ring.lock();
        ring.record_bytes += request.text_bytes();
        while ring.requests.len() == JOURNAL_CAPACITY
            || ring.record_bytes > MAX_RECORD_BYTES && !ring.requests.is_empty()
        {
            ring.drop_oldest();
        }
        request.number = ring.next();
        ring.requests.push_back(Arc::new(request.clone()));
        drop(ring);
        self.changed.send_replace(());
        Ticket(request.number)
    }

    pub(crate) fn records_bodies(&self) -> bool {
        self.max_body_bytes > 0
    }

    /// Records the body of a request, and drops the bodies of the oldest requests if there are too many
    /// bytes. Returns `None` if the body is empty or too large.
    pub(crate) fn record_body(&self, ticket: Ticket, body: &Bytes) -> Option<RecordedBody> {
        if body.is_empty() || body.len() > self.max_body_bytes {
            return None;
        }
        // A copy, because the bytes can belong to a larger buffer.
        let body = RecordedBody(Bytes::copy_from_slice(body));
        let mut ring = self.ring.lock();
        ring.bodies.push_back((ticket.0, body.0.len()));
        ring.body_bytes += body.0.len();
        if let Some(request) = ring.get_mut(ticket.0) {
            request.body = Some(body.clone());
        }
        while ring.body_bytes > self.max_body_bytes
            && let Some((number, length)) = ring.bodies.pop_front()
        {
            ring.body_bytes -= length;
            if let Some(request) = ring.get_mut(number) {
                request.body = None;
            }
        }
        drop(ring);
        self.changed.send_replace(());
        Some(body)
    }

    /// Updates a request, if it is still in the journal.
    pub(crate) fn note(&self, ticket: Ticket, update: impl FnOnce(&mut Request)) {
        if let Some(request) = self.ring.lock().get_mut(ticket.0) {
            update(request);
        }
        self.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Duration;

    use super::*;

    fn request(verb: Verb) -> Request {
        let info = RequestInfo { verb, resource: "pods".into(), ..RequestInfo::default() };
        Request { path: "/api/v1/pods".into(), query: "limit=5&x=a%20b".into(), info, ..Request::default() }
    }

    #[test]
    fn full_journal_drops_the_oldest_requests() {
        let journal = Journal::new(0);
        let first = journal.begin(&mut request(Verb::Get));
        for _ in 0..JOURNAL_CAPACITY {
            journal.begin(&mut request(Verb::List));
        }
        journal.note(first, |request| request.outcome = Outcome::Answered(200));
        assert_eq!(journal.count(Verb::Get, "pods"), 0);
        assert_eq!(journal.count(Verb::List, "pods"), JOURNAL_CAPACITY);
        assert!(journal.requests().iter().all(|r| r.outcome == Outcome::Pending));
        assert_eq!(journal.requests()[0].number, 2);
    }

    #[test]
    fn long_urls_replace_the_oldest_requests() {
        let journal = Journal::new(0);
        for _ in 0..100 {
            journal.begin(&mut Request { query: "x".repeat(1 << 20), ..request(Verb::List) });
        }
        assert_eq!((journal.requests().len(), journal.requests()[0].number), (31, 70));
        journal.clear();
        journal.begin(&mut request(Verb::List));
        assert_eq!(journal.requests().len(), 1);
    }

    #[test]
    fn outcome_is_recorded_and_parameters_are_decoded() {
        let journal = Journal::new(0);
        journal.begin(&mut request(Verb::List));
        let ticket = journal.begin(&mut request(Verb::Watch));
        journal.note(ticket, |request| request.outcome = Outcome::Answered(200));
        let watch = journal.requests().pop().unwrap();
        assert_eq!(watch.outcome, Outcome::Answered(200));
        assert_eq!(watch.parameter("x").as_deref(), Some("a b"));
    }

    #[test]
    fn mark_selects_later_requests_and_clear_keeps_the_numbers() {
        let journal = Journal::new(0);
        journal.begin(&mut request(Verb::List));
        let mark = journal.mark();
        journal.begin(&mut request(Verb::Get));
        assert_eq!(journal.since(mark).len(), 1);
        assert_eq!(journal.count_since(mark, |request| request.info.verb == Verb::List), 0);
        let last = |verb| journal.last(|request| request.info.verb == verb).map(|request| request.number);
        assert_eq!((last(Verb::List), last(Verb::Get), last(Verb::Watch)), (Some(1), Some(2), None));
        journal.clear();
        journal.begin(&mut request(Verb::Get));
        assert_eq!(journal.since(mark).iter().map(|request| request.number).collect::<Vec<_>>(), [3]);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_returns_when_the_outcome_is_recorded() {
        let journal = Journal::new(0);
        let mark = journal.mark();
        let wait = journal.wait_for(mark, |request| request.outcome == Outcome::Answered(404));
        let send = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let ticket = journal.begin(&mut request(Verb::List));
            tokio::task::yield_now().await;
            journal.note(ticket, |request| request.outcome = Outcome::Answered(404));
        };
        let (found, ()) = tokio::join!(wait, send);
        assert_eq!((found.number, found.at), (1, Duration::from_secs(5)));
    }
}
