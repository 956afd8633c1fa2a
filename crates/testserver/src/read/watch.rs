//! WATCH: a cursor reads frames from the shared log. A watcher does not have a queue. If it falls behind
//! the window of the log, it fails with an expired resourceVersion.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until};

use crate::encoding::body::BodyError;
use crate::encoding::object_encoder::ObjectEncoder;
use crate::faults::StreamingLists;
use crate::faults::open_watches::{Command, EventFault, OpenWatch, PendingWatch};
use crate::journal::WatchEnd;
use crate::read::conversion;
use crate::read::options::{WatchOptions, WatchStart};
use crate::shutdown::closed;
use crate::state::cache::Cache;
use crate::state::{Served, Shared, State};
use crate::status::Status;
use crate::storage::entry::{Change, Entry};
use crate::storage::signal::SignalReceiver;

mod fault;
mod scope;
mod timers;

use fault::WatchFaultState;
use scope::WatchScope;
use timers::{FiredTimer, WatchTimers};

/// The maximum number of events that are read from the log under one lock.
const MAX_BATCH_EVENTS: usize = 256;
/// The maximum duration of a watch, which is one year. A later deadline could overflow.
pub(crate) const MAX_WATCH_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

struct Watcher {
    shared: Arc<Shared>,
    /// The cache that serves the watch; it may lag behind the storage.
    cache: Arc<Cache>,
    scope: WatchScope,
    position: WatchPosition,
    initial: InitialState,
    /// At most one batch of frames to send.
    ready: VecDeque<Bytes>,
    timers: WatchTimers,
    signals: WatchSignals,
    open: Arc<OpenWatch>,
    fault: WatchFaultState,
    connection: Connection,
}

#[derive(Debug, Default)]
struct WatchPosition {
    /// All events up to this revision were sent.
    cursor: u64,
    /// Bookmarks are only sent above this revision.
    start: u64,
    /// A streaming list waits for this revision before it starts.
    awaited: Option<u64>,
}

/// The initial state of a watch, with the bookmark that follows.
#[derive(Debug, Default)]
struct InitialState {
    objects: VecDeque<Arc<Entry>>,
    /// True if a bookmark follows the initial state.
    marks_end: bool,
    /// The revision of that bookmark, until it is sent.
    end_bookmark: Option<u64>,
    /// The number of the frame that contains that bookmark.
    end_bookmark_frame: Option<usize>,
}

struct WatchSignals {
    table: SignalReceiver,
    /// The revision has changed. This wakes a watch whose cache lags by revisions.
    revisions: SignalReceiver,
    closing: watch::Receiver<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Open,
    /// The body completes after the remaining frames.
    Ended,
    /// The connection must break.
    Cut,
}

enum LogRead {
    Frames,
    Nothing,
    /// The resource is no longer served.
    Gone,
}

pub(crate) struct WatchInputs {
    pub shared: Arc<Shared>,
    pub cache: Arc<Cache>,
    pub served: Served,
    pub namespace: Option<String>,
    pub encoder: ObjectEncoder,
    pub arrival: PendingWatch,
    pub closing: watch::Receiver<bool>,
}

/// Opens a watch immediately, and not only at the first poll. The stream ends when the watch times out.
pub(crate) fn watch(
    inputs: WatchInputs,
    options: WatchOptions,
) -> (impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static, Arc<OpenWatch>) {
    let watcher = Box::new(Watcher::open(inputs, options));
    let open = watcher.open.clone();
    let frames = stream::unfold(watcher, |mut watcher| async move {
        let frame = watcher.next().await?;
        Some((frame, watcher))
    });
    (frames, open)
}

