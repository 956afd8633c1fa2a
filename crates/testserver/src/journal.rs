//! What was asked: a bounded record of every request, for tests that count and tests that wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

mod request;

pub use request::{Outcome, Request, RequestInfo, Verb, WatchEnd, WatchPhase};

/// The journal keeps this many requests; beyond that the oldest are dropped.
pub const JOURNAL_CAPACITY: usize = 16_384;

/// The record of a server's requests, oldest first, at most [`JOURNAL_CAPACITY`] of them. Of each there are the URL and a
/// few headers, as they were sent, and never its body: some hundred bytes for usual clients.
#[derive(Debug)]
pub struct Journal {
    started: Instant,
    ring: Mutex<Ring>,
    /// Told after each change.
    changed: watch::Sender<()>,
    unanswered: AtomicUsize,
}

/// A request that has no answer yet and whose client still waits for it.
pub(crate) struct Unanswered(Arc<Journal>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A moment in the journal: what came after it can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

#[derive(Debug)]
struct Ring {
    /// The number of the first request that is still kept.
    first: u64,
    /// Shared with those who look at them, who may ask the journal meanwhile.
    requests: VecDeque<Arc<Request>>,
}

impl Ring {
    fn next(&self) -> u64 {
        self.first + self.requests.len() as u64
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Request> {
        let place = number.checked_sub(self.first)?;
        self.requests.get_mut(usize::try_from(place).ok()?).map(Arc::make_mut)
    }

    fn since(&self, mark: Mark) -> Vec<Arc<Request>> {
        let before = usize::try_from(mark.0.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.requests.iter().skip(before).cloned().collect()
    }
}

/// Which request something happened to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            ring: Mutex::new(Ring { first: 1, requests: VecDeque::new() }),
            changed: watch::Sender::new(()),
            unanswered: AtomicUsize::new(0),
        }
    }

    /// The last of the kept requests that `wanted` picks.
    pub fn last(&self, wanted: impl Fn(&Request) -> bool) -> Option<Request> {
        // Not under the lock: what picks them may ask the journal.
        let kept = self.kept(Mark(0));
        kept.into_iter().rev().find(|request| wanted(request)).map(Arc::unwrap_or_clone)
    }

    /// How many requests have no answer yet, and a client that still waits for it.
    pub fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// One more, until this is dropped.
    pub(crate) fn waits(self: &Arc<Self>) -> Unanswered {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        Unanswered(Arc::clone(self))
    }

    /// All requests that are kept, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.since(Mark(0))
    }

    /// This moment: requests from now on come after it.
    pub fn mark(&self) -> Mark {
        Mark(self.ring.lock().next())
    }

    /// The requests since `mark` that are kept, oldest first.
    pub fn since(&self, mark: Mark) -> Vec<Request> {
        self.kept(mark).into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// How many of the kept requests `wanted` picks.
    pub fn count_where(&self, wanted: impl Fn(&Request) -> bool) -> usize {
        self.count_since(Mark(0), wanted)
    }

    /// How many of the kept requests since `mark` `wanted` picks.
    pub fn count_since(&self, mark: Mark, wanted: impl Fn(&Request) -> bool) -> usize {
        self.kept(mark).iter().filter(|request| wanted(request)).count()
    }

    /// How many of the kept requests have this verb and this resource (plural).
    pub fn count(&self, verb: Verb, resource: &str) -> usize {
        self.count_where(|request| request.info.verb == verb && request.info.resource == resource)
    }

    /// Waits for a request since `mark` that `wanted` picks, which may look at what became of it, too; gives the
    /// oldest one, at once if it is there already. It waits for ever where none comes, so put a timeout around it.
    ///
    /// # Cancel safety
    /// Nothing is changed, so it may be dropped at any time.
    pub async fn wait(&self, mark: Mark, wanted: impl Fn(&Request) -> bool) -> Request {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let found = self.kept(mark).into_iter().find(|request| wanted(request));
            if let Some(found) = found {
                return Arc::unwrap_or_clone(found);
            }
            // The sender lives as long as the journal, so this does not fail.
            let _ = changed.changed().await;
        }
    }

    fn kept(&self, mark: Mark) -> Vec<Arc<Request>> {
        self.ring.lock().since(mark)
    }

    /// Forgets everything so far. Numbers go on.
    pub fn clear(&self) {
        let mut ring = self.ring.lock();
        ring.first = ring.next();
        ring.requests.clear();
    }

    /// Writes a request down, and gives it its number and its time.
    pub(crate) fn begin(&self, request: &mut Request) -> Ticket {
        request.at = Instant::now().saturating_duration_since(self.started);
        let mut ring = self.ring.lock();
        if ring.requests.len() == JOURNAL_CAPACITY {
            ring.requests.pop_front();
            ring.first += 1;
        }
        request.number = ring.next();
        ring.requests.push_back(Arc::new(request.clone()));
        drop(ring);
        self.changed.send_replace(());
        Ticket(request.number)
    }

    /// Writes down what became of a request, if it is still kept.
    pub(crate) fn note(&self, ticket: Ticket, what: impl FnOnce(&mut Request)) {
        if let Some(request) = self.ring.lock().get_mut(ticket.0) {
            what(request);
        }
        self.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Duration;

    use super::*;

    fn request(verb: Verb) -> Request {
        let info = RequestInfo { verb, resource: "pods".into(), ..RequestInfo::other() };
        Request { path: "/api/v1/pods".into(), query: "limit=5&x=a%20b".into(), ..Request::new(info) }
    }

    #[test]
    fn the_oldest_requests_are_dropped_at_the_bound() {
        let journal = Journal::new();
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
    fn an_outcome_finds_its_request_and_parameters_are_decoded() {
        let journal = Journal::new();
        journal.begin(&mut request(Verb::List));
        let ticket = journal.begin(&mut request(Verb::Watch));
        journal.note(ticket, |request| request.outcome = Outcome::Answered(200));
        let watch = journal.requests().pop().unwrap();
        assert_eq!(watch.outcome, Outcome::Answered(200));
        assert_eq!(watch.parameter("x").as_deref(), Some("a b"));
    }

    #[test]
    fn a_mark_divides_before_from_after_and_clearing_keeps_the_numbers() {
        let journal = Journal::new();
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
    async fn whoever_waits_is_told_of_the_request_and_of_its_outcome() {
        let journal = Journal::new();
        let mark = journal.mark();
        let wait = journal.wait(mark, |request| request.outcome == Outcome::Answered(404));
        let ask = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let ticket = journal.begin(&mut request(Verb::List));
            tokio::task::yield_now().await;
            journal.note(ticket, |request| request.outcome = Outcome::Answered(404));
        };
        let (found, ()) = tokio::join!(wait, ask);
        assert_eq!((found.number, found.at), (1, Duration::from_secs(5)));
    }
}
