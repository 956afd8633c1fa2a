//! `IndexFunctions`: the functions that compute the index values of objects.
//!
//! The functions run for a complete batch before the write. A write in place blocks readers, so user
//! code must not run during the write.
//!
//! The functions are not part of a root. A function can capture a lister of the same store, and a
//! store that held the function in its root would never be freed. [`Store::close`](crate::Store::close)
//! drops the functions.

use std::{
    any::Any,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube_object::Entry;

use crate::{hashed::hash_of, reentrancy::REFUSED};

/// Holds the index functions of a store, in the order in which the indexes were added.
pub(crate) struct IndexFunctions<T>(Vec<Arc<dyn AnyIndexFunction<T>>>);

/// An index function without the type of its values.
trait AnyIndexFunction<T>: Send + Sync {
    /// Returns the values of these objects as [`BatchValues`], and the number of panics of the
    /// function.
    fn evaluate(&self, entries: &[&Entry<T>]) -> (Box<dyn Any>, u64);
}

/// Holds the values of all indexes for a batch of objects, in the order of the indexes.
pub(crate) struct Evaluated {
    pub(crate) of_index: Vec<Box<dyn Any>>,
    /// The number of panics of index functions.
    pub(crate) panics: u64,
}

/// Holds the values of a batch of objects in one list, to reduce allocations.
pub(crate) struct BatchValues<V> {
    values: std::vec::IntoIter<(u64, V)>,
    /// The end of each object's values.
    ends: Vec<usize>,
    /// The number of consumed values.
    taken: usize,
}

impl<V> BatchValues<V> {
    /// Returns the values of the object at this place. Drops the values of the objects that precede
    /// this object.
    pub(crate) fn values_at(&mut self, at: usize) -> impl ExactSizeIterator<Item = (u64, V)> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.values.by_ref().take(start - self.taken).for_each(drop);
        self.taken = self.ends[at];
        self.values.by_ref().take(self.ends[at] - start)
    }
}

impl<T> Default for IndexFunctions<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Clone for IndexFunctions<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: 'static> IndexFunctions<T> {
    pub(crate) fn evaluate(&self, entries: &[&Entry<T>]) -> Evaluated {
        let (of_index, panics): (_, Vec<u64>) = self.0.iter().map(|index| index.evaluate(entries)).unzip();
        Evaluated { of_index, panics: panics.iter().sum() }
    }

    pub(crate) fn push<V: Hash + Eq + 'static>(&mut self, function: IndexFunction<T, V>) {
        self.0.push(Arc::new(function));
    }
}

/// Appends the values of an object, with their hashes, to a list.
type AppendValues<T, V> = dyn Fn(&T, &mut Vec<(u64, V)>) + Send + Sync;

/// The function of one index.
pub(crate) struct IndexFunction<T, V> {
    name: &'static str,
    append: Box<AppendValues<T, V>>,
}

impl<T, V: Hash + Eq> IndexFunction<T, V> {
    pub(crate) fn new<I: IntoIterator<Item = V>>(
        name: &'static str,
        function: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Self {
        let append = move |object: &T, values: &mut Vec<(u64, V)>| {
            values.extend(function(object).into_iter().map(|value| (hash_of(&value), value)));
        };
        Self { name, append: Box::new(append) }
    }

    /// Appends the values of an object. Appends no values if the function panics. Returns whether
    /// the function panicked. The panic message is not logged, because it may contain data of the
    /// object.
    fn append(&self, entry: &Entry<T>, values: &mut Vec<(u64, V)>) -> bool {
        let before = values.len();
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.append)(&entry.object, values))) else {
            return false;
        };
        values.truncate(before);
        if panic.downcast_ref::<&str>() == Some(&REFUSED) {
            tracing::error!(
                index = self.name,
                key = %entry.key(),
                "index function called a method that waits for index functions; \
                 the object has no values in this index; an index function may only read the cache"
            );
        } else {
            tracing::error!(index = self.name, key = %entry.key(), "index function panicked; the object has no values in this index");
        }
        true
    }

    pub(crate) fn evaluate(&self, entries: &[&Entry<T>]) -> (BatchValues<V>, u64) {
        let mut panics = 0;
        let mut values = Vec::with_capacity(entries.len());
        let end_of = |entry: &&Entry<T>| {
            panics += u64::from(self.append(entry, &mut values));
            values.len()
        };
        let ends = entries.iter().map(end_of).collect();
        (BatchValues { values: values.into_iter(), ends, taken: 0 }, panics)
    }
}

impl<T, V: Hash + Eq + 'static> AnyIndexFunction<T> for IndexFunction<T, V> {
    fn evaluate(&self, entries: &[&Entry<T>]) -> (Box<dyn Any>, u64) {
        let (values, panics) = IndexFunction::evaluate(self, entries);
        (Box::new(values), panics)
    }
}
