//! `Slots`: a map whose entries have stable numbers.
//!
//! The entries are in a `Vec`, in the order of their arrival, and a small table finds them by key. A
//! queue of numbers therefore finds its next entries without a search, and reads them in the order of
//! the memory. This matters if many keys wait, because most of them are not in the CPU cache.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

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

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().flatten().map(|(key, value)| (key, value))
    }

    /// Returns the entry with this number.
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
        self.free.push(number);
        self.entries[number].take()
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
}
