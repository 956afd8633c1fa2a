//! `Postings`: maps the values of an index to slots, and slots to values.
//!
//! The values of a slot are stored and not evaluated again. Outdated values are therefore removed
//! even if the index function is inconsistent.

use std::{borrow::Borrow, hash::Hash, hint::black_box, sync::Arc};

use crate::{
    cow::{Counted, CowVec},
    hashed::hash_of,
    slot_set::SlotSet,
    slots::Slots,
};

/// The elements of a leaf. Most elements are plain numbers without reference counts.
const LEAF: usize = 32;

#[derive(Clone)]
struct Posting<V> {
    value: V,
    hash: u64,
    /// Never empty between two writes.
    slots: SlotSet,
}

/// Holds the numbers of the values of a slot, ascending.
#[derive(Clone, Default)]
enum ValueNumbers {
    #[default]
    None,
    One(u32),
    Many(Arc<[u32]>),
}

impl ValueNumbers {
    fn new(numbers: &[u32]) -> Self {
        match numbers {
            [] => ValueNumbers::None,
            [one] => ValueNumbers::One(*one),
            many => ValueNumbers::Many(many.into()),
        }
    }

    fn as_slice(&self) -> &[u32] {
        match self {
            ValueNumbers::None => &[],
            ValueNumbers::One(number) => std::slice::from_ref(number),
            ValueNumbers::Many(numbers) => numbers,
        }
    }
}

impl Counted for ValueNumbers {
    fn read_counts(&self) -> usize {
        match self {
            ValueNumbers::None | ValueNumbers::One(_) => 0,
            ValueNumbers::Many(numbers) => Arc::strong_count(numbers),
        }
    }
}

/// Invariant: a slot is in the posting of a value if and only if the slot's numbers contain the
/// number of the value.
#[derive(Clone)]
pub(crate) struct Postings<V> {
    values: Slots<Arc<Posting<V>>>,
    of_slot: CowVec<ValueNumbers, LEAF>,
}

impl<V> Default for Postings<V> {
    fn default() -> Self {
        Self { values: Slots::default(), of_slot: CowVec::default() }
    }
}

impl<V: Hash + Eq> Postings<V> {
    fn posting<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> Option<&Posting<V>>
    where
        V: Borrow<Q>,
    {
        let number = self.values.find(hash_of(value), |posting| posting.value.borrow() == value)?;
        self.values.get(number).map(|posting| &**posting)
    }

    /// Iterates over the slots with this value, ascending.
    pub(crate) fn slots<'a, Q: ?Sized + Hash + Eq>(
        &'a self,
        value: &Q,
    ) -> impl Iterator<Item = u32> + use<'a, Q, V>
    where
        V: Borrow<Q>,
    {
        self.posting(value).into_iter().flat_map(|posting| posting.slots.iter())
    }

    pub(crate) fn len<Q: ?Sized + Hash + Eq>(&self, value: &Q) -> usize
    where
        V: Borrow<Q>,
    {
        self.posting(value).map_or(0, |posting| posting.slots.len())
    }

    /// Iterates over all values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.iter().map(|(_, posting)| &posting.value)
    }

    /// Loads the memory that `set` needs for these slots into the processor's cache. See
    /// [`Root::prefetch`](crate::root::Root::prefetch).
    pub(crate) fn prefetch(&self, slots: &[u32]) {
        let numbers: Vec<u32> =
            slots.iter().filter_map(|slot| self.numbers(*slot).first().copied()).collect();
        let postings = numbers.iter().filter_map(|number| self.values.get(*number));
        black_box(postings.fold(0, |seen, posting| seen ^ posting.hash));
    }

    fn numbers(&self, slot: u32) -> &[u32] {
        self.of_slot.get(slot as usize).map_or(&[], ValueNumbers::as_slice)
    }
}

impl<V: Hash + Eq + Clone> Postings<V> {
    /// Sets the values of a slot, each with its hash. A duplicate counts once.
    pub(crate) fn set(&mut self, slot: u32, mut values: impl ExactSizeIterator<Item = (u64, V)>) {
        if values.len() > 1 {
            let mut numbers: Vec<u32> = values.map(|(hash, value)| self.number_of(hash, value)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            return self.set_numbers(slot, &numbers);
        }
        match values.next() {
            Some((_, value)) if self.has_only(slot, &value) => {}
            Some((hash, value)) => {
                let number = self.number_of(hash, value);
                self.set_numbers(slot, &[number]);
            }
            None => self.clear(slot),
        }
    }

    /// Removes all values of a slot.
    pub(crate) fn clear(&mut self, slot: u32) {
        self.set_numbers(slot, &[]);
    }

    /// Returns whether the slot has only this value. In this common case, an update does not write.
    fn has_only(&self, slot: u32, value: &V) -> bool {
        match self.numbers(slot) {
            [number] => self.values.get(*number).is_some_and(|posting| posting.value == *value),
            _ => false,
        }
    }

    /// Sets the values of a slot by their numbers. The numbers must be ascending and unique.
    fn set_numbers(&mut self, slot: u32, new: &[u32]) {
        if self.numbers(slot) == new {
            return;
        }
        let old = std::mem::replace(self.of_slot.get_mut(slot as usize), ValueNumbers::new(new));
        for number in new.iter().filter(|number| old.as_slice().binary_search(number).is_err()) {
            if let Some(posting) = self.values.get_mut(*number) {
                Arc::make_mut(posting).slots.insert(slot);
            }
        }
        for number in old.as_slice().iter().filter(|number| new.binary_search(number).is_err()) {
            self.remove_from_posting(*number, slot);
        }
    }

    /// Returns the number of a value. Creates a number with an empty posting for a new value.
    fn number_of(&mut self, hash: u64, value: V) -> u32 {
        match self.values.find(hash, |posting| posting.value == value) {
            Some(number) => number,
            None => {
                let posting = Posting { value, hash, slots: SlotSet::default() };
                self.values.insert(hash, Arc::new(posting))
            }
        }
    }

    fn remove_from_posting(&mut self, number: u32, slot: u32) {
        let Some(posting) = self.values.get_mut(number) else { return };
        let posting = Arc::make_mut(posting);
        posting.slots.remove(slot);
        if posting.slots.len() == 0 {
            let hash = posting.hash;
            self.values.remove(hash, number);
        }
    }

    /// Panics unless the invariants hold for these slots. For tests.
    pub(crate) fn check(&self, slots: impl Iterator<Item = u32>) {
        self.values.check(|posting| posting.hash);
        let mut pairs = 0;
        for slot in slots {
            for number in self.numbers(slot) {
                let posting = self.values.get(*number).expect("a slot refers to a removed value");
                assert!(posting.slots.iter().any(|other| other == slot), "slot {slot} is not in its posting");
                pairs += 1;
            }
        }
        let posted: usize = self.values.iter().map(|(_, posting)| posting.slots.check()).sum();
        assert_eq!(posted, pairs, "a posting contains a slot without its value");
    }
}
