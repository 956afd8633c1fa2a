//! Sends the requests of the state machine, and starts their deadlines.

use std::{sync::Arc, time::Duration};

use kube_listwatch::{ListAt, ListRequest, ListWatchError, Target, Verb, WatchFrom, WatchRequest};
use kube_object::{CacheProbe, NoCache, ResourceVersion};
use tokio::time::Instant;

use super::{Driver, Request};
use crate::{
    Deadline, Input, ReflectorOptions, RestartCause, Sink, digest_only::DigestOnlyProbe, slots::SlotsInput,
};

/// The maximum duration of a list with all its pages, as a multiple of the deadline of a page.
const MAX_LIST_DEADLINES: u32 = 15;

impl<T: Send + Sync + 'static, S: Sink<T>> Driver<T, S> {
    pub(super) fn list(&mut self, request: ListRequest, fresh: bool) {
        let source = self.source(matches!(request.at, ListAt::Continue(_)));
        let parts = source.list(request, self.known(fresh));
        self.replace_request(Request::List(parts));
    }

    pub(super) fn stream(&mut self, not_older_than: Option<ResourceVersion>, fresh: bool) {
        self.open_watch(WatchFrom::InitialEvents(not_older_than), self.known(fresh));
        self.reflector.reports.stream_begun();
    }

    pub(super) fn watch(&mut self, after: ResourceVersion) {
        // Do not reuse cached objects for events. If the sink still queues a list of a new epoch, the
        // cache can contain an object of the earlier epoch with the version of an event.
        self.open_watch(WatchFrom::Version(after), Arc::new(NoCache));
        self.reflector.reports.watch_begun();
        self.slots(SlotsInput::WatchBegan);
    }

    pub(super) fn open_watch(&mut self, from: WatchFrom, known: Arc<dyn CacheProbe<T>>) {
        let shortest = self.reflector.options.watch_timeout;
        let timeout = shortest.mul_f64(1.0 + self.rng.f64());
        let request = WatchRequest { from, timeout: Some(timeout), bookmarks: true };
        let events = self.source(false).watch(request, known);
        self.replace_request(Request::Watch { events, began: Instant::now(), timeout });
    }

    /// Drops the open request and all deadlines.
    pub(super) fn replace_request(&mut self, request: Request<T>) {
        self.deadlines.disarm_all();
        self.version_check = None;
        self.request = request;
        self.requests += 1;
        self.requested_at = Instant::now();
    }

    /// Returns the probe for a list.
    pub(super) fn known(&self, fresh: bool) -> Arc<dyn CacheProbe<T>> {
        let known = Arc::clone(&self.reflector.known);
        if fresh { Arc::new(DigestOnlyProbe(known)) } else { known }
    }

    pub(super) fn back_off(&mut self, at_least: Option<Duration>) {
        let over = self.backoff.next(Instant::now(), at_least, &mut self.rng);
        self.replace_request(Request::None);
        self.deadlines.arm(Deadline::Backoff, over);
    }

    pub(super) fn arm(&mut self, deadline: Deadline) {
        if let Some(after) = self.timeout_of(deadline) {
            self.deadlines.arm(deadline, Instant::now() + after);
        }
    }

    /// Returns the duration of a deadline, or `None` if it does not apply to the open request.
    pub(super) fn timeout_of(&self, deadline: Deadline) -> Option<Duration> {
        let options = &self.reflector.options;
        match (deadline, &self.request) {
            (Deadline::List, Request::List(_)) => Some(options.page_timeout(self.list_began.elapsed())),
            (Deadline::List, Request::Watch { .. }) => Some(options.list_deadline),
            (Deadline::InitialEvents, Request::Watch { .. }) => Some(options.streaming_deadline),
            (Deadline::Watch, Request::Watch { timeout, .. }) => Some(*timeout + options.watch_grace),
            (Deadline::Bookmark, Request::Watch { .. }) => Some(options.bookmark_deadline),
            // `back_off` arms the deadline of a backoff.
            _ => None,
        }
    }

    /// Reports a deadline that has passed. The end of a backoff is not reported.
    pub(super) fn fired(&mut self, deadline: Deadline) {
        self.deadlines.disarm(deadline);
        let verb = match &self.request {
            Request::None => None,
            Request::List(_) => Some(Verb::List),
            Request::Watch { .. } => Some(Verb::Watch),
        };
        if let (Some(verb), Some(after)) = (verb, self.timeout_of(deadline)) {
            let target = Target { verb, url: self.reflector.source.path() };
            let after = if after.is_zero() { self.reflector.options.list_timeout() } else { after };
            self.reflector.reports.failed(&ListWatchError::TimedOut { target, after }, false);
            self.watch_over(RestartCause::Silent);
        }
        self.step(Input::Fired(deadline), || None);
    }
}

impl ReflectorOptions {
    /// Returns the timeout of the next page, some time after the start of the list. The time of all pages is
    /// also limited, because a slow server could return new pages for days.
    pub(super) fn page_timeout(&self, elapsed: Duration) -> Duration {
        self.list_deadline.min(self.list_timeout().saturating_sub(elapsed))
    }

    /// Returns the timeout of all pages.
    pub(super) fn list_timeout(&self) -> Duration {
        self.list_deadline * MAX_LIST_DEADLINES
    }
}
