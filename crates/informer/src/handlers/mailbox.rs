//! `Mailbox`: the queued events of one subscriber.
//!
//! There is one writer, the informer under its lock, and one reader, a task or a stream. The reader
//! registers its waker before it checks the queue. A push between the check and the wait therefore
//! wakes it.

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
    state: Mutex<MailboxState<T>>,
    reader: AtomicWaker,
    /// Whether the handler has returned from each initial add. Set while `state` is locked.
    synced: watch::Sender<bool>,
    /// Closed and emptied: the reader also skips the rest of its current delivery.
    abandoned: AtomicBool,
    panics: AtomicU64,
    /// The panics in all mailboxes of the informer, including closed ones.
    all_panics: Arc<AtomicU64>,
    /// The number of pending events from which the writer waits for the reader; `None` without
    /// backpressure.
    backpressure_threshold: Option<usize>,
    /// Notified when there may be room again. There is at most one waiter.
    room: Notify,
}

struct MailboxState<T> {
    backlog: Backlog<T>,
    /// The initial list was pushed. From then on, no pending initial adds means synced.
    complete: bool,
    closed: bool,
    /// The handler in status and logs.
    name: Arc<str>,
}

/// What happens when the number of pending events reaches the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LagPolicy {
    /// Later events are coalesced. The informer does not wait.
    Coalesce,
    /// No event is coalesced. The informer waits for the reader.
    Backpressure,
}

/// What happens to queued events when a mailbox is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    Drop,
    Deliver,
}

impl<T> Mailbox<T> {
    pub(crate) fn new(threshold: usize, policy: LagPolicy, name: &str, all_panics: Arc<AtomicU64>) -> Self {
        let (coalesce_threshold, backpressure_threshold) = match policy {
            LagPolicy::Coalesce => (threshold, None),
            LagPolicy::Backpressure => (usize::MAX, Some(threshold.max(1))),
        };
        Self {
            state: Mutex::new(MailboxState {
                backlog: Backlog::new(coalesce_threshold),
                complete: false,
                closed: false,
                name: name.into(),
            }),
            reader: AtomicWaker::new(),
            synced: watch::Sender::new(false),
            abandoned: AtomicBool::new(false),
            panics: AtomicU64::new(0),
            all_panics,
            backpressure_threshold,
            room: Notify::new(),
        }
    }

    /// Waits until another batch may be pushed. Returns immediately without backpressure.
    pub(crate) async fn wait_for_room(&self) {
        let Some(threshold) = self.backpressure_threshold else { return };
        while !self.is_closed_or_below(threshold) {
            // A `take` since the check has stored a permit.
            self.room.notified().await;
        }
    }

    pub(crate) fn has_backpressure(&self) -> bool {
        self.backpressure_threshold.is_some()
    }

    fn is_closed_or_below(&self, threshold: usize) -> bool {
        let state = self.state.lock();
        state.closed || state.backlog.pending() < threshold
    }

    /// Queues events. `complete`: with them, the whole initial list was pushed.
    pub(crate) fn push(&self, events: Arc<[Event<T>]>, complete: bool) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.complete |= complete;
        state.backlog.push(events);
        self.update_synced(&state);
        drop(state);
        self.reader.wake();
    }

    /// Queues a resync of the whole cache. The caller must prevent writes to the cache meanwhile.
    pub(crate) fn push_resync(&self, entries: impl IntoIterator<Item = Entry<T>>) {
        let mut state = self.state.lock();
        if !state.closed {
            state.backlog.push_resync(entries);
            drop(state);
            self.reader.wake();
        }
    }

    /// Takes the next events. Returns `None` once the mailbox is closed and empty.
    pub(crate) fn poll_take(&self, context: &mut Context<'_>) -> Poll<Option<Delivery<T>>> {
        self.reader.register(context.waker());
        let mut state = self.state.lock();
        match state.backlog.take() {
            Some(delivery) => {
                if self.has_backpressure() {
                    self.room.notify_one();
                }
                Poll::Ready(Some(delivery))
            }
            None if state.closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Records that the handler has returned from each event of the delivery, or will skip the rest.
    pub(crate) fn acknowledge(&self, mut delivery: Delivery<T>) {
        let mut state = self.state.lock();
        state.backlog.acknowledge(&mut delivery);
        self.update_synced(&state);
        drop(state); // before the delivery, which may hold the last references to objects
    }

    /// Refuses all later events. Returns the events that are not delivered.
    #[must_use = "drop the events after all locks are free: they may hold the last references to objects"]
    pub(crate) fn close(&self, queued: Queued) -> Option<Backlog<T>> {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = (queued == Queued::Drop).then(|| {
            self.abandoned.store(true, Ordering::Release);
            state.backlog.clear()
        });
        self.update_synced(&state);
        drop(state);
        self.reader.wake();
        self.room.notify_one();
        dropped
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
            coalescing: state.backlog.is_coalescing(),
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

    /// An abandoned mailbox never becomes synced: its handler did not receive the whole initial list.
    fn update_synced(&self, state: &MailboxState<T>) {
        if state.complete && state.backlog.initial_pending() == 0 && !self.is_abandoned() {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }
}
