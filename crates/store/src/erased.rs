//! `Indexes`: the values of all indexes of a store behind one trait, updated by the same write.

use std::{any::Any, hash::Hash};

use crate::{
    index_functions::{BatchValues, Evaluated},
    postings::Postings,
};

/// An index without the type of its values.
trait AnyIndex: Any + Send + Sync {
    fn name(&self) -> &'static str;
    fn boxed(&self) -> Box<dyn AnyIndex>;
    fn prefetch(&self, slots: &[u32]);
    /// Sets the values of a slot to the evaluated values at place `at`. The places are ascending
    /// and unique.
    fn set(&mut self, slot: u32, evaluated: &mut dyn Any, at: usize);
    fn clear(&mut self, slot: u32);
    fn check(&self, slots: &[u32]);
}

/// Holds the values of one index.
pub(crate) struct IndexState<V> {
    name: &'static str,
    postings: Postings<V>,
}

impl<V> IndexState<V> {
    pub(crate) fn new(name: &'static str, postings: Postings<V>) -> Self {
        Self { name, postings }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn postings(&self) -> &Postings<V> {
        &self.postings
    }
}

impl<V: Hash + Eq + Clone + Send + Sync + 'static> AnyIndex for IndexState<V> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn boxed(&self) -> Box<dyn AnyIndex> {
        Box::new(Self { name: self.name, postings: self.postings.clone() })
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

/// Holds the indexes of a store, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Indexes(Vec<Box<dyn AnyIndex>>);

impl Clone for Indexes {
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|index| index.boxed()).collect())
    }
}

impl Indexes {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|index| index.name() == name)
    }

    /// Returns the index at this position, if its values have this type.
    pub(crate) fn state<V: 'static>(&self, position: usize) -> Option<&IndexState<V>> {
        let index: &dyn Any = &**self.0.get(position)?;
        index.downcast_ref()
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

    /// Adds an index.
    pub(crate) fn push<V: Hash + Eq + Clone + Send + Sync + 'static>(&mut self, index: IndexState<V>) {
        self.0.push(Box::new(index));
    }

    /// Panics unless each index is consistent for these slots. For tests.
    pub(crate) fn check(&self, slots: &[u32]) {
        for index in &self.0 {
            index.check(slots);
        }
    }
}
