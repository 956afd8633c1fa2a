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
/// 3. `Begin`, each `Page`, `End` and `Clear` are batches of their own.
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

/// The same deltas; their objects are shared.
impl<T> Clone for DeltaFifo<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), ..*self }
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
                Delta::Begin { .. } | Delta::Page(_) | Delta::End { .. } | Delta::Clear => return at.max(1),
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

    /// The queued deltas, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &Delta<T>> {
        self.queue.iter()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{begin, bookmark, end, page, put, remove, text};

    fn queue_of(deltas: impl IntoIterator<Item = Delta<()>>) -> DeltaFifo<()> {
        let mut fifo = DeltaFifo::default();
        for delta in deltas {
            assert!(fifo.push(delta).is_none(), "the queue is full");
            fifo.check();
        }
        fifo
    }

    fn batch_lengths(mut fifo: DeltaFifo<()>) -> Vec<usize> {
        std::iter::from_fn(|| {
            let batch = fifo.pop_batch(usize::MAX);
            fifo.check();
            (!batch.is_empty()).then_some(batch.len())
        })
        .collect()
    }

    /// Property 14: popping by key would take a@9 before b@7 and make the watermark lie.
    #[test]
    fn a_key_that_comes_again_ends_the_batch_before_it() {
        let mut fifo = queue_of([put("a", 5), put("b", 7), put("a", 9), put("c", 10)]);
        assert_eq!(text(fifo.pop_batch(usize::MAX)), text([put("a", 5), put("b", 7)]));
        assert_eq!(text(fifo.pop_batch(usize::MAX)), text([put("a", 9), put("c", 10)]));
    }

    /// Property 16.
    #[test]
    fn a_delete_or_an_undecodable_state_counts_as_its_key() {
        let undecodable = || Delta::Undecodable(crate::testing::entry("a", 3).id);
        let fifo = queue_of([put("a", 1), remove("a", 2), undecodable(), put("a", 4)]);
        assert_eq!(batch_lengths(fifo), [1, 1, 1, 1]);
    }

    /// Property 14: a bookmark may move the watermark only past what was applied before it.
    #[test]
    fn bookmarks_stay_in_their_place_and_do_not_end_a_batch() {
        let mut fifo = queue_of([bookmark(1), put("a", 2), bookmark(3), put("b", 4), bookmark(5)]);
        let batch = fifo.pop_batch(usize::MAX);
        assert_eq!(text(batch), text([bookmark(1), put("a", 2), bookmark(3), put("b", 4), bookmark(5)]));
    }

    #[test]
    fn each_part_of_a_relist_is_a_batch_of_its_own() {
        let fifo = queue_of([put("a", 1), begin(), page(3), page(2), put("b", 2), end(9), put("c", 10)]);
        assert_eq!(batch_lengths(fifo), [1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn a_delta_above_the_bound_is_given_back_and_fits_when_the_queue_is_empty() {
        let mut fifo = DeltaFifo::new(4);
        assert!(fifo.push(page(3)).is_none());
        assert!(fifo.push(put("a", 1)).is_none());
        let refused = fifo.push(put("b", 2));
        assert_eq!(text(refused), text([put("b", 2)]));
        fifo.pop_batch(1);
        fifo.pop_batch(1);
        assert!(fifo.push(page(100)).is_none(), "an empty queue takes a delta of any weight");
        assert!(!fifo.has_room(&put("c", 3)));
        fifo.check();
    }

    #[test]
    fn a_bound_of_zero_admits_one_delta_at_a_time() {
        let mut fifo = DeltaFifo::new(0);
        assert!(fifo.push(put("a", 1)).is_none());
        assert!(fifo.push(put("b", 2)).is_some());
        assert_eq!(fifo.pop_batch(0).len(), 1);
        assert!(fifo.push(put("b", 2)).is_none());
    }

    #[test]
    fn a_closed_queue_takes_nothing_and_gives_what_it_has() {
        let mut fifo = queue_of([put("a", 1)]);
        fifo.close();
        assert!(fifo.push(put("b", 2)).is_some());
        assert_eq!(batch_lengths(fifo), [1]);
    }

    #[test]
    fn as_much_is_moved_as_there_is_room_for() {
        let mut fifo = DeltaFifo::new(2);
        let mut deltas = VecDeque::from([put("a", 1), put("b", 2), put("c", 3)]);
        fifo.push_all(&mut deltas);
        assert_eq!((fifo.weight(), text(deltas)), (2, text([put("c", 3)])));
    }
}
