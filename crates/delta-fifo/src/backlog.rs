//! `Backlog`: the events that one handler has not received. It holds shared batches below a
//! threshold, and coalesced changes above the threshold.

mod coalesce;
mod coalesced;
mod paged;

use std::{
    collections::{HashSet, VecDeque},
    mem,
    ops::Deref,
    sync::Arc,
};

use kube_object::{Entry, Event, ObjectKey};

use coalesced::{CoalescedChanges, is_initial};
use paged::Paged;
pub use paged::{EventList, EventPages};

/// The default number of pending events at which coalescing starts. Below this number, a handler
/// receives each event of a burst unchanged.
pub const DEFAULT_COALESCE_THRESHOLD: usize = 1024;

/// Holds the events that one handler has not received, as plain data.
///
/// Below the threshold, a batch is queued unchanged, as one `Arc` that all handlers share. When the
/// number of queued events reaches the threshold, later events are coalesced into one change per
/// key. The oldest key is delivered first. Coalescing stops when no coalesced change remains.
///
/// # Bound
/// A backlog holds only these events:
/// - fewer events than the threshold, and one further batch,
/// - one change for each key that exists or that was delivered to the handler.
///
/// If an object is added and deleted before its delivery, both events are removed. The events of
/// [`push_pages`] do not need memory before their delivery.
///
/// A [`Delivery`] that [`take`] has returned also holds its events until it is dropped.
///
/// [`push`] accepts all events and never waits. With the threshold `usize::MAX`, events are never
/// coalesced. The caller must then limit the memory, and must not call [`push`] while [`pending`]
/// is too large.
///
/// # Contract
/// 1. The delivered events of each key form a history. An object is *known* from the delivery of
///    its Add to the delivery of its Delete. An Add contains an unknown object. The old state of an
///    Update is the most recently delivered state. A Delete contains a known object. The last event
///    contains the newest state. A Delete of a known object is never lost.
/// 2. Below the threshold, each event is delivered unchanged. Above the threshold, an Add followed
///    by Updates becomes an Add of the newest state, with the `initial` of the first Add. A Delete
///    contains the last state in the cache.
/// 3. Only events above the threshold are coalesced. Delivered events never change.
/// 4. A resync is delivered only for keys without other queued events.
/// 5. [`initial_pending`] counts the initial Adds that are not acknowledged and not cancelled out
///    by a Delete.
///
/// # Call order
/// The writer of the store calls [`push`] for each batch, in order. The task of the handler repeats
/// three steps: it calls [`take`], calls the handler with each event, and calls [`acknowledge`].
/// Writer and task share a lock. They hold the lock only during the calls to this type, and never
/// during a handler call.
///
/// [`push`]: Self::push
/// [`push_pages`]: Self::push_pages
/// [`take`]: Self::take
/// [`acknowledge`]: Self::acknowledge
/// [`pending`]: Self::pending
/// [`initial_pending`]: Self::initial_pending
pub struct Backlog<T> {
    /// Batches that are not empty and are older than all events in `coalesced`.
    batches: VecDeque<Batch<T>>,
    /// The number of events in `batches`.
    batched: usize,
    coalesced: CoalescedChanges<T>,
    /// The events that follow all coalesced changes. No further event follows them.
    last: Option<Paged<T>>,
    /// The initial Adds in `batches`, in `coalesced`, and in deliveries that are not acknowledged.
    initial: usize,
    threshold: usize,
}

/// A queued batch.
enum Batch<T> {
    Events(Delivery<T>),
    Paged(Paged<T>),
}

impl<T> Batch<T> {
    fn len(&self) -> usize {
        match self {
            Batch::Events(events) => events.len(),
            Batch::Paged(paged) => paged.len(),
        }
    }

    fn initial(&self) -> usize {
        match self {
            Batch::Events(events) => events.initial,
            Batch::Paged(paged) => paged.initial(),
        }
    }
}

impl<T> Clone for Batch<T> {
    fn clone(&self) -> Self {
        match self {
            Batch::Events(events) => Batch::Events(events.clone()),
            Batch::Paged(paged) => Batch::Paged(paged.clone()),
        }
    }
}

