//! `Slots`: elements in numbered slots, which are found by hash.
//!
//! A slot keeps its number while its element exists, so indexes can contain numbers instead of
//! keys. A new element reuses the most recently freed slot. The memory of freed slots is not
//! released.

use std::sync::Arc;

use kube_object::{Entry, ObjectKey};

use crate::{
    cow::{Counted, CowVec, Leaves},
    hashed::HashedNumbers,
};

/// The elements of a leaf. Small, because a copy increments two reference counts per element.
const LEAF: usize = 8;
/// The end of the free list.
const NONE: u32 = u32::MAX;

#[derive(Clone)]
enum Slot<E> {
    Full(E),
    /// A free slot, with the next free slot.
    Free(u32),
}

impl<E> Default for Slot<E> {
    fn default() -> Self {
        Slot::Free(NONE)
    }
}

impl<E: Counted> Counted for Slot<E> {
    fn read_counts(&self) -> usize {
        match self {
            Slot::Full(element) => element.read_counts(),
            Slot::Free(_) => 0,
        }
    }
}

impl Counted for ObjectKey {
    fn read_counts(&self) -> usize {
        // The count is beside the text.
        self.as_str().as_bytes().first().map_or(0, |byte| usize::from(*byte))
    }
}

impl<T> Counted for Entry<T> {
    fn read_counts(&self) -> usize {
        self.key().read_counts() ^ Arc::strong_count(&self.object)
    }
}

impl<P> Counted for Arc<P> {
    fn read_counts(&self) -> usize {
        Arc::strong_count(self)
    }
}

/// Invariants: slots from `used` on were never full. Every slot below `used` is either full and in
/// `numbers`, or on the free list that starts at `free`.
#[derive(Clone)]
pub(crate) struct Slots<E> {
    slots: CowVec<Slot<E>, LEAF>,
    numbers: HashedNumbers,
    free: u32,
    used: u32,
}

impl<E> Default for Slots<E> {
    fn default() -> Self {
        Self { slots: CowVec::default(), numbers: HashedNumbers::default(), free: NONE, used: 0 }
    }
}

impl<E> Slots<E> {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the highest slot that was ever used, plus one.
    pub(crate) fn used(&self) -> usize {
        self.used as usize
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&E> {
        match self.slots.get(slot as usize)? {
            Slot::Full(element) => Some(element),
            Slot::Free(_) => None,
        }
    }

    /// Returns the slot of the element with this hash that `matches` accepts.
    pub(crate) fn find(&self, hash: u64, matches: impl Fn(&E) -> bool) -> Option<u32> {
        self.numbers.find(hash, |slot| self.get(slot).is_some_and(&matches))
    }

    /// Returns the most likely slot for this hash, without reading elements.
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        self.numbers.likely(hash)
    }

    /// Iterates over the elements in the order of their slots.
    pub(crate) fn iter(&self) -> SlotsIter<'_, E> {
        SlotsIter { leaves: self.slots.leaves(), leaf: [].iter(), next: 0 }
    }
}

/// Iterates over the elements in the order of their slots.
pub(crate) struct SlotsIter<'a, E> {
    leaves: Leaves<'a, Slot<E>, LEAF>,
    /// The rest of the current leaf.
    leaf: std::slice::Iter<'a, Slot<E>>,
    /// The slot after the last one that was visited.
    next: u32,
}

impl<E> Clone for SlotsIter<'_, E> {
    fn clone(&self) -> Self {
        Self { leaves: self.leaves.clone(), leaf: self.leaf.clone(), next: self.next }
    }
}

impl<'a, E> Iterator for SlotsIter<'a, E> {
    type Item = (u32, &'a E);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            for slot in self.leaf.by_ref() {
                let number = self.next;
                self.next += 1;
                if let Slot::Full(element) = slot {
                    return Some((number, element));
                }
            }
            // The last leaf can also contain slots that were never full. They are free.
            self.leaf = self.leaves.next()?.iter();
        }
    }
}

impl<E: Counted> Slots<E> {
    /// Returns the slots that can differ from an older copy, ascending: each changed slot and its neighbours.
    /// Returns `None` if these are more than `limit`.
    pub(crate) fn changed(&self, older: &Self, limit: usize) -> Option<Vec<u32>> {
        let leaves = self.slots.changed_leaves(&older.slots, limit / LEAF)?;
        let slots = leaves.into_iter().flat_map(|start| start..start + LEAF);
        Some(slots.filter_map(|slot| u32::try_from(slot).ok()).collect())
    }

    /// Returns the element for writing. The caller must not change the hash of the element.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut E> {
        if slot >= self.used {
            return None;
        }
        match self.slots.get_mut(slot as usize) {
            Slot::Full(element) => Some(element),
            Slot::Free(_) => None,
        }
    }

    /// Stores a new element and returns its slot.
    pub(crate) fn insert(&mut self, hash: u64, element: E) -> u32 {
        let number = match self.free {
            NONE => self.used,
            number => number,
        };
        assert!(number < NONE, "fewer than 2^32 objects fit the memory of any machine");
        match std::mem::replace(self.slots.get_mut(number as usize), Slot::Full(element)) {
            Slot::Free(next) if number == self.free => self.free = next,
            _ => self.used += 1,
        }
        self.numbers.insert(hash, number);
        number
    }

    /// Removes the element and frees its slot.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) -> Option<E> {
        self.get(slot)?;
        self.numbers.remove(hash, slot);
        match std::mem::replace(self.slots.get_mut(slot as usize), Slot::Free(self.free)) {
            Slot::Full(element) => {
                self.free = slot;
                Some(element)
            }
            Slot::Free(_) => None,
        }
    }

    /// Panics unless the invariants hold. For tests.
    pub(crate) fn check(&self, hash: impl Fn(&E) -> u64) {
        let mut free = 0;
        let mut next = self.free;
        while next != NONE {
            assert!(next < self.used, "slot {next} was never used, but is on the free list");
            let Some(Slot::Free(after)) = self.slots.get(next as usize) else {
                panic!("slot {next} is full, but is on the free list");
            };
            (free, next) = (free + 1, *after);
            assert!(free <= self.used, "the free list has a loop");
        }
        assert_eq!(self.iter().count() + free as usize, self.used(), "a slot is neither full nor free");
        assert_eq!(self.iter().count(), self.len(), "full slots and hashed numbers differ");
        for (slot, element) in self.iter() {
            assert_eq!(self.numbers.find(hash(element), |other| other == slot), Some(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashed::hash_of;

    impl Counted for &'static str {
        fn read_counts(&self) -> usize {
            0
        }
    }

    #[test]
    fn freed_slot_is_reused_first() {
        let mut slots = Slots::default();
        for name in ["a", "b", "c"] {
            slots.insert(hash_of(name), name);
        }
        assert_eq!(slots.remove(hash_of("b"), 1), Some("b"));
        assert_eq!(slots.remove(hash_of("a"), 0), Some("a"));
        slots.check(|name| hash_of(*name));
        let reused: Vec<u32> = ["d", "e", "f"].map(|name| slots.insert(hash_of(name), name)).into();
        assert_eq!(reused, [0, 1, 3]);
        slots.check(|name| hash_of(*name));
        assert_eq!(slots.iter().map(|(_, name)| *name).collect::<Vec<_>>(), ["d", "e", "c", "f"]);
        assert_eq!(slots.find(hash_of("e"), |name| *name == "e"), Some(1));
        assert_eq!(slots.find(hash_of("a"), |name| *name == "a"), None);
    }
}
