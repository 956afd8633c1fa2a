//! `Indexes`: all indexes of a store behind one trait, so that one write updates them all.
//!
//! The user's functions run apart from the writing, on a whole batch at once: a write that happens
//! in place keeps readers out for its moment, and foreign code has no business in there.

use std::{
    any::Any,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube_object::Entry;

use crate::{
    hashed::hash_of,
    postings::{Postings, Values},
};

/// An index without the type of its values.
trait AnyIndex<T>: Any + Send + Sync {
    fn name(&self) -> &'static str;
    fn boxed(&self) -> Box<dyn AnyIndex<T>>;
    /// The values of these objects as a `Vec<Values<V>>`, and how often the function panicked.
    fn evaluate(&self, entries: &[&Entry<T>]) -> (Box<dyn Any>, u64);
    /// Makes the values at place `at` of what `evaluate` gave those of the slot.
    fn set(&mut self, slot: u32, evaluated: &mut dyn Any, at: usize);
    fn clear(&mut self, slot: u32);
    fn check(&self, slots: &[u32]);
}

/// An index function, whatever it returned, gives a list.
pub(crate) type IndexFn<T, V> = dyn Fn(&T) -> Vec<V> + Send + Sync;

/// One index: its function and what it has found.
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
    pub(crate) fn new(name: &'static str, function: Arc<IndexFn<T, V>>) -> Self {
        Self { name, function, postings: Postings::default() }
    }

    /// `None` if the function panicked. The panic's message is not logged: it may quote the object.
    fn values_of(&self, entry: &Entry<T>) -> Option<Values<V>> {
        let values = catch_unwind(AssertUnwindSafe(|| {
            let values = (self.function)(&entry.object);
            values.into_iter().map(|value| (hash_of(&value), value)).collect()
        }));
        if values.is_err() {
            tracing::error!(index = self.name, key = %entry.key(), "an index function panicked");
        }
        values.ok()
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
        let mut panics = 0;
        let values = entries.iter().map(|entry| {
            self.values_of(entry).unwrap_or_else(|| {
                panics += 1;
                Values::new()
            })
        });
        let values: Vec<Values<V>> = values.collect();
        (Box::new(values), panics)
    }

    fn set(&mut self, slot: u32, evaluated: &mut dyn Any, at: usize) {
        if let Some(all) = evaluated.downcast_mut::<Vec<Values<V>>>() {
            self.postings.set(slot, std::mem::take(&mut all[at]));
        }
    }

    fn clear(&mut self, slot: u32) {
        self.postings.set(slot, Values::new());
    }

    fn check(&self, slots: &[u32]) {
        self.postings.check(slots.iter().copied());
    }
}

/// What the functions of all indexes gave for some objects, in the order of the indexes.
pub(crate) struct Evaluated {
    of_index: Vec<Box<dyn Any>>,
    /// How often a function panicked.
    pub(crate) panics: u64,
}

/// The indexes of a store, in the order in which they were added.
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

    /// The index at this place, if its values are of this type.
    pub(crate) fn state<V: 'static>(&self, position: usize) -> Option<&IndexState<T, V>> {
        let index: &dyn Any = &**self.0.get(position)?;
        index.downcast_ref()
    }

    pub(crate) fn evaluate(&self, entries: &[&Entry<T>]) -> Evaluated {
        let (of_index, panics): (_, Vec<u64>) = self.0.iter().map(|index| index.evaluate(entries)).unzip();
        Evaluated { of_index, panics: panics.iter().sum() }
    }

    /// Makes the values of the object at place `at` of what was evaluated those of the slot.
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

    /// Adds an index, filled from what is there; gives the number of panics of its function.
    pub(crate) fn add<'a, V: Hash + Eq + Clone + Send + Sync + 'static>(
        &mut self,
        mut index: IndexState<T, V>,
        objects: impl Iterator<Item = (u32, &'a Entry<T>)>,
    ) -> u64 {
        let mut panics = 0;
        for (slot, entry) in objects {
            match index.values_of(entry) {
                Some(values) => index.postings.set(slot, values),
                None => panics += 1,
            }
        }
        self.0.push(Box::new(index));
        panics
    }

    /// Panics unless each index agrees with itself about these slots; for tests.
    pub(crate) fn check(&self, slots: &[u32]) {
        for index in &self.0 {
            index.check(slots);
        }
    }
}
