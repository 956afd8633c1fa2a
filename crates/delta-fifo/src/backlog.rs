//! `Backlog`: the events that one handler has not received. Shared batches below a threshold,
//! coalesced changes above it.

mod coalesce;
mod coalesced;

use std::{
    collections::{HashSet, VecDeque},
    mem,
    ops::Deref,
    sync::Arc,
};

use kube_object::{Entry, Event, ObjectKey};

use coalesced::{CoalescedChanges, is_initial};

/// The default number of pending events from which events are coalesced. It equals the default
/// capacity in front of the store, so that a handler receives an ordinary burst in full.
pub const DEFAULT_COALESCE_THRESHOLD: usize = 1024;

/// Holds the events that one handler has not received, as plain data.
///
/// While fewer events than the threshold are queued, a batch is queued unchanged: one `Arc`, shared
/// by all handlers. From the threshold on, events are coalesced into one change per key, oldest key
/// first, until no coalesced change is left.
///
/// # Bound
/// A backlog holds fewer events than the threshold, plus one batch, plus one change for each key that
/// exists or that the handler knows. An object that is added and deleted in between leaves nothing.
///
/// [`push`] never refuses events and never waits. With an unreachable threshold (`usize::MAX`)
/// nothing is coalesced; the caller must then wait while [`pending`] is too large. Deliveries come in
/// addition: one batch for each [`Delivery`] that still exists.
///
/// # Contract
/// 1. The delivered events of each key form a history (Property 5). An Add is of an object that the
///    handler does not know. An Update begins with the state that was delivered last. A Delete is of
///    an object that the handler knows. The last event leads to the newest state. No Delete of a
///    known object is lost (Property 8).
/// 2. Below the threshold each event is delivered as it was pushed. Above it, an Add followed by
///    Updates becomes an Add of the newest state with the `initial` of the first. A Delete contains
///    the last state in the cache (Property 18).
/// 3. Only events above the threshold are coalesced. Delivered events never change.
/// 4. A resync is delivered only for keys without other queued events (Property 15).
/// 5. [`initial_pending`] counts the initial Adds that are neither acknowledged nor cancelled out
///    (Property 11).
///
/// # Call order
/// The writer of the store calls [`push`] for each batch, in order. The caller of the handler
/// repeats: [`take`], one handler call for each event, [`acknowledge`]. Both share a lock, held only
/// during the calls to this type, never while the handler runs.
///
/// [`push`]: Self::push
/// [`take`]: Self::take
/// [`acknowledge`]: Self::acknowledge
/// [`pending`]: Self::pending
/// [`initial_pending`]: Self::initial_pending
pub struct Backlog<T> {
    /// No batch is empty. All are older than the events in `coalesced`.
    batches: VecDeque<Delivery<T>>,
    /// The number of events in `batches`.
    batched: usize,
    coalesced: CoalescedChanges<T>,
    /// The initial Adds in `batches`, in `coalesced`, and in deliveries that are not acknowledged.
    initial: usize,
    threshold: usize,
}

/// Contains the events that the handler must receive now, in order. Dereferences to a slice.
///
/// Pass it to [`Backlog::acknowledge`] after the handler has returned from (or panicked in) the last
/// event. Until then its initial Adds count as pending.
#[must_use = "events that are not delivered are lost"]
pub struct Delivery<T> {
    events: Arc<[Event<T>]>,
    /// The number of initial Adds in `events`; zero after the acknowledgement.
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
        Self { batches: self.batches.clone(), coalesced: self.coalesced.clone(), ..*self }
    }
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self::new(DEFAULT_COALESCE_THRESHOLD)
    }
}

impl<T> Backlog<T> {
    /// Creates an empty backlog that coalesces from `threshold` pending events on. Zero means always.
    pub fn new(threshold: usize) -> Self {
        Self {
            batches: VecDeque::new(),
            batched: 0,
            coalesced: CoalescedChanges::default(),
            initial: 0,
            threshold,
        }
    }

