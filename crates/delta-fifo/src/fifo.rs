//! `DeltaFifo`: a bounded queue of deltas, which are removed in batches with distinct keys.

use std::collections::{HashSet, VecDeque};

use kube_object::Delta;

/// The default capacity of the queue in front of the store, in objects. The queue then holds two
/// pages of a list (500 objects each) and some events, so the next page is decoded while a page is
/// applied.
pub const DEFAULT_CAPACITY: usize = 1024;

/// The number of deltas of a typical batch.
const EXPECTED_BATCH: usize = 64;

/// Queues deltas between reflector and store, as plain data.
///
/// # Capacity
/// The capacity limits the sum of [`Delta::weight`] in the queue. If a delta would exceed the
/// capacity, [`push`](Self::push) returns it to the caller. An empty queue accepts a delta of any
/// weight. Otherwise, a page that is larger than the capacity could never be queued.
///
/// # Contract
/// 1. Each delta is removed exactly once, unchanged, in the order of the pushes. Deltas are never
///    coalesced or dropped.
/// 2. A batch is a prefix of the queue in which each key occurs at most once. A bookmark has no key,
///    so it can follow any delta in a batch.
/// 3. `Begin`, each `Page`, `End` and `Clear` are separate batches.
///
/// When a delta is applied, all earlier deltas are already applied, because of rule 1. The
/// resourceVersion of the last applied delta is therefore a correct watermark.
pub struct DeltaFifo<T> {
    queue: VecDeque<Delta<T>>,
    /// The sum of the weights in `queue`. Exceeds `capacity` only if the queue has one delta.
    weight: usize,
    capacity: usize,
    closed: bool,
}

impl<T> Default for DeltaFifo<T> {
    fn default() -> Self {
        Self::new(DEFAULT_CAPACITY)
    }
}

/// Copies the queue and shares the objects.
impl<T> Clone for DeltaFifo<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), ..*self }
    }
}

impl<T> DeltaFifo<T> {
    /// Creates an empty queue for `capacity` objects. With a capacity of zero, the queue accepts
    /// one delta at a time.
    pub fn new(capacity: usize) -> Self {
        Self { queue: VecDeque::new(), weight: 0, capacity, closed: false }
    }

    /// Appends a delta and returns `None`. If the queue is full or closed, returns the delta.
    #[must_use = "the delta is returned if the queue is full or closed"]
    pub fn push(&mut self, delta: Delta<T>) -> Option<Delta<T>> {
        if self.closed || !self.has_room(&delta) {
            return Some(delta);
        }
        self.weight += delta.weight();
        self.queue.push_back(delta);
        None
    }

    /// Moves `deltas` into the queue, in order, until the queue is full. The other deltas remain in
    /// `deltas`. If the queue is closed, all deltas remain.
    pub fn push_all(&mut self, deltas: &mut VecDeque<Delta<T>>) {
        while let Some(delta) = deltas.pop_front() {
            if let Some(rejected) = self.push(delta) {
                deltas.push_front(rejected);
                return;
            }
        }
    }

    /// Returns whether the queue has room for this delta.
    pub fn has_room(&self, delta: &Delta<T>) -> bool {
        self.queue.is_empty() || self.weight.saturating_add(delta.weight()) <= self.capacity
    }

    /// Removes and returns the next batch, with at most `max` deltas. A `max` of zero is treated as
    /// one. The result is empty only if the queue is empty.
    pub fn pop_batch(&mut self, max: usize) -> Vec<Delta<T>> {
        let batch: Vec<_> = self.queue.drain(..self.batch_len(max)).collect();
        self.weight -= batch.iter().map(Delta::weight).sum::<usize>();
        batch
    }

    fn batch_len(&self, max: usize) -> usize {
        let max = max.max(1);
        let expected = self.queue.len().min(max);
        if expected <= 1 {
            return expected;
        }
        // The keys contain their hashes, so a weak hasher is sufficient. Most batches are small, and a
        // large queue can start with repeated keys.
        let capacity = expected.min(EXPECTED_BATCH);
        let mut keys = HashSet::with_capacity_and_hasher(capacity, foldhash::fast::RandomState::default());
        for (at, delta) in self.queue.iter().take(max).enumerate() {
            let repeats = match delta {
                Delta::Begin { .. }
                | Delta::Page(_)
                | Delta::End { .. }
                | Delta::Hold { .. }
                | Delta::Clear => return at.max(1),
                Delta::Put(entry) => !keys.insert(entry.key()),
                Delta::Remove { id, .. } | Delta::Undecodable(id) => !keys.insert(&id.key),
                Delta::Bookmark(_) => false,
            };
            if repeats {
                return at;
            }
        }
        expected
    }

