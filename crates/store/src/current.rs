//! `Current`: the state that readers see, and the writes that change it.

use std::sync::Arc;

use kube_object::{Delta, Entry, Event, KeyRef, Object};

use crate::{
    Store,
    index_functions::IndexFunctions,
    key_table::KeyTable,
    root::{ApplyOutcome, Root, StateSource, WriteBatch},
};

/// The maximum number of deltas that are written in place. Readers are blocked during this write. A
/// longer batch is written to a copy.
pub(crate) const MAX_IN_PLACE_DELTAS: usize = 256;

/// The maximum number of events of a batch that is written in place. An object with another uid causes two
/// events.
const MAX_IN_PLACE_EVENTS: usize = 2 * MAX_IN_PLACE_DELTAS;

/// Holds the latest root, and a table with the same objects for lookups by key.
///
/// Both are behind one lock, so each write changes both atomically. Snapshots hold only the root.
pub(crate) struct Current<T> {
    pub(crate) root: Arc<Root<T>>,
    pub(crate) table: KeyTable<T>,
}

impl<T> Default for Current<T> {
    fn default() -> Self {
        Self { root: Arc::default(), table: KeyTable::default() }
    }
}

impl<T> Clone for Current<T> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root), table: self.table.clone() }
    }
}

impl<T: Object> Current<T> {
    /// Panics unless the table contains exactly the objects of the root. For tests.
    pub(crate) fn check(&self) {
        self.root.check();
        self.table.check();
        assert_eq!(self.table.len(), self.root.objects.len());
        for (_, entry) in self.root.objects.iter() {
            let found = self.table.get(entry.key().as_ref());
            let is_current = found.is_some_and(|object| Arc::ptr_eq(object, &entry.object));
            assert!(is_current, "a lookup of {} returns another object", entry.key());
        }
    }
}

impl<T> Store<T> {
    pub(crate) fn root(&self) -> Arc<Root<T>> {
        Arc::clone(&self.shared.current.read().root)
    }

    pub(crate) fn get_latest(&self, key: KeyRef<'_>) -> Option<Arc<T>> {
        self.shared.current.read().table.get(key).cloned()
    }
}

impl<T: Object> Store<T> {
    /// Applies a small batch: in place, or to a copy of the root if a snapshot is held.
    pub(crate) fn apply_live(
        &self,
        batch: Vec<Delta<T>>,
        functions: &IndexFunctions<T>,
        outcome: &mut ApplyOutcome<T>,
    ) {
        let root = self.root();
        let mut context = WriteBatch::new(functions, &root, &puts(&batch), StateSource::Live, outcome);
        drop(root);
        let write = |root: &mut Root<T>| {
            for delta in batch {
                root.apply_live(delta, &mut context);
            }
        };
        let mut current = self.shared.current.write();
        let Current { root, table } = &mut *current;
        if let Some(root) = Arc::get_mut(root) {
            write(root);
            // The events also hold the replaced objects, so no object is freed under the lock.
            return table.apply(&outcome.events);
        }
        let mut copy = Root::clone(root);
        drop(current);
        write(&mut copy);
        self.publish(Arc::new(copy), &outcome.events);
    }

    /// Replaces the root. `events` are the differences of its objects from the objects of the current root.
    /// The old root is dropped after the lock is released.
    pub(crate) fn publish(&self, root: Arc<Root<T>>, events: &[Event<T>]) {
        if events.len() <= MAX_IN_PLACE_EVENTS {
            let mut current = self.shared.current.write();
            current.table.apply(events);
            let old = std::mem::replace(&mut current.root, root);
            drop(current);
            return drop(old);
        }
        let mut table = self.shared.current.read().table.clone();
        table.apply(events);
        let old = std::mem::replace(&mut *self.shared.current.write(), Current { root, table });
        drop(old);
    }
}

pub(crate) fn puts<T>(batch: &[Delta<T>]) -> Vec<&Entry<T>> {
    batch.iter().filter_map(|delta| if let Delta::Put(entry) = delta { Some(entry) } else { None }).collect()
}

#[cfg(test)]
mod tests;