/// Contains the events that the handler must receive next, in order. Dereferences to a slice of
/// events.
///
/// Call [`Backlog::acknowledge`] with the delivery after the last handler call has returned or
/// panicked. Until then, the initial Adds of the delivery count as pending.
#[must_use = "events that are not delivered are lost"]
pub struct Delivery<T> {
    events: Arc<[Event<T>]>,
    /// The number of initial Adds in `events`. Zero after the acknowledgement.
    initial: usize,
}

impl<T> Delivery<T> {
    fn new(events: Arc<[Event<T>]>) -> Self {
        let initial = events.iter().filter(|event| is_initial(event)).count();
        Self { events, initial }
    }
}

impl<T> Deref for Delivery<T> {
    type Target = [Event<T>];

    fn deref(&self) -> &[Event<T>] {
        &self.events
    }
}

/// Shares the events.
impl<T> Clone for Delivery<T> {
    fn clone(&self) -> Self {
        Self { events: Arc::clone(&self.events), initial: self.initial }
    }
}

/// Copies the state and shares the batches.
impl<T> Clone for Backlog<T> {
    fn clone(&self) -> Self {
        Self {
            batches: self.batches.clone(),
            coalesced: self.coalesced.clone(),
            last: self.last.clone(),
            ..*self
        }
    }
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self::new(DEFAULT_COALESCE_THRESHOLD)
    }
}

impl<T> Backlog<T> {
    /// Creates an empty backlog that coalesces events if at least `threshold` events are pending.
    /// With a threshold of zero, the backlog coalesces all events.
    pub fn new(threshold: usize) -> Self {
        Self {
            batches: VecDeque::new(),
            batched: 0,
            coalesced: CoalescedChanges::default(),
            last: None,
            initial: 0,
            threshold,
        }
    }

    /// Queues the events of one write to the store. All handlers can share one `Arc`.
    pub fn push(&mut self, events: Arc<[Event<T>]>) {
        if events.is_empty() {
            return;
        }
        let batch = Delivery::new(events);
        self.initial += batch.initial;
        if self.coalesced.is_empty() && self.batched < self.threshold {
            self.batched += batch.len();
            self.batches.push_back(Batch::Events(batch));
        } else {
            self.coalesce(&batch);
        }
    }

    /// Queues events that `pages` creates when they are delivered, for example the initial Adds of
    /// a new handler. The call and each delivery need bounded time and memory.
    ///
    /// If the backlog currently coalesces events, these events are delivered after all coalesced
    /// changes. In this case, the caller must not push any further event.
    pub fn push_pages(&mut self, pages: Arc<dyn EventPages<T>>) {
        let paged = Paged::new(pages);
        if paged.len() == 0 {
            return;
        }
        self.initial += paged.initial();
        if self.coalesced.is_empty() {
            self.batched += paged.len();
            self.batches.push_back(Batch::Paged(paged));
        } else {
            self.last = Some(paged);
        }
    }

    /// Queues the events of one large write to the store. All handlers share the list.
    ///
    /// The call takes a bounded time, except if the backlog currently coalesces events. It then
    /// processes each event of the list.
    pub fn push_list(&mut self, list: &EventList<T>) {
        let mut paged = Paged::of_list(list);
        if paged.len() == 0 {
            return;
        }
        self.initial += paged.initial();
        if self.coalesced.is_empty() && self.batched < self.threshold {
            self.batched += paged.len();
            self.batches.push_back(Batch::Paged(paged));
            return;
        }
        while paged.len() > 0 {
            self.coalesce(&paged.next_page());
        }
    }

    fn coalesce(&mut self, batch: &[Event<T>]) {
        for event in batch {
            self.initial -= self.coalesced.push(event.clone());
        }
    }

    /// Queues an Update for each entry, with this entry as old and new state. Skips each key that
    /// has queued events, because these events already contain its newest state.
    ///
    /// `entries` must be the state of the cache after the last pushed batch. Otherwise, a resync
    /// could deliver an older state than before.
    pub fn push_resync(&mut self, entries: impl IntoIterator<Item = Entry<T>>) {
        let queued = self.batched_keys();
        let resync = entries
            .into_iter()
            .filter(|entry| !queued.contains(entry.key()) && !self.coalesced.contains(entry.key()))
            .map(|entry| Event::Updated { old: entry.clone(), new: entry })
            .collect();
        self.push(resync);
    }

