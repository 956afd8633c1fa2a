//! `Backlog`: what one handler still has to be told; shared batches up to a mark, merged past it.

use std::{
    collections::{HashSet, VecDeque},
    mem,
    ops::Deref,
    sync::Arc,
};

use kube_object::{Entry, Event, ObjectKey};

use crate::merged::{Merged, is_initial};

/// How many events a handler may lag behind before its changes are merged, unless said
/// otherwise: as many as wait in front of the store, so that an ordinary burst is shown in full.
pub const DEFAULT_MARK: usize = 1024;

/// The events that one handler has not been given yet, as plain data.
///
/// As long as fewer events than the mark are queued, a batch is queued as it is, one `Arc` shared
/// by all handlers. Past the mark events go into a map with one change for each key, oldest
/// first, in which a newer event is merged with what waits for its key, until the map is drained.
///
/// # Bound
/// Fewer events than the mark, plus one batch, plus one change for each key that is alive or that
/// the handler has seen: an object that came and went meanwhile leaves nothing behind. [`push`]
/// never refuses and does not wait: with a mark that is never reached (`usize::MAX`) nothing is
/// merged, and whoever pushes has to wait by [`pending`] for there to be a bound. What was handed
/// out comes on top: one batch for each [`Delivery`] that is still held.
///
/// # Contract
/// 1. For each key the events handed out are a history in order (Property 5): an Add of what the
///    handler does not know, an Update from the state it was given last, a Delete of what it
///    knows. The last of them leads to the newest state pushed, so every change reaches the
///    handler, and no Delete of an object that it knows is lost (Property 8).
/// 2. Up to the mark each event is handed out as it was pushed. Past it an Add that was updated is
///    an Add of the newest state with the `initial` of the first, and a Delete carries the last
///    state that the cache had (Property 18).
/// 3. Only what is queued past the mark is merged, never what was handed out.
/// 4. A resync is handed out only for a key of which nothing else was queued (Property 15).
/// 5. [`initial_pending`] counts the initial Adds that have neither returned nor been merged away
///    (Property 11).
///
/// # Call order
/// The one who writes the store calls [`push`] for each batch, in order; the one who calls the
/// handler repeats: [`take`], the handler for each event, [`returned`]. Both sides share one lock,
/// which is held for the calls of this type only and never while the handler runs.
///
/// [`push`]: Self::push
/// [`take`]: Self::take
/// [`returned`]: Self::returned
/// [`pending`]: Self::pending
/// [`initial_pending`]: Self::initial_pending
pub struct Backlog<T> {
    /// None is empty. All of them are older than anything in `merged`.
    batches: VecDeque<Delivery<T>>,
    /// Always the number of events in `batches`.
    batched: usize,
    merged: Merged<T>,
    /// The initial Adds in `batches` and `merged`, and those of deliveries not yet returned.
    initial: usize,
    mark: usize,
}

/// Events to be given to the handler now, in order; read as a slice.
///
/// Show it to [`Backlog::returned`] when the handler has returned from (or panicked in) the last
/// of them: until then the initial Adds in it count as pending.
#[must_use = "events that are not delivered are lost"]
pub struct Delivery<T> {
    events: Arc<[Event<T>]>,
    /// The number of initial Adds in `events`; zero once the delivery has returned.
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

/// The same events, once more.
impl<T> Clone for Delivery<T> {
    fn clone(&self) -> Self {
        Self { events: Arc::clone(&self.events), initial: self.initial }
    }
}

/// The same state; batches are shared.
impl<T> Clone for Backlog<T> {
    fn clone(&self) -> Self {
        Self { batches: self.batches.clone(), merged: self.merged.clone(), ..*self }
    }
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self::new(DEFAULT_MARK)
    }
}

impl<T> Backlog<T> {
    /// An empty backlog that merges from `mark` pending events on; with zero it always merges.
    pub fn new(mark: usize) -> Self {
        Self { batches: VecDeque::new(), batched: 0, merged: Merged::default(), initial: 0, mark }
    }

