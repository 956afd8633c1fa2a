//! `Mailbox`: the queued events of one subscriber.
//!
//! A mailbox has one writer and one reader. The writer is the informer, under its lock. The reader
//! is a task or a stream. The reader registers its waker before it checks the queue, so a push
//! between the check and the wait wakes the reader.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use kube_delta_fifo::{Backlog, Delivery, EventList, EventPages};
use kube_object::{Entry, Event};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::HandlerStatus;

pub(crate) struct Mailbox<T> {
    state: Mutex<MailboxState<T>>,
    reader: AtomicWaker,
    /// Whether the handler has returned from each initial add. Set while `state` is locked.
    synced: watch::Sender<bool>,
    /// The mailbox was closed and its events were dropped. The reader also skips the remaining
    /// events of its current delivery.
    abandoned: AtomicBool,
    panics: AtomicU64,
    /// The number of panics in all mailboxes of the informer, including closed mailboxes.
    all_panics: Arc<AtomicU64>,
    /// The number of pending events from which the writer waits for the reader. `None` without
    /// backpressure.
    backpressure_threshold: Option<usize>,
    /// Notified after events were removed. There is at most one waiter.
    room: Notify,
}

struct MailboxState<T> {
    backlog: Backlog<T>,
    /// The complete initial list was pushed. The handler is synced when no initial add is pending.
    complete: bool,
    closed: bool,
    /// The name of the handler in status and logs.
    name: Arc<str>,
}

/// The behaviour when the number of pending events reaches the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LagPolicy {
    /// Later events are coalesced. The informer does not wait.
    Coalesce,
    /// No event is coalesced. The informer waits for the reader.
    Backpressure,
}

/// The treatment of the queued events when a mailbox is closed.
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
            // If the reader has taken events since the check, a permit is stored.
            self.room.notified().await;
        }
    }

    pub(crate) fn has_backpressure(&self) -> bool {
        self.backpressure_threshold.is_some()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn is_closed_or_below(&self, threshold: usize) -> bool {
        let state = self.state.lock();
        state.closed || state.backlog.pending() < threshold
    }

    /// Queues events. `complete` is true if these events complete the initial list, or follow it.
    pub(crate) fn push(&self, events: Arc<[Event<T>]>, complete: bool) {
        self.push_with(complete, |backlog| backlog.push(events));
    }

    /// Queues the events of a large write.
    pub(crate) fn push_list(&self, events: &EventList<T>, complete: bool) {
        self.push_with(complete, |backlog| backlog.push_list(events));
    }

    /// Queues the events of a snapshot, which are created when they are delivered.
    pub(crate) fn push_pages(&self, pages: Arc<dyn EventPages<T>>, complete: bool) {
        self.push_with(complete, |backlog| backlog.push_pages(pages));
    }

    fn push_with(&self, complete: bool, push: impl FnOnce(&mut Backlog<T>)) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.complete |= complete;
        push(&mut state.backlog);
        self.update_synced(&state);
        drop(state);
        self.reader.wake();
    }

    /// Queues a page of a resync if no event is queued. Returns false otherwise. The caller must
    /// prevent concurrent writes to the cache.
    pub(crate) fn push_resync(&self, entries: Vec<Entry<T>>) -> bool {
        let mut state = self.state.lock();
        let is_empty = state.backlog.is_empty() && !state.closed;
        if is_empty {
            state.backlog.push_resync(entries);
        }
        is_empty
    }

    /// Takes the next events. Returns `None` if the mailbox is closed and empty.
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

    /// Waits until the mailbox is closed. Only the reader may call this method.
    pub(crate) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        self.reader.register(context.waker());
        if self.is_closed() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Records that the handler has returned from each event of the delivery, or that the mailbox
    /// is abandoned.
    pub(crate) fn acknowledge(&self, mut delivery: Delivery<T>) {
        let mut state = self.state.lock();
        state.backlog.acknowledge(&mut delivery);
        self.update_synced(&state);
        drop(state); // The delivery is dropped without the lock. It may hold the last references to objects.
    }

    /// Closes the mailbox, which then ignores events. Returns the queued events that will not be
    /// delivered.
    #[must_use = "drop the events after all locks are released, because they may hold the last references to objects"]
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
        // The writer must not wait for the reader of a closed mailbox, which may never take events again.
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

    /// Sets `synced` when no initial add is pending. Never sets `synced` for an abandoned mailbox,
    /// because its handler did not receive the complete initial list.
    fn update_synced(&self, state: &MailboxState<T>) {
        if state.complete && state.backlog.initial_pending() == 0 && !self.is_abandoned() {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }
}
