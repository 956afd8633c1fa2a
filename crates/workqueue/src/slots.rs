//! `Slots`: a slab whose entries can also be found by their keys.
//!
//! The entries are in a `Vec`, and a small table contains the number of each key. A queue of numbers finds
//! its next entry without a search. This matters if many keys wait, because most of them are not in the CPU
//! cache. New keys take the numbers of removed keys first.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

/// An empty map with more entries than this frees its memory.
const MAX_IDLE: usize = 1024;

#[derive(Debug)]
pub(crate) struct Slots<K, V> {
    /// `None` at the numbers in `free`.
    entries: Vec<Option<(K, V)>>,
    free: Vec<usize>,
    /// The number of each key.
    numbers: HashTable<usize>,
    hasher: RandomState,
}

impl<K, V> Slots<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            numbers: HashTable::new(),
            hasher: RandomState::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the entries, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().flatten().map(|(key, value)| (key, value))
    }

    /// Returns the entry with this number.
    pub(crate) fn get(&self, number: usize) -> Option<(&K, &V)> {
        self.entries.get(number)?.as_ref().map(|(key, value)| (key, value))
    }

    /// Returns the entry with this number, to change its value.
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<(&K, &mut V)> {
        let (key, value) = self.entries.get_mut(number)?.as_mut()?;
        Some((key, value))
    }
}

impl<K: Eq + Hash, V> Slots<K, V> {
    /// Returns the number of a key.
    pub(crate) fn find(&self, key: &K) -> Option<usize> {
        let is_same = |number: &usize| is_key(&self.entries, *number, key);
        self.numbers.find(self.hasher.hash_one(key), is_same).copied()
    }

    /// Adds a key that the map does not contain, and returns its number.
    pub(crate) fn insert(&mut self, key: K, value: V) -> usize {
        let hash = self.hasher.hash_one(&key);
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[number] = Some((key, value));
        let (entries, hasher) = (&self.entries, &self.hasher);
        // The table grows: all its numbers belong to an entry.
        let rehash = |number: &usize| entries[*number].as_ref().map_or(0, |(key, _)| hasher.hash_one(key));
        self.numbers.insert_unique(hash, number, rehash);
        number
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: &K) -> Option<(K, V)> {
        let is_same = |number: &usize| is_key(&self.entries, *number, key);
        let found = self.numbers.find_entry(self.hasher.hash_one(key), is_same).ok()?;
        let (number, _) = found.remove();
        let removed = self.entries[number].take();
        self.free.push(number);
        if self.numbers.is_empty() && self.entries.len() > MAX_IDLE {
            // After a burst. Number zero is the next number again.
            (self.entries, self.free, self.numbers) = (Vec::new(), Vec::new(), HashTable::new());
        }
        removed
    }
}

fn is_key<K: Eq, V>(entries: &[Option<(K, V)>], number: usize, key: &K) -> bool {
    entries[number].as_ref().is_some_and(|(other, _)| other == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_numbers_and_numbers_are_reused() {
        let mut slots = Slots::new();
        let numbers: Vec<usize> = (0..100).map(|key| slots.insert(key, key * 2)).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        assert_eq!((slots.remove(&7), slots.remove(&7)), (Some((7, 14)), None));
        assert_eq!((slots.find(&7), slots.find(&99)), (None, Some(99)));
        assert_eq!(slots.get_mut(7), None);
        assert_eq!(slots.insert(100, 1), 7);
        assert_eq!(slots.get_mut(7), Some((&100, &mut 1)));
        assert_eq!(slots.iter().count(), 100);
        assert!((0..=100).filter(|key| *key != 7).all(|key| slots.remove(&key).is_some()));
        assert!(slots.is_empty());
    }

    #[test]
    fn empty_map_frees_memory_of_many_keys() {
        let mut slots = Slots::new();
        (0..=MAX_IDLE).for_each(|key| _ = slots.insert(key, ()));
        assert!((0..=MAX_IDLE).all(|key| slots.remove(&key).is_some()));
        assert_eq!((slots.entries.capacity(), slots.free.capacity(), slots.numbers.capacity()), (0, 0, 0));
        assert_eq!((slots.insert(5, ()), slots.find(&5)), (0, Some(0)));
    }
}
