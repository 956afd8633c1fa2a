//! WATCH: frames read from the shared log by a cursor. A watcher has no queue of its own; one that falls behind the
//! log's window is told that its version is too old.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until};

use crate::http::body::Broken;
use crate::http::query::{From, Selection, WatchOptions};
use crate::http::view::View;
use crate::journal::About;
use crate::read::list::prefix;
use crate::read::open_watches::{Command, OpenWatch};
use crate::state::{Served, Shared};
use crate::status::Status;
use crate::storage::entry::{Change, Entry};
use crate::storage::log::{Event, TableId};

/// At most this many events are taken from the log under one lock.
const BATCH: usize = 256;
/// A bookmark is sent this long before the watch's time is over.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// An open watch.
struct Watcher {
    shared: Arc<Shared>,
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
    /// Frames to send; at most one batch.
    ready: VecDeque<Bytes>,
    bookmark: Bookmarks,
    deadline: Instant,
    signal: watch::Receiver<()>,
    closing: watch::Receiver<bool>,
    open: Arc<OpenWatch>,
    silent: bool,
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
    pub served: Served,
    pub namespace: Option<String>,
    pub view: View,
    pub about: About,
    pub closing: watch::Receiver<bool>,
    /// Nothing is said until the time is over.
    pub silent: bool,
}

/// Opens a watch, which starts now and not when it is first read. Its stream ends when the watch's time is over.
pub(crate) fn watch(
    opening: Opening,
    options: WatchOptions,
) -> impl Stream<Item = Result<Bytes, Broken>> + Send + 'static {
    stream::unfold(Box::new(Watcher::open(opening, options)), |mut watcher| async move {
        let frame = watcher.next().await?;
        Some((frame, watcher))
    })
}

impl Watcher {
    fn open(opening: Opening, options: WatchOptions) -> Self {
        let Opening { shared, served, namespace, view, about, closing, silent } = opening;
        let now = Instant::now();
        let timeout = options.timeout.unwrap_or_else(|| random_timeout(&shared));
        let deadline = now + timeout;
        let period = shared.config.bookmark_period;
        let bookmark = if options.bookmarks && shared.config.watch_cache {
            Bookmarks::At(next_bookmark(now, deadline, period))
        } else {
            Bookmarks::Unwanted
        };
        let open = shared.open.open(about);
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
            marks_end: options.bookmarks && shared.config.streaming_lists,
            ready: VecDeque::new(),
            bookmark,
            deadline,
            signal,
            closing,
            open,
            silent,
            ended: false,
            shared,
        };
        match options.from {
            From::Stream(revision) if revision > watcher.shared.revision() => {
                watcher.awaited = Some(revision);
            }
            from => watcher.begin(from),
        }
        watcher
    }

    fn begin(&mut self, from: From) {
        self.shared.age();
        let shared = self.shared.clone();
        shared.read(|state| {
            let revision = state.store.revision();
            self.cursor = if let From::After(revision) = from { revision } else { revision };
            let reread = state.store.table(self.table).reread;
            if self.cursor < reread {
                self.fail(&Status::watch_expired(self.cursor, reread));
            }
            if matches!(from, From::Everything | From::Stream(_)) && !self.silent {
                let objects = state.store.table(self.table).under(&self.prefix);
                let wanted = objects.filter(|(_, entry)| self.wants(entry)).map(|(_, entry)| entry.clone());
                self.initial = wanted.collect();
                self.end_bookmark = self.marks_end.then_some(revision);
            }
        });
        self.start = self.cursor;
    }

    fn wants(&self, entry: &Entry) -> bool {
        self.everything || self.select.matches(&entry.essentials)
    }

    fn fail(&mut self, status: &Status) {
        self.ready.push_back(status.frame());
        self.ended = true;
    }

    /// The next frame, an error where the connection is to break, or the end.
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(Ok(frame));
            }
            if self.ended {
                return None;
            }
            if let Some(revision) = self.awaited.take() {
                match self.shared.clone().reach(revision).await {
                    Ok(()) => self.begin(From::Stream(revision)),
                    Err(status) => self.fail(&status),
                }
                continue;
            }
            match self.look() {
                Found::Frames => continue,
                Found::Gone => return None,
                Found::Nothing => {}
            }
            match self.open.next() {
                Some(Command::Cut) => {
                    // What was sent before goes out first.
                    tokio::task::yield_now().await;
                    return Some(Err(Broken));
                }
                Some(Command::Close) => return None,
                Some(Command::Inject(frame)) => self.ready.push_back(frame),
                Some(Command::Bookmark(revision)) if revision <= self.start => {}
                Some(Command::Bookmark(_)) => self.push_bookmark(),
                None => self.wait().await,
            }
        }
    }

    /// Fills `ready`: the initial state first, then events.
    fn look(&mut self) -> Found {
        if self.silent {
            return Found::Nothing;
        }
        if !self.initial.is_empty() {
            let count = self.initial.len().min(BATCH);
            self.ready
                .extend(self.initial.drain(..count).map(|entry| self.view.frame(Change::Added, &entry)));
            return Found::Frames;
        }
        if let Some(revision) = self.end_bookmark.take() {
            self.ready.push_back(self.view.bookmark(revision, true));
            return Found::Frames;
        }
        let shared = self.shared.clone();
        shared.read(|state| {
            let table = state.store.table(self.table);
            let events = match table.after(self.cursor) {
                Ok(events) => events,
                Err(gone) => {
                    self.fail(&expired(shared.config.watch_cache, self.cursor, gone.floor));
                    return Found::Frames;
                }
            };
            for event in events {
                if self.ready.len() == BATCH {
                    break;
                }
                self.cursor = event.revision();
                let frame = self.frame(event);
                self.ready.extend(frame);
            }
            match self.ready.is_empty() {
                false => Found::Frames,
                true if table.closed => Found::Gone,
                true => Found::Nothing,
            }
        })
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

    /// A bookmark at the present revision, unless events are still to be sent or it would say nothing new.
    fn push_bookmark(&mut self) {
        let revision = self.shared.read(|state| {
            let mut after = state.store.table(self.table).after(self.cursor).ok()?;
            after.next().is_none().then(|| state.store.revision())
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
        tokio::select! {
            biased;
            () = closed(&mut self.closing) => self.ended = true,
            () = self.open.told() => {}
            Ok(()) = self.signal.changed(), if !self.silent => {}
            () = sleep_until(alarm) => self.alarm(),
        }
    }

    fn alarm(&mut self) {
        let now = Instant::now();
        if now >= self.deadline {
            self.ended = true;
        } else if let Bookmarks::At(_) = self.bookmark {
            self.bookmark =
                Bookmarks::At(next_bookmark(now, self.deadline, self.shared.config.bookmark_period));
            if !self.silent {
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
