//! `ObjectRecords`: what a helper remembers about objects. Its memory is bounded by the existing objects.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

/// With fewer records than this, deleted objects are not looked for.
const MIN_SWEEP: usize = 1024;

/// A record for each object.
#[derive(Debug)]
pub(super) struct ObjectRecords<K, V> {
    by_key: HashMap<K, V>,
    /// The number of records at which the records of deleted objects are removed.
    sweep_at: usize,
}

impl<K, V> Default for ObjectRecords<K, V> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), sweep_at: MIN_SWEEP }
    }
}

impl<K: Eq + Hash, V> ObjectRecords<K, V> {
    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.by_key.get(key)
    }

    /// Replaces the record of an object. If the number of records has doubled, removes the records of
    /// objects for which `exists` returns false.
    pub(super) fn insert(&mut self, key: K, value: V, exists: impl Fn(&K) -> bool) {
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|key, _| exists(key));
            self.sweep_at = (2 * self.by_key.len()).max(MIN_SWEEP);
        }
        self.by_key.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_deleted_objects_are_removed() {
        let mut records = ObjectRecords::default();
        for number in 0..100 * MIN_SWEEP {
            records.insert(number, (), |other| other % 100 == 0);
        }
        assert!(records.by_key.len() <= 3 * MIN_SWEEP, "{}", records.by_key.len());
        assert!((0..100 * MIN_SWEEP).step_by(100).all(|number| records.get(&number).is_some()));
    }
}
