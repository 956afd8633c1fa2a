//! The methods of a `MultiNamespaceRegistration`.

use std::time::Duration;

use futures_util::future::join_all;
use kube_object::Object;
use tokio::time::Instant;

use super::{MultiNamespaceRegistration, NamespaceEntry, wait_for_ends};
use crate::{HandlerRegistration, sync};

impl<T: Object> MultiNamespaceRegistration<T> {
    /// Returns whether the handler has processed the initial adds of all current namespaces.
    pub fn has_synced(&self) -> bool {
        self.map_registrations(HandlerRegistration::has_synced).into_iter().all(|synced| synced)
    }

    /// Waits until the handler has processed the initial adds of all namespaces, including
    /// namespaces that are added during the wait. Then returns true.
    ///
    /// Returns false if the timeout expires or an informer was stopped.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_for_sync(&self, timeout: Duration) -> bool {
        self.map_registrations(HandlerRegistration::refuse_index_function);
        let timeout = sync::effective_timeout(timeout);
        // A deadline that the clock cannot represent never expires.
        let deadline = Instant::now().checked_add(timeout);
        let remaining = || deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        let unsynced = |registration: &HandlerRegistration<T>| {
            (!registration.has_synced()).then(|| registration.signals())
        };
        while let Some((synced, ended)) = self.map_registrations(unsynced).into_iter().flatten().next() {
            // In an active namespace, a handler task completes only if the informer was stopped.
            if ended.has_changed().is_err() || remaining().is_zero() {
                return false;
            }
            tokio::select! {
                biased;
                _ = sync::wait_true(synced, remaining()) => {}
                () = wait_for_ends(vec![ended]) => {}
            }
        }
        true
    }

    /// Returns the number of queued events of the handler, in all namespaces.
    pub fn pending(&self) -> usize {
        self.map_registrations(HandlerRegistration::pending).into_iter().sum()
    }

    /// Returns the number of panics in calls of the handler. Panics for removed namespaces do not
    /// count.
    pub fn panics(&self) -> u64 {
        self.map_registrations(HandlerRegistration::panics).into_iter().sum()
    }

    fn map_registrations<R>(&self, map: impl Fn(&HandlerRegistration<T>) -> R) -> Vec<R> {
        let table = self.inner.table.lock();
        let registration = |entry: &NamespaceEntry<T>| match entry {
            NamespaceEntry::Active { registrations, .. } => registrations.get(&self.id).map(&map),
            NamespaceEntry::Removing(_) => None,
        };
        table.namespaces.values().filter_map(registration).collect()
    }

    /// Removes the handler and drops its queued events.
    ///
    /// Waits for a running call. If a namespace is being removed, also waits until the handler has
    /// received the deletes of this namespace. Afterwards, the handler is never called again.
    ///
    /// Do not wait for this method within a handler call, because the call and the method would
    /// wait for each other indefinitely.
    ///
    /// # Cancel safety
    /// The handler is always removed, because dropping the future also drops the registration. If
    /// you drop the future, you do not know when the last call has returned.
    pub async fn remove(mut self) {
        let (handler, registrations, ending) = self.inner.remove_handler(self.id);
        self.released = true;
        drop(handler);
        join_all(registrations.into_iter().map(HandlerRegistration::remove)).await;
        wait_for_ends(ending).await;
    }

    /// Keeps the handler registered. The handler is removed when the last clone of the
    /// [`MultiNamespaceInformer`](crate::MultiNamespaceInformer) is dropped, or when the informers stop.
    pub fn detach(mut self) {
        self.released = true;
    }
}

impl<T: Object> Drop for MultiNamespaceRegistration<T> {
    fn drop(&mut self) {
        if !self.released {
            // Dropping the registrations removes the handler without a wait. A concurrent change also
            // removes the registrations that it has created for this handler.
            let removed = self.inner.table.lock().remove_handler(self.id);
            drop(removed);
        }
    }
}
