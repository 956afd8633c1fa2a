//! Fills a store with the objects of an earlier process.

use std::sync::Arc;

use kube_object::{Entry, Object, ResourceVersion};

use crate::{
    Store,
    replace::{PUTS_PER_BATCH, put_all},
    root::{ApplyOutcome, Root, StateSource},
};

impl<T: Object> Store<T> {
    /// Adds objects that an earlier process has cached, atomically and without events. Returns false if the
    /// store was written before, or is closed. Then the call has no effect.
    ///
    /// Readers see the objects, but the store is not synced, and has no position. A later list replaces them
    /// like other cached objects. [`Store::confirm_restored`] makes them the first state of the store.
    ///
    /// # Panics
    /// Panics if an index function of this store calls this method.
    pub fn restore(&self, entries: Vec<Entry<T>>) -> bool {
        let mut outcome = ApplyOutcome::new(entries.len());
        let (writer, mark) = self.lock_writer();
        let before = self.root();
        if self.is_closed() || writer.relist.is_some() || before.is_written() {
            return false;
        }
        let mut root = Root::clone(&before);
        let mut entries = entries.into_iter().map(|entry| (entry, false));
        loop {
            let puts: Vec<_> = entries.by_ref().take(PUTS_PER_BATCH).collect();
            if puts.is_empty() {
                break;
            }
            let source = StateSource::List { initial: true };
            put_all(puts, source, &writer.functions, &mut root, &mut outcome);
        }
        self.publish(Arc::new(root), &outcome.events);
        drop((writer, mark));
        self.count(&outcome);
        self.shared.changed.notify_waiters();
        true
    }

    /// Makes the restored objects the first complete state of the store, at this version. The caller has
    /// verified that the version belongs to the history of the server.
    ///
    /// # Panics
    /// Panics if an index function of this store calls this method.
    pub fn confirm_restored(&self, version: ResourceVersion) {
        let (writer, mark) = self.lock_writer();
        let mut root = Root::clone(&self.root());
        root.listed(version, true);
        self.publish(Arc::new(root), &[]);
        drop((writer, mark));
        self.shared.changed.notify_waiters();
    }
}

impl<T> Root<T> {
    /// Returns whether the store contains objects or has a position.
    fn is_written(&self) -> bool {
        self.objects.len() > 0 || self.watermark.synced || self.watermark.version.is_some()
    }
}

#[cfg(test)]
mod tests;