    /// Queues the changes of one write of the store, or the snapshot that a late handler starts
    /// from. All handlers can be given the same `Arc`.
    pub fn push(&mut self, events: Arc<[Event<T>]>) {
        if events.is_empty() {
            return;
        }
        let batch = Delivery::new(events);
        self.initial += batch.initial;
        if self.merged.is_empty() && self.batched < self.mark {
            self.batched += batch.len();
            self.batches.push_back(batch);
        } else {
            self.merge(&batch);
        }
    }

    fn merge(&mut self, batch: &[Event<T>]) {
        for event in batch {
            self.initial -= self.merged.push(event.clone());
        }
    }

    /// Queues an Update from each of these entries to itself, except where an event of its key is
    /// queued: that one will show the handler the newest state.
    ///
    /// `entries` must be the state of the cache after the last batch that was pushed, and no
    /// later one: otherwise a resync could show a state older than one handed out before.
    pub fn push_resync(&mut self, entries: impl IntoIterator<Item = Entry<T>>) {
        let queued = self.batched_keys();
        let resync = entries
            .into_iter()
            .filter(|entry| !queued.contains(entry.key()) && !self.merged.contains(entry.key()))
            .map(|entry| Event::Updated { old: entry.clone(), new: entry })
            .collect();
        self.push(resync);
    }

    fn batched_keys(&self) -> HashSet<&ObjectKey> {
        self.batches.iter().flat_map(|batch| batch.iter()).map(Event::key).collect()
    }

    /// Takes the next events to be delivered, never an empty delivery: a whole batch as it was
    /// pushed, or past the mark what waits for one key, so that later keys go on merging.
    pub fn take(&mut self) -> Option<Delivery<T>> {
        match self.batches.pop_front() {
            Some(batch) => {
                self.batched -= batch.len();
                Some(batch)
            }
            None => Some(Delivery::new(self.merged.pop()?.into_events())),
        }
    }

    /// Says that the handler has returned from each event of a delivery of this backlog.
    ///
    /// By reference, so that its objects can be dropped after the lock is free; a second call for
    /// the same delivery changes nothing.
    pub fn returned(&mut self, delivery: &mut Delivery<T>) {
        self.initial = self.initial.saturating_sub(mem::take(&mut delivery.initial));
    }

    /// How many initial Adds the handler has not returned from. One that was merged away (its
    /// object is gone, the handler never sees it) or cleared counts as returned.
    ///
    /// The handler is synced when this is zero and its initial state has been pushed: an empty
    /// backlog can't tell an initial state without objects from none.
    pub fn initial_pending(&self) -> usize {
        self.initial
    }

    /// Takes out everything queued, for a handler that is removed without being told the rest; the
    /// initial Adds among it count as returned. Drop it after the lock is free: it may be much.
    #[must_use = "drop it after the lock is free"]
    pub fn clear(&mut self) -> Backlog<T> {
        let initial = self.queued_initial();
        self.initial -= initial;
        Backlog {
            batches: mem::take(&mut self.batches),
            batched: mem::take(&mut self.batched),
            merged: mem::take(&mut self.merged),
            initial,
            mark: self.mark,
        }
    }

    fn queued_initial(&self) -> usize {
        self.batches.iter().map(|batch| batch.initial).sum::<usize>() + self.merged.initial_adds()
    }

    /// How many events are queued and not handed out; past the mark, how many keys.
    pub fn pending(&self) -> usize {
        self.batched + self.merged.len()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.merged.is_empty()
    }

    /// Whether the handler lags so far behind that its changes are being merged.
    pub fn is_merging(&self) -> bool {
        !self.merged.is_empty()
    }

    /// Of how many keys the changes past the mark wait.
    pub fn merged_keys(&self) -> usize {
        self.merged.len()
    }

    /// Asserts the relations between the fields; for tests, after each step.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.batched, self.batches.iter().map(|batch| batch.len()).sum::<usize>());
        assert!(self.batches.iter().all(|batch| !batch.is_empty()), "an empty batch is queued");
        assert!(self.initial >= self.queued_initial(), "an initial Add is queued that is not counted");
        self.merged.check();
    }
}

#[cfg(test)]
mod tests;
