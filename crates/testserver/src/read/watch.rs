//! WATCH: frames read from the shared log by a cursor. A watcher has no queue of its own; one that falls behind the
//! log's window is told that its version is too old.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until};

use crate::faults::StreamingLists;
use crate::http::body::Broken;
use crate::http::query::{From, Selection, WatchOptions};
use crate::http::view::View;
use crate::journal::WatchEnd;
use crate::read::list::prefix;
use crate::read::open_watches::{Arrival, Command, OpenWatch, Slip};
use crate::read::quirk::Quirk;
use crate::replicas::Cache;
use crate::state::{Served, Shared, State};
use crate::status::Status;
use crate::storage::entry::{Change, Entry};
use crate::storage::log::{Event, TableId};

/// At most this many events are taken from the log under one lock.
const BATCH: usize = 256;
/// No watch is longer, whatever was asked for: a year. Further on, a moment may be none.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// A bookmark is sent this long before the watch's time is over.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// An open watch.
struct Watcher {
    shared: Arc<Shared>,
    /// What it is served from, which may lag behind what is stored.
    cache: Arc<Cache>,
    table: TableId,
    prefix: String,
    select: Selection,
    everything: bool,
    view: View,
    /// The revision up to which everything was sent.
    cursor: u64,
    /// Bookmarks are only sent above this revision.
    start: u64,
    /// A streaming list that still waits for this revision.
    awaited: Option<u64>,
    /// Objects that are still to be sent as the initial state.
    initial: VecDeque<Arc<Entry>>,
    /// Whether a bookmark says where the initial state ends.
    marks_end: bool,
    /// That bookmark, still to be sent.
    end_bookmark: Option<u64>,
    /// With this frame it goes out.
    end_frame: Option<usize>,
    /// Frames to send; at most one batch.
    ready: VecDeque<Bytes>,
    bookmark: Bookmarks,
    deadline: Instant,
    signal: watch::Receiver<()>,
    /// Moves a cache that lags by revisions.
    revisions: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
    open: Arc<OpenWatch>,
    quirk: Quirk,
    /// How many events and frames were sent, for the quirk.
    events: usize,
    frames: usize,
    /// The connection is to break.
    cut: bool,
    ended: bool,
}

/// When the next bookmark is due.
#[derive(Clone, Copy, Debug)]
enum Bookmarks {
    Unwanted,
    At(Instant),
}

/// What a look at the log found.
enum Found {
    Frames,
    Nothing,
    /// The resource is no longer served.
    Gone,
}

/// What a watch needs besides its options.
pub(crate) struct Opening {
    pub shared: Arc<Shared>,
    pub cache: Arc<Cache>,
    pub served: Served,
    pub namespace: Option<String>,
    pub view: View,
    pub arrival: Arrival,
    pub closing: watch::Receiver<bool>,
}

/// Opens a watch, which starts now and not when it is first read. Its stream ends when the watch's time is over.
pub(crate) fn watch(
    opening: Opening,
    options: WatchOptions,
) -> (impl Stream<Item = Result<Bytes, Broken>> + Send + 'static, Arc<OpenWatch>) {
    let watcher = Box::new(Watcher::open(opening, options));
    let open = watcher.open.clone();
    let frames = stream::unfold(watcher, |mut watcher| async move {
        let frame = watcher.next().await?;
        Some((frame, watcher))
    });
    (frames, open)
}

impl Watcher {
    fn open(opening: Opening, options: WatchOptions) -> Self {
        let Opening { shared, cache, served, namespace, view, arrival, closing } = opening;
        let now = Instant::now();
        let timeout = options.timeout.unwrap_or_else(|| random_timeout(&shared)).min(LONGEST);
        let deadline = now + timeout;
        let period = shared.config.bookmark_period;
        let bookmark = if options.bookmarks && shared.config.watch_cache {
            Bookmarks::At(next_bookmark(now, deadline, period))
        } else {
            Bookmarks::Unwanted
        };
        let quirk = Quirk::of(arrival.fault.as_ref());
        let open = shared.open.open(arrival);
        let signal = shared.read(|state| state.store.table(served.table).signal.subscribe());
        let mut watcher = Self {
            table: served.table,
            prefix: prefix(namespace.as_deref()),
            everything: options.select.is_everything(),
            select: options.select,
            view,
            cursor: 0,
            start: 0,
            awaited: None,
            initial: VecDeque::new(),
            end_bookmark: None,
            end_frame: None,
            marks_end: options.bookmarks && shared.streaming_lists() == StreamingLists::Served,
            ready: VecDeque::new(),
            bookmark,
            deadline,
            signal,
            revisions: shared.revisions(),
            closing,
            open,
            quirk,
            events: 0,
            frames: 0,
            cut: false,
            ended: false,
            cache,
            shared,
        };
        let wanted = match options.from {
            From::Stream(revision) => Some(revision),
            From::Latest => Some(watcher.shared.revision()),
            _ => None,
        };
        let seen = watcher.shared.read(|state| watcher.position(state));
        // Where the server ignores the parameter the initial state has no end.
        let streams =
            watcher.open.request().parameter("sendInitialEvents").is_some_and(|asked| asked == "true");
        watcher.open.tells_initial_state(streams);
        match wanted.filter(|revision| *revision > seen) {
            Some(revision) => watcher.awaited = Some(revision),
            None => watcher.begin(options.from),
        }
        watcher
    }

