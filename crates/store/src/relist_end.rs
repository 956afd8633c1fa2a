//! `RelistEnd`: the end of a large relist. The work for each object runs outside of all locks.

use std::sync::Arc;

use kube_object::{Delta, Event, Object, ResourceVersion};

use crate::{
    Store,
    reentrancy::WriteMark,
    replace::Relist,
    root::{ApplyOutcome, Root},
};

/// Applies a large relist in two steps. [`Store::begin_relist_end`] creates it at the
/// [`Delta::End`] of the relist.
///
/// [`prepare`](Self::prepare) processes each object without a lock, so it can run on another
/// thread. [`publish`](Self::publish) makes the result visible atomically, in constant time. Drop
/// the value on a thread that may block, because the drop can free a million objects.
pub struct RelistEnd<T> {
    store: Store<T>,
    relist: Relist<T>,
    version: ResourceVersion,
    complete: bool,
    /// The state that was copied for `prepared`. While this reference exists, no write changes the state in
    /// place.
    before: Arc<Root<T>>,
    prepared: Option<Prepared<T>>,
}

struct Prepared<T> {
    root: Arc<Root<T>>,
    outcome: ApplyOutcome<T>,
}

impl<T: Object> Store<T> {
    /// Returns the relist in progress if this batch completes it, and if the relist or the store
    /// contains at least `min_objects` objects. The caller must then call [`RelistEnd::prepare`]
    /// and [`RelistEnd::publish`] instead of [`apply`](Store::apply).
    ///
    /// Otherwise returns `None`. The caller must then [`apply`](Store::apply) the batch.
    ///
    /// Between this call and [`RelistEnd::publish`], the caller must not apply other deltas.
    ///
    /// # Panics
    /// Panics if an index function of this store calls this method.
    pub fn begin_relist_end(&self, batch: &[Delta<T>], min_objects: usize) -> Option<RelistEnd<T>> {
        let [Delta::End { version, complete }] = batch else { return None };
        let before = self.snapshot().root;
        let is_large = |relist: &mut Relist<T>| relist.len().max(before.objects.len()) >= min_objects;
        let (mut writer, _mark) = self.lock_writer();
        let relist = writer.relist.take_if(is_large)?;
        Some(RelistEnd {
            store: Store { shared: Arc::clone(&self.shared), keep_alive: None },
            relist,
            version: version.clone(),
            complete: *complete,
            before,
            prepared: None,
        })
    }
}

impl<T: Object> RelistEnd<T> {
    /// Applies the relist to a copy of the current state, and returns the events in the order of
    /// the changes. Runs the index functions. Deliver the events only after
    /// [`publish`](Self::publish) has returned true.
    pub fn prepare(&mut self) -> Vec<Event<T>> {
        let functions = self.store.lock_writer().0.functions.clone();
        self.before = self.store.snapshot().root;
        let _mark = WriteMark::new(self.store.address());
        let mut root = Root::clone(&self.before);
        let mut outcome = ApplyOutcome::new(0);
        self.relist.apply(self.version.clone(), self.complete, &functions, &mut root, &mut outcome);
        let events = std::mem::take(&mut outcome.events);
        self.prepared = Some(Prepared { root: Arc::new(root), outcome });
        events
    }

    /// Makes the prepared state visible, in constant time.
    ///
    /// Returns false if the store has changed since [`prepare`](Self::prepare), for example because
    /// an index was added. The caller must then call `prepare` again. If the store is closed, the
    /// call has no effect and returns true.
    pub fn publish(&mut self) -> bool {
        let Some(Prepared { root, outcome }) = self.prepared.take() else { return false };
        if self.store.is_closed() {
            return true;
        }
        let (_writer, _mark) = self.store.lock_writer();
        let mut current = self.store.shared.root.write();
        if !Arc::ptr_eq(&current, &self.before) {
            return false;
        }
        // The old state is dropped with this value.
        *current = root;
        drop(current);
        self.store.count(&outcome);
        self.store.shared.changed.notify_waiters();
        true
    }
}

impl<T> std::fmt::Debug for RelistEnd<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelistEnd").field("version", &self.version).finish_non_exhaustive()
    }
}
