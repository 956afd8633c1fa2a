//! WATCH: a cursor reads frames from the shared log. A watcher does not have a queue. If it falls behind
//! the window of the log, it fails with an expired resourceVersion.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until};

use crate::faults::StreamingLists;
use crate::http::body::BodyError;
use crate::http::object_encoder::ObjectEncoder;
use crate::http::query::{Selection, WatchOptions, WatchStart};
use crate::journal::WatchEnd;
use crate::read::list::prefix;
use crate::read::open_watches::{Command, EventFault, OpenWatch, PendingWatch};
use crate::read::watch_fault::WatchFault;
use crate::replicas::Cache;
use crate::state::{Served, Shared, State};
use crate::status::Status;
use crate::storage::entry::{Change, Entry};
use crate::storage::log::{Event, TableId};

/// At most this many events are read from the log under one lock.
const BATCH: usize = 256;
/// The maximum duration of a watch is one year; a later deadline could overflow.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// The last bookmark is sent this long before the watch times out.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// An open watch.
struct Watcher {
    shared: Arc<Shared>,
    /// The cache that serves the watch; it may lag behind the storage.
    cache: Arc<Cache>,
    table: TableId,
    prefix: String,
    select: Selection,
    everything: bool,
    encoder: ObjectEncoder,
    /// All events up to this revision were sent.
    cursor: u64,
    /// Bookmarks are only sent above this revision.
    start: u64,
    /// A streaming list waits for this revision before it starts.
    awaited_revision: Option<u64>,
    /// Objects of the initial state that are not sent yet.
    initial: VecDeque<Arc<Entry>>,
    /// Whether a bookmark marks the end of the initial state.
    marks_end: bool,
    /// The revision of that bookmark, until it is sent.
    end_bookmark: Option<u64>,
    /// The number of the frame that contains that bookmark.
    end_bookmark_frame: Option<usize>,
    /// At most one batch of frames to send.
    ready: VecDeque<Bytes>,
    bookmark: Bookmarks,
    deadline: Instant,
    signal: watch::Receiver<()>,
    /// Wakes a watch whose cache lags by revisions.
    revisions: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
    open: Arc<OpenWatch>,
    fault: WatchFault,
    /// The number of events and frames sent so far; faults refer to them.
    events: usize,
    frames: usize,
    /// The connection must break.
    cut: bool,
    ended: bool,
}

/// When the next bookmark is due.
#[derive(Clone, Copy, Debug)]
enum Bookmarks {
    Unwanted,
    ListPosition(Instant),
}

/// The result of one read of the log.
enum LogRead {
    Frames,
    Nothing,
    /// The resource is no longer served.
    Gone,
}

/// The inputs of a watch besides its options.
pub(crate) struct WatchInputs {
    pub shared: Arc<Shared>,
    pub cache: Arc<Cache>,
    pub served: Served,
    pub namespace: Option<String>,
    pub encoder: ObjectEncoder,
    pub arrival: PendingWatch,
    pub closing: watch::Receiver<bool>,
}

/// Opens a watch, which starts now and not at the first poll. The stream ends when the watch times out.
pub(crate) fn watch(
    opening: WatchInputs,
    options: WatchOptions,
) -> (impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static, Arc<OpenWatch>) {
    let watcher = Box::new(Watcher::open(opening, options));
    let open = watcher.open.clone();
    let frames = stream::unfold(watcher, |mut watcher| async move {
        let frame = watcher.next().await?;
        Some((frame, watcher))
    });
    (frames, open)
}