    fn batched_keys(&self) -> HashSet<ObjectKey> {
        let mut keys = HashSet::new();
        for batch in &self.batches {
            match batch {
                Batch::Events(events) => keys.extend(events.iter().map(|event| event.key().clone())),
                Batch::Paged(paged) => keys.extend(paged.keys()),
            }
        }
        keys
    }

    /// Takes the next events to deliver: a complete batch, or the coalesced change of one key. The
    /// other keys continue to coalesce. Never returns an empty delivery.
    pub fn take(&mut self) -> Option<Delivery<T>> {
        match self.batches.front_mut() {
            Some(Batch::Paged(paged)) => {
                let delivery = Delivery::new(paged.next_page());
                if paged.len() == 0 {
                    self.batches.pop_front();
                }
                self.batched -= delivery.len();
                Some(delivery)
            }
            Some(Batch::Events(_)) => {
                let Some(Batch::Events(batch)) = self.batches.pop_front() else { return None };
                self.batched -= batch.len();
                Some(batch)
            }
            None => match self.coalesced.pop() {
                Some(change) => Some(Delivery::new(change.into_events())),
                None => self.take_last(),
            },
        }
    }

    fn take_last(&mut self) -> Option<Delivery<T>> {
        let paged = self.last.as_mut()?;
        let delivery = Delivery::new(paged.next_page());
        if paged.len() == 0 {
            self.last = None;
        }
        Some(delivery)
    }

    /// Records that the handler calls for a delivery of this backlog are complete.
    ///
    /// The method only borrows the delivery, so that the caller can drop the objects after it has
    /// released the lock. A second call for the same delivery has no effect.
    pub fn acknowledge(&mut self, delivery: &mut Delivery<T>) {
        self.initial = self.initial.saturating_sub(mem::take(&mut delivery.initial));
    }

    /// Returns the number of initial Adds for which the handler call is not complete. An Add that
    /// was cleared, or cancelled out by a Delete, does not count.
    ///
    /// A handler is synced when this number is zero and the initial list was pushed. The caller
    /// must track whether the initial list was pushed, because the backlog cannot distinguish an
    /// empty list from a missing list.
    pub fn initial_pending(&self) -> usize {
        self.initial
    }

    /// Removes all queued events and returns them. Their initial Adds no longer count as pending.
    ///
    /// Call this method when a handler is removed. Drop the result after the lock is released,
    /// because the result can be large.
    #[must_use = "drop the result after the lock is released"]
    pub fn clear(&mut self) -> Backlog<T> {
        let initial = self.queued_initial();
        self.initial -= initial;
        Backlog {
            batches: mem::take(&mut self.batches),
            batched: mem::take(&mut self.batched),
            coalesced: mem::take(&mut self.coalesced),
            last: self.last.take(),
            initial,
            threshold: self.threshold,
        }
    }

    fn queued_initial(&self) -> usize {
        let last = self.last.as_ref().map_or(0, Paged::initial);
        self.batches.iter().map(Batch::initial).sum::<usize>() + self.coalesced.initial_adds() + last
    }

    /// Returns the number of queued events. Coalesced changes count once per key.
    pub fn pending(&self) -> usize {
        self.batched + self.coalesced.len() + self.last.as_ref().map_or(0, Paged::len)
    }

    /// Returns whether the backlog has no queued events.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.coalesced.is_empty() && self.last.is_none()
    }

    /// Returns whether the backlog currently coalesces events, because the handler lags.
    pub fn is_coalescing(&self) -> bool {
        !self.coalesced.is_empty()
    }

    /// Returns the number of keys with coalesced changes.
    pub fn coalesced_keys(&self) -> usize {
        self.coalesced.len()
    }

    /// Asserts the invariants of the fields. For tests.
    ///
    /// # Panics
    /// Panics if an invariant does not hold.
    pub fn check(&self) {
        assert_eq!(self.batched, self.batches.iter().map(Batch::len).sum::<usize>());
        assert!(self.batches.iter().all(|batch| batch.len() > 0), "an empty batch is queued");
        assert!(self.initial >= self.queued_initial(), "a queued initial Add is not counted");
        self.coalesced.check();
    }
}

#[cfg(test)]
mod tests;