    /// Closes the queue. [`push`](Self::push) then rejects further deltas. Queued deltas can still
    /// be removed.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns an iterator over the queued deltas, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Delta<T>> {
        self.queue.iter()
    }

    /// Returns the number of queued deltas.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether no delta is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the sum of the weights of the queued deltas.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Asserts the invariants of the fields. For tests.
    ///
    /// # Panics
    /// Panics if an invariant does not hold.
    pub fn check(&self) {
        assert_eq!(self.weight, self.queue.iter().map(Delta::weight).sum::<usize>(), "weight is the sum");
        assert!(
            self.weight <= self.capacity || self.queue.len() == 1,
            "above the capacity with several deltas"
        );
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

    /// Property 14: popping by key would return a@9 before b@7, and the watermark would be wrong.
    #[test]
    fn repeated_key_starts_new_batch() {
        let mut fifo = queue_of([put("a", 5), put("b", 7), put("a", 9), put("c", 10)]);
        assert_eq!(text(fifo.pop_batch(usize::MAX)), text([put("a", 5), put("b", 7)]));
        assert_eq!(text(fifo.pop_batch(usize::MAX)), text([put("a", 9), put("c", 10)]));
    }

    /// Property 16.
    #[test]
    fn delete_and_undecodable_delta_end_batch_of_same_key() {
        let undecodable = || Delta::Undecodable(crate::testing::entry("a", 3).id);
        let fifo = queue_of([put("a", 1), remove("a", 2), undecodable(), put("a", 4)]);
        assert_eq!(batch_lengths(fifo), [1, 1, 1, 1]);
    }

    /// Property 14: a bookmark may move the watermark only past earlier deltas.
    #[test]
    fn bookmarks_keep_position_and_do_not_end_batch() {
        let mut fifo = queue_of([bookmark(1), put("a", 2), bookmark(3), put("b", 4), bookmark(5)]);
        let batch = fifo.pop_batch(usize::MAX);
        assert_eq!(text(batch), text([bookmark(1), put("a", 2), bookmark(3), put("b", 4), bookmark(5)]));
    }

    #[test]
    fn each_part_of_relist_is_separate_batch() {
        let fifo = queue_of([put("a", 1), begin(), page(3), page(2), put("b", 2), end(9), put("c", 10)]);
        assert_eq!(batch_lengths(fifo), [1, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn delta_above_capacity_is_returned_unless_queue_is_empty() {
        let mut fifo = DeltaFifo::new(4);
        assert!(fifo.push(page(3)).is_none());
        assert!(fifo.push(put("a", 1)).is_none());
        let rejected = fifo.push(put("b", 2));
        assert_eq!(text(rejected), text([put("b", 2)]));
        fifo.pop_batch(1);
        fifo.pop_batch(1);
        assert!(fifo.push(page(100)).is_none(), "an empty queue accepts a delta of any weight");
        assert!(!fifo.has_room(&put("c", 3)));
        fifo.check();
    }

    #[test]
    fn capacity_zero_admits_one_delta_at_a_time() {
        let mut fifo = DeltaFifo::new(0);
        assert!(fifo.push(put("a", 1)).is_none());
        assert!(fifo.push(put("b", 2)).is_some());
        assert_eq!(fifo.pop_batch(0).len(), 1);
        assert!(fifo.push(put("b", 2)).is_none());
    }

    #[test]
    fn closed_queue_rejects_deltas_and_returns_queued_deltas() {
        let mut fifo = queue_of([put("a", 1)]);
        fifo.close();
        assert!(fifo.push(put("b", 2)).is_some());
        assert_eq!(batch_lengths(fifo), [1]);
    }

    #[test]
    fn push_all_moves_deltas_that_fit() {
        let mut fifo = DeltaFifo::new(2);
        let mut deltas = VecDeque::from([put("a", 1), put("b", 2), put("c", 3)]);
        fifo.push_all(&mut deltas);
        assert_eq!((fifo.weight(), text(deltas)), (2, text([put("c", 3)])));
    }
}