impl Watcher {
    fn open(opening: WatchInputs, options: WatchOptions) -> Self {
        let WatchInputs { shared, cache, served, namespace, encoder, arrival, closing } = opening;
        let now = Instant::now();
        let timeout = options.timeout.unwrap_or_else(|| random_timeout(&shared)).min(LONGEST);
        let deadline = now + timeout;
        let period = shared.config.bookmark_period;
        let bookmark = if options.bookmarks && shared.config.watch_cache {
            Bookmarks::ListPosition(next_bookmark(now, deadline, period))
        } else {
            Bookmarks::Unwanted
        };
        let fault = WatchFault::of(arrival.fault.as_ref());
        let open = shared.open.open(arrival);
        let signal = shared.read(|state| state.store.table(served.table).signal.subscribe());
        let mut watcher = Self {
            table: served.table,
            prefix: prefix(namespace.as_deref()),
            everything: options.select.is_everything(),
            select: options.select,
            encoder,
            cursor: 0,
            start: 0,
            awaited_revision: None,
            initial: VecDeque::new(),
            end_bookmark: None,
            end_bookmark_frame: None,
            marks_end: options.bookmarks && shared.streaming_lists() == StreamingLists::Served,
            ready: VecDeque::new(),
            bookmark,
            deadline,
            signal,
            revisions: shared.revisions(),
            closing,
            open,
            fault,
            events: 0,
            frames: 0,
            cut: false,
            ended: false,
            cache,
            shared,
        };
        let wanted = match options.from {
            WatchStart::Stream(revision) => Some(revision),
            WatchStart::Latest => Some(watcher.shared.revision()),
            _ => None,
        };
        let seen = watcher.shared.read(|state| watcher.position(state));
        // If the server ignores the parameter, the end of the initial state is not marked.
        let streams =
            watcher.open.request().parameter("sendInitialEvents").is_some_and(|asked| asked == "true");
        watcher.open.set_sending_initial_state(streams);
        match wanted.filter(|revision| *revision > seen) {
            Some(revision) => watcher.awaited_revision = Some(revision),
            None => watcher.begin(options.from),
        }
        watcher
    }

    fn begin(&mut self, from: WatchStart) {
        self.shared.age();
        let shared = self.shared.clone();
        shared.read(|state| {
            let revision = self.position(state);
            self.cursor = if let WatchStart::After(revision) = from { revision } else { revision };
            let reread = state.store.table(self.table).reread;
            if let WatchStart::After(revision) = from
                && !self.fault.is_silent()
                && let Err(gone) = state.store.check_start(self.table, self.cache.id(), revision)
            {
                return self.fail(&expired(shared.config.watch_cache, revision, gone.floor));
            }
            // Without a watch cache, old events are read from etcd, which keeps them.
            if self.cursor < reread && shared.config.watch_cache {
                self.fail(&Status::watch_expired(self.cursor, reread));
            }
            if matches!(from, WatchStart::Everything | WatchStart::Stream(_) | WatchStart::Latest)
                && !self.fault.is_silent()
            {
                self.initial = self.state_at(state, revision);
                self.end_bookmark = self.marks_end.then_some(revision);
            }
        });
        self.start = self.cursor;
    }

    /// Returns the latest revision that the cache has seen.
    fn position(&self, state: &State) -> u64 {
        state.store.position_of(self.table, self.cache.id(), Instant::now())
    }

    /// Returns the selected objects in the state that the cache has seen.
    fn state_at(&self, state: &State, revision: u64) -> VecDeque<Arc<Entry>> {
        let table = state.store.table(self.table);
        if revision == state.store.revision() {
            let objects = table.under(&self.prefix).map(|(_, entry)| entry);
            return objects.filter(|entry| self.wants(entry)).cloned().collect();
        }
        let then = table.then(revision);
        then.walk(&self.prefix, "").filter(|entry| self.wants(entry)).cloned().collect()
    }

    fn wants(&self, entry: &Entry) -> bool {
        self.everything || self.select.matches(&entry.essentials)
    }

    fn end(&mut self, how: WatchEnd) {
        self.open.end(how);
        self.ended = true;
    }

    fn fail(&mut self, status: &Status) {
        self.ready.push_back(status.frame());
        self.end(match status.code() {
            410 => WatchEnd::Expired,
            code => WatchEnd::Failed(code),
        });
    }

    /// Queues the frame of an event, subject to event faults.
    fn push(&mut self, frame: Bytes) {
        let event_fault = self.fault.event_fault(self.events).inspect(|_| self.open.record_effect());
        let event_fault = event_fault.or_else(|| self.open.next_event_fault());
        self.events += 1;
        match event_fault {
            Some(EventFault::Lose) => return,
            Some(EventFault::Repeat) => self.ready.push_back(frame.clone()),
            None => {}
        }
        self.ready.push_back(frame);
    }

