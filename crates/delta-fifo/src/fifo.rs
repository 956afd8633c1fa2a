//! `DeltaFifo`: deltas in arrival order, bounded by weight, taken out in batches with distinct keys.

use std::collections::{HashSet, VecDeque};

use kube_object::Delta;

/// How many objects wait in front of the store unless said otherwise: two pages of a list (500
/// objects each), so that one is decoded while the other is applied, and some room for events.
pub const DEFAULT_BOUND: usize = 1024;

/// The queue between reflector and store, as plain data.
///
/// # Bound
/// The sum of [`Delta::weight`]. A delta that would exceed it is given back; only an empty queue
/// takes a delta of any weight, so that a page larger than the bound can pass.
///
/// # Contract
/// 1. Deltas leave as they came: each once, in arrival order, nothing merged or dropped.
/// 2. A batch is a prefix of the queue in which each key appears once (Property 16). Bookmarks
///    join any batch: only their position matters.
/// 3. `Begin`, each `Page` and `End` are batches of their own.
///
/// From 1 follows that the version of the last delta applied is a true watermark, never ahead of
/// what the reflector has read (Property 14).
pub struct DeltaFifo<T> {
    queue: VecDeque<Delta<T>>,
    /// Always the sum of the weights in `queue`; above `bound` only if the queue has one delta.
    weight: usize,
    bound: usize,
    closed: bool,
}

impl<T> Default for DeltaFifo<T> {
    fn default() -> Self {
        Self::new(DEFAULT_BOUND)
    }
}

impl<T> DeltaFifo<T> {
    /// An empty queue for `bound` objects. A bound of zero admits one delta at a time.
    pub fn new(bound: usize) -> Self {
        Self { queue: VecDeque::new(), weight: 0, bound, closed: false }
    }

    /// Appends a delta. One that is refused, for want of room or because the queue is closed, is
    /// given back.
    #[must_use = "a refused delta is given back"]
    pub fn push(&mut self, delta: Delta<T>) -> Option<Delta<T>> {
        if self.closed || !self.has_room(&delta) {
            return Some(delta);
        }
        self.weight += delta.weight();
        self.queue.push_back(delta);
        None
    }

    /// Moves the longest prefix of `deltas` that there is room for; nothing if closed.
    pub fn push_all(&mut self, deltas: &mut VecDeque<Delta<T>>) {
        while let Some(delta) = deltas.pop_front() {
            if let Some(refused) = self.push(delta) {
                deltas.push_front(refused);
                return;
            }
        }
    }

    /// Whether this delta fits the bound now.
    pub fn has_room(&self, delta: &Delta<T>) -> bool {
        self.queue.is_empty() || self.weight.saturating_add(delta.weight()) <= self.bound
    }

    /// Takes the next batch: at most `max` deltas (at least one), empty if the queue is.
    pub fn pop_batch(&mut self, max: usize) -> Vec<Delta<T>> {
        let batch: Vec<_> = self.queue.drain(..self.batch_len(max)).collect();
        self.weight -= batch.iter().map(Delta::weight).sum::<usize>();
        batch
    }

    fn batch_len(&self, max: usize) -> usize {
        let max = max.max(1);
        let mut keys = HashSet::new();
        for (at, delta) in self.queue.iter().take(max).enumerate() {
            let seen = match delta {
                Delta::Begin { .. } | Delta::Page(_) | Delta::End { .. } => return at.max(1),
                Delta::Put(entry) => !keys.insert(entry.key()),
                Delta::Remove { id, .. } | Delta::Undecodable(id) => !keys.insert(&id.key),
                Delta::Bookmark(_) => false,
            };
            if seen {
                return at;
            }
        }
        self.queue.len().min(max)
    }

    /// Refuses every later delta; what is queued can still be taken.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// How many deltas are queued.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no delta is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many objects are queued, as the bound counts them.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Asserts the relations between the fields; for tests, after each step.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        assert_eq!(self.weight, self.queue.iter().map(Delta::weight).sum::<usize>(), "weight is the sum");
        assert!(self.weight <= self.bound || self.queue.len() == 1, "above the bound with several deltas");
    }
}