    fn begin(&mut self, from: From) {
        self.shared.age();
        let shared = self.shared.clone();
        shared.read(|state| {
            let revision = self.position(state);
            self.cursor = if let From::After(revision) = from { revision } else { revision };
            let reread = state.store.table(self.table).reread;
            if let From::After(revision) = from
                && !self.quirk.is_silent()
                && let Err(gone) = state.store.check_start(self.table, self.cache.id(), revision)
            {
                return self.fail(&expired(shared.config.watch_cache, revision, gone.floor));
            }
            // Without a cache the past is read from etcd, which keeps it.
            if self.cursor < reread && shared.config.watch_cache {
                self.fail(&Status::watch_expired(self.cursor, reread));
            }
            if matches!(from, From::Everything | From::Stream(_) | From::Latest) && !self.quirk.is_silent() {
                self.initial = self.state_at(state, revision);
                self.end_bookmark = self.marks_end.then_some(revision);
            }
        });
        self.start = self.cursor;
    }

    /// What the cache has seen.
    fn position(&self, state: &State) -> u64 {
        state.store.position_of(self.table, self.cache.id(), Instant::now())
    }

    /// The objects that are wanted, as the cache knows them.
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

    /// An event is next; it may slip.
    fn push(&mut self, frame: Bytes) {
        let slip = self.quirk.slip(self.events).inspect(|_| self.open.struck());
        let slip = slip.or_else(|| self.open.next_slip());
        self.events += 1;
        match slip {
            Some(Slip::Lose) => return,
            Some(Slip::Repeat) => self.ready.push_back(frame.clone()),
            None => {}
        }
        self.ready.push_back(frame);
    }

    /// Ends the watch where its quirk says so.
    fn end_by_quirk(&mut self) {
        match &self.quirk {
            Quirk::End(after, status) if self.frames >= *after && !self.ended => {
                let status = status.clone();
                self.open.struck();
                self.ready.clear();
                match status {
                    Some(status) => self.fail(&status),
                    None => self.end(WatchEnd::Closed),
                }
            }
            _ => {}
        }
    }