    /// Queues the events of one write to the store, or the snapshot for a handler that is added late.
    /// All handlers can share one `Arc`.
    pub fn push(&mut self, events: Arc<[Event<T>]>) {
        if events.is_empty() {
            return;
        }
        let batch = Delivery::new(events);
        self.initial += batch.initial;
        if self.coalesced.is_empty() && self.batched < self.threshold {
            self.batched += batch.len();
            self.batches.push_back(batch);
        } else {
            self.coalesce(&batch);
        }
    }

    fn coalesce(&mut self, batch: &[Event<T>]) {
        for event in batch {
            self.initial -= self.coalesced.push(event.clone());
        }
    }

    /// Queues an Update from each of these entries to itself. Skips keys with queued events, which
    /// lead to the newest state anyway.
    ///
    /// `entries` must be the state of the cache after the last pushed batch. Otherwise a resync could
    /// deliver an older state than before.
    pub fn push_resync(&mut self, entries: impl IntoIterator<Item = Entry<T>>) {
        let queued = self.batched_keys();
        let resync = entries
            .into_iter()
            .filter(|entry| !queued.contains(entry.key()) && !self.coalesced.contains(entry.key()))
            .map(|entry| Event::Updated { old: entry.clone(), new: entry })
            .collect();
        self.push(resync);
    }

    fn batched_keys(&self) -> HashSet<&ObjectKey> {
        self.batches.iter().flat_map(|batch| batch.iter()).map(Event::key).collect()
    }

    /// Takes the next events to deliver: a whole batch as it was pushed, or the coalesced change of
    /// one key, so that other keys continue to coalesce. Never returns an empty delivery.
    pub fn take(&mut self) -> Option<Delivery<T>> {
        match self.batches.pop_front() {
            Some(batch) => {
                self.batched -= batch.len();
                Some(batch)
            }
            None => Some(Delivery::new(self.coalesced.pop()?.into_events())),
        }
    }

    /// Records that the handler has returned from each event of a delivery of this backlog.
    ///
    /// Takes a reference, so that the caller can drop the objects after the lock is free. A second
    /// call for the same delivery does nothing.
    pub fn acknowledge(&mut self, delivery: &mut Delivery<T>) {
        self.initial = self.initial.saturating_sub(mem::take(&mut delivery.initial));
    }

    /// Returns the number of initial Adds that the handler has not returned from. An Add that was
    /// cleared, or cancelled out by a Delete, does not count.
    ///
    /// A handler is synced when this is zero and its initial list was pushed. The second condition is
    /// the caller's: the backlog cannot distinguish an empty initial list from none.
    pub fn initial_pending(&self) -> usize {
        self.initial
    }

    /// Removes and returns everything queued, for a handler that is removed. Its initial Adds no
    /// longer count as pending. Drop the result after the lock is free: it can be large.
    #[must_use = "drop it after the lock is free"]
    pub fn clear(&mut self) -> Backlog<T> {
        let initial = self.queued_initial();
        self.initial -= initial;
        Backlog {
            batches: mem::take(&mut self.batches),
            batched: mem::take(&mut self.batched),
            coalesced: mem::take(&mut self.coalesced),
            initial,
            threshold: self.threshold,
        }
    }

    fn queued_initial(&self) -> usize {
        self.batches.iter().map(|batch| batch.initial).sum::<usize>() + self.coalesced.initial_adds()
    }

    /// Returns the number of queued events. Above the threshold it counts keys.
    pub fn pending(&self) -> usize {
        self.batched + self.coalesced.len()
    }

    /// Returns whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.coalesced.is_empty()
    }

    /// Returns whether the handler lags, so that its events are coalesced.
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
    /// If an invariant does not hold.
    pub fn check(&self) {
        assert_eq!(self.batched, self.batches.iter().map(|batch| batch.len()).sum::<usize>());
        assert!(self.batches.iter().all(|batch| !batch.is_empty()), "an empty batch is queued");
        assert!(self.initial >= self.queued_initial(), "a queued initial Add is not counted");
        self.coalesced.check();
    }
}

#[cfg(test)]
mod tests;
