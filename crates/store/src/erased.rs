//! `Indexes`: all indexes of a store behind one trait, updated by the same write.
//!
//! The index functions run for a complete batch before the write. A write in place blocks readers,
//! so user code must not run during the write.

use std::{
    any::Any,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube_object::Entry;

use crate::{hashed::hash_of, postings::Postings};

/// An index without the type of its values.
trait AnyIndex<T>: Any + Send + Sync {
    fn name(&self) -> &'static str;
    fn boxed(&self) -> Box<dyn AnyIndex<T>>;
    /// Returns the values of these objects as [`BatchValues`], and the number of panics of the
    /// function.
    fn evaluate(&self, entries: &[&Entry<T>]) -> (Box<dyn Any>, u64);
    fn prefetch(&self, slots: &[u32]);
    /// Sets the values of a slot to the evaluated values at place `at`. The places are ascending
    /// and unique.
    fn set(&mut self, slot: u32, evaluated: &mut dyn Any, at: usize);
    fn clear(&mut self, slot: u32);
    fn check(&self, slots: &[u32]);
}

/// An index function that appends the values of an object, with their hashes, to a list.
pub(crate) type IndexFn<T, V> = dyn Fn(&T, &mut Vec<(u64, V)>) + Send + Sync;

/// Holds the values of a batch of objects in one list, to reduce allocations.
struct BatchValues<V> {
    values: std::vec::IntoIter<(u64, V)>,
    /// The end of each object's values.
    ends: Vec<usize>,
    /// The number of consumed values.
    taken: usize,
}

impl<V> BatchValues<V> {
    /// Returns the values of the object at this place. Drops the values of the objects that precede
    /// this object.
    fn values_at(&mut self, at: usize) -> impl ExactSizeIterator<Item = (u64, V)> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.values.by_ref().take(start - self.taken).for_each(drop);
        self.taken = self.ends[at];
        self.values.by_ref().take(self.ends[at] - start)
    }
}

/// Holds the function and the values of one index.
pub(crate) struct IndexState<T, V> {
    name: &'static str,
    function: Arc<IndexFn<T, V>>,
    postings: Postings<V>,
}

impl<T, V> IndexState<T, V> {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn postings(&self) -> &Postings<V> {
        &self.postings
    }
}

impl<T: 'static, V: Hash + Eq + Clone + Send + Sync + 'static> IndexState<T, V> {
    pub(crate) fn new<I: IntoIterator<Item = V>>(
        name: &'static str,
        function: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Self {
        let function = move |object: &T, values: &mut Vec<(u64, V)>| {
            values.extend(function(object).into_iter().map(|value| (hash_of(&value), value)));
        };
        Self { name, function: Arc::new(function), postings: Postings::default() }
    }

    /// Appends the values of an object. Appends no values if the function panics. Returns whether
    /// the function panicked. The panic message is not logged, because it may contain data of the
    /// object.
    fn add_values(&self, entry: &Entry<T>, values: &mut Vec<(u64, V)>) -> bool {
        let before = values.len();
        let panicked = catch_unwind(AssertUnwindSafe(|| (self.function)(&entry.object, values))).is_err();
        if panicked {
            values.truncate(before);
            tracing::error!(index = self.name, key = %entry.key(), "index function panicked; the object has no values in this index");
        }
        panicked
    }

    fn evaluate(&self, entries: &[&Entry<T>]) -> (BatchValues<V>, u64) {
        let mut panics = 0;
        let mut values = Vec::with_capacity(entries.len());
        let end_of = |entry: &&Entry<T>| {
            panics += u64::from(self.add_values(entry, &mut values));
            values.len()
        };
        let ends = entries.iter().map(end_of).collect();
        (BatchValues { values: values.into_iter(), ends, taken: 0 }, panics)
    }
}

impl<T: 'static, V: Hash + Eq + Clone + Send + Sync + 'static> AnyIndex<T> for IndexState<T, V> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn boxed(&self) -> Box<dyn AnyIndex<T>> {
        let Self { name, function, postings } = self;
        Box::new(Self { name, function: Arc::clone(function), postings: postings.clone() })
    }

    fn evaluate(&self, entries: &[&Entry<T>]) -> (Box<dyn Any>, u64) {
        let (values, panics) = IndexState::evaluate(self, entries);
        (Box::new(values), panics)
    }

    fn prefetch(&self, slots: &[u32]) {
        self.postings.prefetch(slots);
    }

    fn set(&mut self, slot: u32, evaluated: &mut dyn Any, at: usize) {
        if let Some(values) = evaluated.downcast_mut::<BatchValues<V>>() {
            self.postings.set(slot, values.values_at(at));
        }
    }

    fn clear(&mut self, slot: u32) {
        self.postings.clear(slot);
    }

    fn check(&self, slots: &[u32]) {
        self.postings.check(slots.iter().copied());
    }
}

/// Holds the values of all indexes for a batch of objects, in the order of the indexes.
pub(crate) struct Evaluated {
    of_index: Vec<Box<dyn Any>>,
    /// The number of panics of index functions.
    pub(crate) panics: u64,
}

/// Holds the indexes of a store, in the order in which they were added.
pub(crate) struct Indexes<T>(Vec<Box<dyn AnyIndex<T>>>);

impl<T> Default for Indexes<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: 'static> Clone for Indexes<T> {
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|index| index.boxed()).collect())
    }
}

impl<T: 'static> Indexes<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|index| index.name() == name)
    }

    /// Returns the index at this position, if its values have this type.
    pub(crate) fn state<V: 'static>(&self, position: usize) -> Option<&IndexState<T, V>> {
        let index: &dyn Any = &**self.0.get(position)?;
        index.downcast_ref()
    }

    pub(crate) fn evaluate(&self, entries: &[&Entry<T>]) -> Evaluated {
        let (of_index, panics): (_, Vec<u64>) = self.0.iter().map(|index| index.evaluate(entries)).unzip();
        Evaluated { of_index, panics: panics.iter().sum() }
    }

    /// Loads the memory that `set` needs for these slots into the processor's cache.
    pub(crate) fn prefetch(&self, slots: &[u32]) {
        for index in &self.0 {
            index.prefetch(slots);
        }
    }

    /// Sets the values of a slot to the evaluated values at place `at`.
    pub(crate) fn set(&mut self, slot: u32, evaluated: &mut Evaluated, at: usize) {
        for (index, values) in self.0.iter_mut().zip(&mut evaluated.of_index) {
            index.set(slot, &mut **values, at);
        }
    }

    pub(crate) fn clear(&mut self, slot: u32) {
        for index in &mut self.0 {
            index.clear(slot);
        }
    }

    /// Adds an index and fills it with these objects. Returns the number of panics of its function.
    pub(crate) fn add<V: Hash + Eq + Clone + Send + Sync + 'static>(
        &mut self,
        mut index: IndexState<T, V>,
        objects: &[(u32, &Entry<T>)],
    ) -> u64 {
        let entries: Vec<&Entry<T>> = objects.iter().map(|(_, entry)| *entry).collect();
        let (mut values, panics) = index.evaluate(&entries);
        for (at, (slot, _)) in objects.iter().enumerate() {
            index.postings.set(*slot, values.values_at(at));
        }
        self.0.push(Box::new(index));
        panics
    }

    /// Panics unless each index is consistent for these slots. For tests.
    pub(crate) fn check(&self, slots: &[u32]) {
        for index in &self.0 {
            index.check(slots);
        }
    }
}