impl Watcher {
    fn open(inputs: WatchInputs, options: WatchOptions) -> Self {
        let WatchInputs { shared, cache, served, namespace, encoder, arrival, closing } = inputs;
        let now = Instant::now();
        let timeout = options.timeout.unwrap_or_else(|| random_timeout(&shared)).min(MAX_WATCH_DURATION);
        let bookmarks = options.bookmarks && shared.config.watch_cache;
        let fault = WatchFaultState::new(arrival.fault.as_ref());
        let open = shared.open.open(arrival);
        let table = shared.read(|state| state.store.table(served.table).signal.subscribe());
        let mut watcher = Self {
            scope: WatchScope::new(served, namespace.as_deref(), options.select, encoder),
            position: WatchPosition::default(),
            initial: InitialState {
                marks_end: options.bookmarks && shared.streaming_lists() == StreamingLists::Served,
                ..InitialState::default()
            },
            ready: VecDeque::new(),
            timers: WatchTimers::new(now, timeout, shared.config.bookmark_period, bookmarks),
            signals: WatchSignals { table, revisions: shared.stirs(), closing },
            open,
            fault,
            connection: Connection::Open,
            cache,
            shared,
        };
        let wanted = match options.from {
            WatchStart::Stream(revision) => Some(revision),
            WatchStart::Latest => Some(watcher.shared.revision()),
            _ => None,
        };
        let cached = watcher.shared.read(|state| watcher.cache_revision(state));
        // If the server ignores the parameter, the end of the initial state is not marked.
        let streams =
            watcher.open.request().parameter("sendInitialEvents").is_some_and(|value| value == "true");
        watcher.open.set_sending_initial_state(streams);
        match wanted.filter(|revision| *revision > cached) {
            Some(revision) => watcher.position.awaited = Some(revision),
            None => watcher.begin(options.from),
        }
        watcher
    }

    fn begin(&mut self, from: WatchStart) {
        self.shared.age();
        let shared = self.shared.clone();
        shared.read(|state| {
            // The CRD can be deleted after the request found the resource.
            if !self.scope.is_served(state) {
                return self.end(WatchEnd::Closed);
            }
            let revision = self.cache_revision(state);
            self.position.cursor = if let WatchStart::After(revision) = from { revision } else { revision };
            let reread = state.store.table(self.scope.table()).reread;
            if let WatchStart::After(revision) = from
                && !self.fault.is_silent()
                && let Err(compacted) = state.store.check_start(self.scope.table(), self.cache.id(), revision)
            {
                return self.fail(&expired(shared.config.watch_cache, revision, compacted.floor));
            }
            // Without a watch cache, old events are read from etcd, which keeps them.
            if self.position.cursor < reread && shared.config.watch_cache {
                self.fail(&Status::watch_expired(self.position.cursor, reread));
            }
            if matches!(from, WatchStart::Everything | WatchStart::Stream(_) | WatchStart::Latest)
                && !self.fault.is_silent()
            {
                self.initial.objects = self.scope.objects_at(state, revision);
                self.initial.end_bookmark = self.initial.marks_end.then_some(revision);
            }
        });
        self.position.start = self.position.cursor;
    }

    fn cache_revision(&self, state: &State) -> u64 {
        state.store.position_of(self.scope.table(), self.cache.id(), Instant::now())
    }

    fn is_ended(&self) -> bool {
        self.connection == Connection::Ended
    }

    fn end(&mut self, end: WatchEnd) {
        self.open.end(end);
        self.connection = Connection::Ended;
    }

    fn fail(&mut self, status: &Status) {
        self.ready.push_back(status.frame());
        self.end(match status.code() {
            410 => WatchEnd::Expired,
            code => WatchEnd::Failed(code),
        });
    }

    fn push(&mut self, frame: Bytes) {
        self.scope.encoder.omit_headers();
        let event_fault = self.fault.count_event().inspect(|_| self.open.record_effect());
        match event_fault.or_else(|| self.open.next_event_fault()) {
            Some(EventFault::Lose) => return,
            Some(EventFault::Repeat) => self.ready.push_back(frame.clone()),
            None => {}
        }
        self.ready.push_back(frame);
    }