    /// Closes the watch if its fault requires that now.
    fn end_by_fault(&mut self) {
        match &self.fault {
            WatchFault::End(after, status) if self.frames >= *after && !self.ended => {
                let status = status.clone();
                self.open.record_effect();
                self.ready.clear();
                match status {
                    Some(status) => self.fail(&status),
                    None => self.end(WatchEnd::Closed),
                }
            }
            _ => {}
        }
    }

    /// Returns the next frame, an error if the connection must break, or `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            self.shared.gate.thawed().await;
            if self.open.is_aborted() {
                self.cut = true;
            }
            if self.cut {
                self.open.end(WatchEnd::Cut);
                // Frames that were sent before must reach the client first.
                tokio::task::yield_now().await;
                return Some(Err(BodyError));
            }
            self.end_by_fault();
            if let Some(frame) = self.ready.pop_front() {
                self.frames += 1;
                if self.end_bookmark_frame == Some(self.frames) {
                    self.open.set_sending_initial_state(false);
                }
                return Some(Ok(frame));
            }
            if self.ended {
                return None;
            }
            if let Some(revision) = self.awaited_revision.take() {
                match self.cache.clone().reach(&self.shared.clone(), self.table, revision).await {
                    Ok(()) => self.begin(WatchStart::Stream(revision)),
                    Err(status) => self.fail(&status),
                }
                continue;
            }
            match self.fill_ready() {
                LogRead::Frames => continue,
                LogRead::Gone => self.end(WatchEnd::Closed),
                LogRead::Nothing => self.handle_command().await,
            }
        }
    }

    /// Executes the next command, or waits.
    async fn handle_command(&mut self) {
        match self.open.next() {
            Some(Command::Cut | Command::Abort) => self.cut = true,
            Some(Command::Close) => self.end(WatchEnd::Closed),
            Some(Command::Fail(status)) => self.fail(&status),
            Some(Command::Inject(frame)) => self.ready.push_back(frame),
            Some(Command::Bookmark(revision)) if revision <= self.start => {}
            Some(Command::Bookmark(_)) => self.push_bookmark(),
            None => self.wait().await,
        }
    }

    /// Fills `ready`: the initial state first, then events.
    fn fill_ready(&mut self) -> LogRead {
        if self.fault.is_silent() {
            return LogRead::Nothing;
        }
        let shared = self.shared.clone();
        if !self.initial.is_empty() {
            shared.read(|state| self.read_initial_state(state));
            return LogRead::Frames;
        }
        if let Some(revision) = self.end_bookmark.take() {
            self.ready.push_back(self.encoder.bookmark(revision, true));
            self.end_bookmark_frame = Some(self.frames + self.ready.len());
            return LogRead::Frames;
        }
        shared.read(|state| {
            self.read_events(state);
            match self.ready.is_empty() && !self.ended {
                false => LogRead::Frames,
                true if state.store.table(self.table).closed => LogRead::Gone,
                true => LogRead::Nothing,
            }
        })
    }

    fn read_initial_state(&mut self, state: &State) {
        let count = self.initial.len().min(BATCH);
        for entry in self.initial.drain(..count).collect::<Vec<_>>() {
            if !state.store.decodes(&entry) {
                self.initial.clear();
                self.end_bookmark = None;
                return self.fail(&Status::undecodable_event());
            }
            self.push(self.encoder.frame(Change::Added, &entry));
        }
    }

    fn read_events(&mut self, state: &State) {
        let events = match state.store.events(self.table, self.cache.id(), self.cursor) {
            Ok(events) => events,
            Err(gone) => {
                let cached = self.shared.config.watch_cache;
                return self.fail(&expired(cached, self.cursor, gone.floor));
            }
        };
        let batch = match self.fault {
            // One event at a time, so that the waiting events stay in the log and can be counted.
            WatchFault::SlowReader(most)
                if events.clone().filter_map(|event| self.frame(event)).nth(most).is_some() =>
            {
                self.open.record_effect();
                return self.end(WatchEnd::Closed);
            }
            WatchFault::SlowReader(_) => 1,
            _ => BATCH,
        };
        for event in events {
            if self.ready.len() >= batch {
                break;
            }
            let frame = self.frame(event);
            if frame.is_some() && !state.store.decodes_event(event) {
                return self.fail(&Status::undecodable_event());
            }
            self.cursor = event.revision();
            if let Some(frame) = frame {
                self.push(frame);
            }
        }
    }

    /// Returns the frame of an event for this watch. An object that starts to match is added; an object
    /// that stops to match is deleted.
    fn frame(&self, event: &Event) -> Option<Bytes> {
        if !event.object.key().starts_with(&self.prefix) {
            return None;
        }
        if self.everything {
            return Some(self.encoder.frame(event.change, &event.object));
        }
        let is = event.change != Change::Deleted && self.wants(&event.object);
        let was = event.previous.as_ref().filter(|previous| self.wants(previous));
        match (was, is) {
            (None, false) => None,
            (None, true) => Some(self.encoder.frame(Change::Added, &event.object)),
            (Some(_), true) => Some(self.encoder.frame(Change::Modified, &event.object)),
            (Some(previous), false) => {
                let last = previous.with_change(Change::Deleted, event.revision());
                Some(self.encoder.frame(Change::Deleted, &last))
            }
        }
    }

    /// Queues a bookmark at the position of the cache. If events are pending or the bookmark would not
    /// advance the client, it is skipped.
    fn push_bookmark(&mut self) {
        let shared = self.shared.clone();
        let revision = shared.read(|state| {
            let mut unseen = state.store.events(self.table, self.cache.id(), self.cursor).ok()?;
            unseen.next().is_none().then(|| self.position(state))
        });
        match revision {
            Some(revision) if revision > self.start && !matches!(self.bookmark, Bookmarks::Unwanted) => {
                self.ready.push_back(self.encoder.bookmark(revision, false));
            }
            _ => {}
        }
    }

    /// Waits for events, commands, the next bookmark or the end.
    async fn wait(&mut self) {
        let alarm = match self.bookmark {
            Bookmarks::ListPosition(due) => due.min(self.deadline),
            Bookmarks::Unwanted => self.deadline,
        };
        let (lags, due) = self.cache.pace(&self.shared);
        let silent = self.fault.is_silent();
        tokio::select! {
            biased;
            () = closed(&mut self.closing) => self.end(WatchEnd::Closed),
            () = self.open.command_received() => {}
            Ok(()) = self.signal.changed(), if !silent => {}
            Ok(()) = self.revisions.changed(), if lags && !silent => {}
            () = sleep_until(due.unwrap_or(alarm)), if due.is_some_and(|due| due < alarm) && !silent => {}
            () = sleep_until(alarm) => self.alarm(),
        }
    }

    fn alarm(&mut self) {
        let now = Instant::now();
        if now >= self.deadline {
            self.end(WatchEnd::TimedOut);
        } else if let Bookmarks::ListPosition(_) = self.bookmark {
            self.bookmark = Bookmarks::ListPosition(next_bookmark(
                now,
                self.deadline,
                self.shared.config.bookmark_period,
            ));
            if !self.fault.is_silent() {
                self.push_bookmark();
            }
        }
    }
}

/// The error for a version whose events were dropped, from the watch cache or from etcd.
fn expired(cached: bool, asked: u64, floor: u64) -> Status {
    if cached { Status::watch_expired(asked, floor) } else { Status::watch_compacted() }
}

/// Waits until the listener shuts down; never returns if there is no listener.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Without `timeoutSeconds`, the timeout of a watch is 30 to 60 minutes.
fn random_timeout(shared: &Shared) -> Duration {
    Duration::from_secs(1800 + shared.random(|rng| rng.u64(..1800)))
}

fn next_bookmark(now: Instant, deadline: Instant, period: Duration) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    last.map_or(now + period, |last| last.min(now + period))
}
