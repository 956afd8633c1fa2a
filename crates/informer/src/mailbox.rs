//! `Mailbox`: a handler's backlog between the informer that fills it and the task or stream that
//! empties it.
//!
//! One writer (the informer, under its lock) and one reader. The reader registers its waker
//! before it looks, so a push between the look and the wait wakes it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use kube_delta_fifo::{Backlog, Delivery};
use kube_object::{Entry, Event};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::HandlerStatus;

pub(crate) struct Mailbox<T> {
    state: Mutex<State<T>>,
    reader: AtomicWaker,
    /// Whether each initial add has returned; set while `state` is locked.
    synced: watch::Sender<bool>,
    /// Closed and emptied: the reader also leaves what it has in hand.
    abandoned: AtomicBool,
    panics: AtomicU64,
    /// Those of all mailboxes of its informer: a count that never falls.
    all_panics: Arc<AtomicU64>,
    /// From so many events on the writer waits for the reader, where nothing is merged.
    waits_from: Option<usize>,
    /// There may be room again. One waits at most.
    room: Notify,
}

struct State<T> {
    backlog: Backlog<T>,
    /// The initial state has been pushed, so that no pending initial adds means synced.
    complete: bool,
    closed: bool,
    /// What status and logs call the handler.
    name: Arc<str>,
}

/// What happens where a reader is behind by as many events as the mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// What it is told is merged, and nobody waits for it.
    IsMerged,
    /// It is told everything, and the informer waits for it.
    IsWaitedFor,
}

/// What becomes of queued events when a mailbox is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    Drop,
    Deliver,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(mark: usize, behind: Behind, name: &str, all_panics: Arc<AtomicU64>) -> Self {
        let (merges_from, waits_from) = match behind {
            Behind::IsMerged => (mark, None),
            Behind::IsWaitedFor => (usize::MAX, Some(mark.max(1))),
        };
        Self {
            state: Mutex::new(State {
                backlog: Backlog::new(merges_from),
                complete: false,
                closed: false,
                name: name.into(),
            }),
            reader: AtomicWaker::new(),
            synced: watch::Sender::new(false),
            abandoned: AtomicBool::new(false),
            panics: AtomicU64::new(0),
            all_panics,
            waits_from,
            room: Notify::new(),
        }
    }

    /// Comes when another batch may be pushed: at once, unless this reader is to be waited for.
    pub(crate) async fn has_room(&self) {
        let Some(mark) = self.waits_from else { return };
        while !self.is_closed_or_below(mark) {
            // What is taken since the look has left a permit.
            self.room.notified().await;
        }
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.waits_from.is_some()
    }

    fn is_closed_or_below(&self, mark: usize) -> bool {
        let state = self.state.lock();
        state.closed || state.backlog.pending() < mark
    }

    /// Queues events; `complete` once the initial state is among what was pushed.
    pub(crate) fn push(&self, events: Arc<[Event<T>]>, complete: bool) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.complete |= complete;
        state.backlog.push(events);
        self.show_synced(&state);
        drop(state);
        self.reader.wake();
    }

    /// Queues a resync of the whole cache; the caller keeps the cache from changing meanwhile.
    pub(crate) fn push_resync(&self, entries: impl IntoIterator<Item = Entry<T>>) {
        let mut state = self.state.lock();
        if !state.closed {
            state.backlog.push_resync(entries);
            drop(state);
            self.reader.wake();
        }
    }

    /// The next events; `None` once the mailbox is closed and empty.
    pub(crate) fn poll_take(&self, context: &mut Context<'_>) -> Poll<Option<Delivery<T>>> {
        self.reader.register(context.waker());
        let mut state = self.state.lock();
        match state.backlog.take() {
            Some(delivery) => {
                if self.is_waited_for() {
                    self.room.notify_one();
                }
                Poll::Ready(Some(delivery))
            }
            None if state.closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// The handler has returned from each event of the delivery, or never will be called.
    pub(crate) fn returned(&self, mut delivery: Delivery<T>) {
        let mut state = self.state.lock();
        state.backlog.returned(&mut delivery);
        self.show_synced(&state);
        drop(state); // before the delivery: the last references to objects may be in it
    }

    /// Takes nothing more.
    pub(crate) fn close(&self, queued: Queued) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = (queued == Queued::Drop).then(|| {
            self.abandoned.store(true, Ordering::Release);
            state.backlog.clear()
        });
        self.show_synced(&state);
        drop(state); // before the events: the last references to objects may be in them
        self.reader.wake();
        self.room.notify_one();
        drop(dropped);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.state.lock().name)
    }

    pub(crate) fn set_name(&self, name: &str) {
        self.state.lock().name = name.into();
    }

    pub(crate) fn status(&self) -> HandlerStatus {
        let state = self.state.lock();
        HandlerStatus {
            name: (*state.name).to_owned(),
            synced: *self.synced.borrow(),
            pending: state.backlog.pending(),
            merging: state.backlog.is_merging(),
            panics: self.panics(),
        }
    }

    pub(crate) fn pending(&self) -> usize {
        self.state.lock().backlog.pending()
    }

    pub(crate) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    pub(crate) fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.all_panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Unless the handler was left before it knew everything: then it never will.
    fn show_synced(&self, state: &State<T>) {
        if state.complete && state.backlog.initial_pending() == 0 && !self.is_abandoned() {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }
}