    /// Closes the watch if its fault requires it at this frame or event.
    fn end_by_fault(&mut self) {
        if self.is_ended() {
            return;
        }
        let Some(status) = self.fault.close_now() else { return };
        self.open.record_effect();
        self.ready.clear();
        match status {
            Some(status) => self.fail(&status),
            None => self.end(WatchEnd::Closed),
        }
    }

    /// Returns the next frame, an error if the connection must break, or `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            self.shared.gate.thawed().await;
            if self.open.is_aborted() {
                self.connection = Connection::Cut;
            }
            if self.connection == Connection::Cut {
                self.open.end(WatchEnd::Cut);
                // Frames that were sent before must reach the client first.
                tokio::task::yield_now().await;
                return Some(Err(BodyError));
            }
            self.end_by_fault();
            if let Some(frame) = self.ready.pop_front() {
                self.fault.count_frame();
                if self.initial.end_bookmark_frame == Some(self.fault.frames()) {
                    self.open.set_sending_initial_state(false);
                }
                return Some(Ok(frame));
            }
            if self.is_ended() {
                return None;
            }
            if let Some(revision) = self.position.awaited.take() {
                match self.cache.clone().reach(&self.shared.clone(), &self.scope.served, revision).await {
                    Ok(()) => self.begin(WatchStart::Stream(revision)),
                    Err(status) => self.fail(&status),
                }
                continue;
            }
            if let Err(status) = self.convert().await {
                self.fail(&status);
                continue;
            }
            match self.fill_ready() {
                LogRead::Frames => continue,
                LogRead::Gone => self.end(WatchEnd::Closed),
                LogRead::Nothing => self.handle_command().await,
            }
        }
    }

    async fn convert(&mut self) -> Result<(), Status> {
        let kind = self.scope.served.kind.clone();
        if kind.conversion_webhook().is_none() {
            return Ok(());
        }
        let mut entries: Vec<_> = self.initial.objects.iter().take(MAX_BATCH_EVENTS).cloned().collect();
        if entries.is_empty() {
            self.shared.read(|state| {
                let events = state.store.events(self.scope.table(), self.cache.id(), self.position.cursor);
                let events = events.into_iter().flatten().take(MAX_BATCH_EVENTS);
                entries.extend(
                    events.flat_map(|event| [Some(event.object.clone()), event.previous.clone()]).flatten(),
                );
            });
        }
        conversion::prepare(&self.shared, &kind, &entries).await
    }

    async fn handle_command(&mut self) {
        match self.open.next() {
            Some(Command::Cut | Command::Abort) => self.connection = Connection::Cut,
            Some(Command::Close) => self.end(WatchEnd::Closed),
            Some(Command::Fail(status)) => self.fail(&status),
            Some(Command::Inject(frame)) => self.ready.push_back(frame),
            Some(Command::Bookmark(revision)) if revision <= self.position.start => {}
            Some(Command::Bookmark(_)) => self.push_bookmark(),
            None => self.wait().await,
        }
    }

    fn fill_ready(&mut self) -> LogRead {
        if self.fault.is_silent() {
            return LogRead::Nothing;
        }
        let shared = self.shared.clone();
        if !self.initial.objects.is_empty() {
            shared.read(|state| self.read_initial_state(state));
            return LogRead::Frames;
        }
        if let Some(revision) = self.initial.end_bookmark.take() {
            self.push_bookmark_at(revision, true);
            self.initial.end_bookmark_frame = Some(self.fault.frames() + self.ready.len());
            return LogRead::Frames;
        }
        shared.read(|state| {
            self.read_events(state);
            if !self.ready.is_empty() || self.is_ended() {
                LogRead::Frames
            } else if !self.scope.is_served(state) {
                LogRead::Gone
            } else {
                LogRead::Nothing
            }
        })
    }

    fn read_initial_state(&mut self, state: &State) {
        let count = self.initial.objects.len().min(MAX_BATCH_EVENTS);
        for entry in self.initial.objects.drain(..count).collect::<Vec<_>>() {
            if !state.store.decodes(&entry) {
                self.initial.objects.clear();
                self.initial.end_bookmark = None;
                return self.fail(&Status::undecodable_event());
            }
            self.push(self.scope.encoder.frame(Change::Added, &entry));
        }
    }

    fn read_events(&mut self, state: &State) {
        let events = match state.store.events(self.scope.table(), self.cache.id(), self.position.cursor) {
            Ok(events) => {
                let end = state.store.table(self.scope.table()).end_of(self.scope.served.incarnation);
                events.take_while(move |event| end.is_none_or(|end| event.revision() <= end))
            }
            Err(compacted) => {
                let cached = self.shared.config.watch_cache;
                return self.fail(&expired(cached, self.position.cursor, compacted.floor));
            }
        };
        let batch = match self.fault.max_waiting_events() {
            Some(max) if events.clone().filter_map(|event| self.scope.frame(event)).nth(max).is_some() => {
                self.open.record_effect();
                return self.end(WatchEnd::Closed);
            }
            // One event at a time, so that the waiting events stay in the log and can be counted.
            Some(_) => 1,
            None => MAX_BATCH_EVENTS,
        };
        for event in events {
            if self.ready.len() >= batch {
                break;
            }
            let frame = self.scope.frame(event);
            if frame.is_some() && !state.store.decodes_event(event) {
                return self.fail(&Status::undecodable_event());
            }
            self.position.cursor = event.revision();
            if let Some(frame) = frame {
                self.push(frame);
            }
        }
    }

    /// Queues a bookmark at the position of the cache. If events are pending or the bookmark would not
    /// advance the client, it is skipped.
    fn push_bookmark(&mut self) {
        let shared = self.shared.clone();
        let revision = shared.read(|state| {
            let cursor = self.position.cursor;
            let mut pending = state.store.events(self.scope.table(), self.cache.id(), cursor).ok()?;
            pending.next().is_none().then(|| self.cache_revision(state))
        });
        match revision {
            Some(revision) if revision > self.position.start && self.timers.sends_bookmarks() => {
                self.push_bookmark_at(revision, false);
            }
            _ => {}
        }
    }

    fn push_bookmark_at(&mut self, revision: u64, initial_end: bool) {
        self.ready.push_back(self.scope.encoder.bookmark(revision, initial_end));
        self.scope.encoder.omit_headers();
    }

    async fn wait(&mut self) {
        let next_timer = self.timers.next();
        let (lags, due) = self.cache.pace(&self.shared);
        let silent = self.fault.is_silent();
        tokio::select! {
            biased;
            () = closed(&mut self.signals.closing) => self.end(WatchEnd::Closed),
            () = self.open.command_received() => {}
            () = self.signals.table.changed(), if !silent => {}
            () = self.signals.revisions.changed(), if lags && !silent => {}
            () = sleep_until(due.unwrap_or(next_timer)),
                if due.is_some_and(|due| due < next_timer) && !silent => {}
            () = sleep_until(next_timer) => self.handle_timer(),
        }
    }

    fn handle_timer(&mut self) {
        match self.timers.fire(Instant::now()) {
            Some(FiredTimer::Timeout) => self.end(WatchEnd::TimedOut),
            Some(FiredTimer::Bookmark) if !self.fault.is_silent() => self.push_bookmark(),
            Some(FiredTimer::Bookmark) | None => {}
        }
    }
}

/// Creates the error for a resourceVersion whose events were dropped from the watch cache or from etcd.
fn expired(cached: bool, requested: u64, floor: u64) -> Status {
    if cached { Status::watch_expired(requested, floor) } else { Status::watch_compacted() }
}

/// Returns the timeout of a watch without `timeoutSeconds`: 30 to 60 minutes.
fn random_timeout(shared: &Shared) -> Duration {
    Duration::from_secs(1800 + shared.random(|rng| rng.u64(..1800)))
}