    /// The next frame, an error where the connection is to break, or the end.
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            self.shared.gate.thawed().await;
            if self.open.is_aborted() {
                self.cut = true;
            }
            if self.cut {
                self.open.end(WatchEnd::Cut);
                // What was sent before goes out first.
                tokio::task::yield_now().await;
                return Some(Err(Broken));
            }
            self.end_by_quirk();
            if let Some(frame) = self.ready.pop_front() {
                self.frames += 1;
                if self.end_frame == Some(self.frames) {
                    self.open.tells_initial_state(false);
                }
                return Some(Ok(frame));
            }
            if self.ended {
                return None;
            }
            if let Some(revision) = self.awaited.take() {
                match self.cache.clone().reach(&self.shared.clone(), self.table, revision).await {
                    Ok(()) => self.begin(From::Stream(revision)),
                    Err(status) => self.fail(&status),
                }
                continue;
            }
            match self.look() {
                Found::Frames => continue,
                Found::Gone => self.end(WatchEnd::Closed),
                Found::Nothing => self.obey().await,
            }
        }
    }

    /// Does what the next command says, or waits.
    async fn obey(&mut self) {
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
    fn look(&mut self) -> Found {
        if self.quirk.is_silent() {
            return Found::Nothing;
        }
        let shared = self.shared.clone();
        if !self.initial.is_empty() {
            shared.read(|state| self.look_at_initial(state));
            return Found::Frames;
        }
        if let Some(revision) = self.end_bookmark.take() {
            self.ready.push_back(self.view.bookmark(revision, true));
            self.end_frame = Some(self.frames + self.ready.len());
            return Found::Frames;
        }
        shared.read(|state| {
            self.look_at_events(state);
            match self.ready.is_empty() && !self.ended {
                false => Found::Frames,
                true if state.store.table(self.table).closed => Found::Gone,
                true => Found::Nothing,
            }
        })
    }

    fn look_at_initial(&mut self, state: &State) {
        let count = self.initial.len().min(BATCH);
        for entry in self.initial.drain(..count).collect::<Vec<_>>() {
            if !state.store.decodes(&entry) {
                self.initial.clear();
                self.end_bookmark = None;
                return self.fail(&Status::undecodable_event());
            }
            self.push(self.view.frame(Change::Added, &entry));
        }
    }

    fn look_at_events(&mut self, state: &State) {
        let events = match state.store.events(self.table, self.cache.id(), self.cursor) {
            Ok(events) => events,
            Err(gone) => {
                let cached = self.shared.config.watch_cache;
                return self.fail(&expired(cached, self.cursor, gone.floor));
            }
        };
        let batch = match self.quirk {
            // Nothing is read ahead, so that what waits is in the log and can be counted.
            Quirk::SlowReader(most)
                if events.clone().filter_map(|event| self.frame(event)).nth(most).is_some() =>
            {
                self.open.struck();
                return self.end(WatchEnd::Closed);
            }
            Quirk::SlowReader(_) => 1,
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

    /// What this watch says about an event: an object that starts to match is added, one that stops is deleted.
    fn frame(&self, event: &Event) -> Option<Bytes> {
        if !event.object.key().starts_with(&self.prefix) {
            return None;
        }
        if self.everything {
            return Some(self.view.frame(event.change, &event.object));
        }
        let is = event.change != Change::Deleted && self.wants(&event.object);
        let was = event.previous.as_ref().filter(|previous| self.wants(previous));
        match (was, is) {
            (None, false) => None,
            (None, true) => Some(self.view.frame(Change::Added, &event.object)),
            (Some(_), true) => Some(self.view.frame(Change::Modified, &event.object)),
            (Some(previous), false) => {
                let last = previous.again(Change::Deleted, event.revision());
                Some(self.view.frame(Change::Deleted, &last))
            }
        }
    }

    /// A bookmark at what the cache has seen, unless events are still to be sent or it would say nothing new.
    fn push_bookmark(&mut self) {
        let shared = self.shared.clone();
        let revision = shared.read(|state| {
            let mut unseen = state.store.events(self.table, self.cache.id(), self.cursor).ok()?;
            unseen.next().is_none().then(|| self.position(state))
        });
        match revision {
            Some(revision) if revision > self.start && !matches!(self.bookmark, Bookmarks::Unwanted) => {
                self.ready.push_back(self.view.bookmark(revision, false));
            }
            _ => {}
        }
    }

    /// Waits for something to do: events, commands, a bookmark's time or the end.
    async fn wait(&mut self) {
        let alarm = match self.bookmark {
            Bookmarks::At(due) => due.min(self.deadline),
            Bookmarks::Unwanted => self.deadline,
        };
        let (lags, due) = self.cache.pace(&self.shared);
        let silent = self.quirk.is_silent();
        tokio::select! {
            biased;
            () = closed(&mut self.closing) => self.end(WatchEnd::Closed),
            () = self.open.told() => {}
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
        } else if let Bookmarks::At(_) = self.bookmark {
            self.bookmark =
                Bookmarks::At(next_bookmark(now, self.deadline, self.shared.config.bookmark_period));
            if !self.quirk.is_silent() {
                self.push_bookmark();
            }
        }
    }
}

/// A version whose events are gone, as the watch cache says it or etcd itself.
fn expired(cached: bool, asked: u64, floor: u64) -> Status {
    if cached { Status::watch_expired(asked, floor) } else { Status::watch_compacted() }
}

/// Waits until the listener shuts down; for ever where there is none.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Without `timeoutSeconds` a watch lasts from 30 to 60 minutes.
fn random_timeout(shared: &Shared) -> Duration {
    Duration::from_secs(1800 + shared.random(|rng| rng.u64(..1800)))
}

fn next_bookmark(now: Instant, deadline: Instant, period: Duration) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    last.map_or(now + period, |last| last.min(now + period))
}
