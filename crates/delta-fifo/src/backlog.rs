//! `Backlog`: the events that one handler has not received. It holds shared batches, and coalesced
//! changes if too many events are pending.

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

/// The default number of pending events at which coalescing starts. If fewer events are pending, a
/// handler receives each event unchanged.
pub const DEFAULT_COALESCE_THRESHOLD: usize = 1024;

/// Holds the events that one handler has not received, as plain data.
///
/// [`push`] queues a batch unchanged if fewer events than the threshold are queued. All handlers
/// share the batch. Otherwise, [`push`] *coalesces* the events: it combines the pending events of
/// each key into one change. Changes are delivered after the queued batches, in the order of their
/// first events. [`push`] queues batches unchanged again after all changes are delivered.
///
/// # Coalescing
/// A change is the shortest history that leads to the newest state:
///
/// | Pending events of a key | Delivered events |
/// |---|---|
/// | an Add, then Updates | one Add of the newest state, with the `initial` of the first Add |
/// | several Updates | one Update, from the first old state to the newest state |
/// | Updates, then a Delete | the Delete, with the last state in the cache |
/// | an Add, then a Delete | no event |
/// | a Delete, then an Add | both events |
///
/// Queued batches and delivered events never change.
///
/// # Bound
/// The memory of a backlog consists of two parts:
/// - The queued batches contain fewer events than the threshold, plus the events of the last queued
///   batch. This last batch can have any size.
/// - The coalesced changes contain one change per key. A key has a change only if its object exists or
///   was delivered to the handler.
///
/// The events of [`push_pages`] need no memory before their delivery. A [`Delivery`] holds its
/// events until it is dropped.
///
/// [`push`] accepts all events and never waits. With the threshold `usize::MAX`, events are never
/// coalesced. To limit the memory, the caller must then stop calling [`push`] while [`pending`] is
/// too large.
///
/// # Contract
/// 1. For each key, the handler receives a consistent history. After the Add of an object, it
///    receives Updates, and then the Delete, before it receives another Add. The old state of an
///    Update is the most recently delivered state. The last event contains the newest state.
/// 2. If an object is deleted after the handler has received its Add, the handler also receives its
///    Delete.
/// 3. [`push_resync`] queues no event for a key that has other queued events.
/// 4. [`initial_pending`] counts the initial Adds that are queued, or delivered but not acknowledged.
///    An Add that is removed because of a later Delete does not count.
///
/// # Call order
/// The writer of the store calls [`push`] for each batch, in order. The task of the handler repeats
/// three steps: it calls [`take`], calls the handler with each event, and calls [`acknowledge`].
/// Writer and task share a lock. They hold the lock only during the calls to this type, and never
/// during a handler call.
///
/// [`push`]: Self::push
/// [`push_pages`]: Self::push_pages
/// [`push_resync`]: Self::push_resync
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
    /// The events that are delivered after all coalesced changes.
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
/// Call [`Backlog::acknowledge`] with the delivery after the handler call of its last event has
/// returned or panicked. Until then, the initial Adds of the delivery count as pending.
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
    /// Creates an empty backlog. [`push`](Self::push) coalesces events if at least `threshold` events
    /// are queued. With a threshold of zero, it coalesces all events.
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

    /// Queues the events of one write to the store. Coalesces the events instead if the number of queued
    /// events has reached the threshold, or if coalesced changes are pending. All handlers can share one
    /// `Arc`.
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
    /// a new handler. The time and memory of the call and of each delivery do not depend on the
    /// number of events.
    ///
    /// If [`is_coalescing`](Self::is_coalescing) returns true, the events of `pages` are delivered
    /// after all coalesced changes. In this case, the caller must not push further events until all
    /// events of `pages` are delivered. Otherwise, further events would be delivered before the
    /// events of `pages`, and a second call would replace `pages`.
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

    /// Queues the events of one large write to the store. Coalesces the events under the conditions of
    /// [`push`](Self::push). All handlers share the list.
    ///
    /// If the events are coalesced, the time of the call is proportional to their number. Otherwise,
    /// the time does not depend on their number.
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
    /// `entries` must be the state of the cache after the last pushed batch. Otherwise, the resync
    /// could deliver an older state than an earlier event of the same key.
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

    /// Removes and returns the next events to deliver: a batch, a page of a large batch, or the
    /// coalesced change of one key. While changes of other keys remain, [`push`](Self::push) continues
    /// to coalesce. Returns `None` if no event is queued. A delivery is never empty.
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

    /// Records that the handler has processed all events of a delivery of this backlog.
    ///
    /// The method borrows the delivery, so the caller can drop its objects after the lock is
    /// released. A second call for the same delivery has no effect.
    pub fn acknowledge(&mut self, delivery: &mut Delivery<T>) {
        self.initial = self.initial.saturating_sub(mem::take(&mut delivery.initial));
    }

    /// Returns the number of initial Adds that are queued, or delivered but not acknowledged. An Add
    /// that was removed by [`clear`](Self::clear) or because of a later Delete does not count.
    ///
    /// A handler is synced when this number is zero and the initial list was pushed. The caller
    /// must track whether the initial list was pushed, because an empty list pushes no event.
    pub fn initial_pending(&self) -> usize {
        self.initial
    }

    /// Removes all queued events and returns them. Their initial Adds no longer count as pending.
    ///
    /// Call this method when a handler is removed. The result can be large, so drop it only after
    /// the lock is released.
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

    /// Returns the number of queued events. The coalesced change of a key counts once.
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
