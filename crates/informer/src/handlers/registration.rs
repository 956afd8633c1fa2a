//! `HandlerRegistration`: the result of `add_handler`.

use std::{fmt, time::Duration};

use kube_object::Object;
use tokio::sync::watch;

use crate::{
    shared::{Removal, Subscription},
    sync,
};

/// Owns a registered handler, and keeps its informer running.
///
/// Dropping the registration removes the handler and drops its queued events. A running call
/// completes, and no later call starts. [`HandlerRegistration::remove`] also waits for a running
/// call. [`HandlerRegistration::detach`] keeps the handler registered until the informer stops.
#[must_use = "dropping the registration removes the handler; keep it, or call `detach`"]
pub struct HandlerRegistration<T: Object> {
    subscription: Subscription<T>,
    /// Closed when the task of the handler has completed, because the task holds the sender.
    ended: watch::Receiver<()>,
    /// True if a drop must not remove the handler: it was removed or detached.
    released: bool,
}

impl<T: Object> HandlerRegistration<T> {
    pub(crate) fn new(subscription: Subscription<T>, ended: watch::Receiver<()>) -> Self {
        Self { subscription, ended, released: false }
    }

    /// Keeps the handler registered until the informer stops.
    ///
    /// The handler then belongs to the informer and does not keep it running. The informer stops
    /// when its last clone, lister, index, stream and registration is dropped. An informer of a
    /// factory runs until the factory stops it (see
    /// [`InformerFactory`](crate::InformerFactory)).
    pub fn detach(mut self) {
        self.subscription.release_informer();
        self.released = true;
    }

    /// Sets the name of the handler in the informer's status and in logs. The default is `#` and
    /// the number of the registration.
    pub fn named(self, name: impl AsRef<str>) -> Self {
        self.subscription.mailbox.set_name(name.as_ref());
        self
    }

    /// Returns whether the handler has returned from each add of its initial list.
    pub fn has_synced(&self) -> bool {
        *self.subscription.mailbox.synced().borrow()
    }

    /// Waits until the handler has returned from each add of its initial list.
    ///
    /// Returns false after the timeout, or if the handler was removed or the informer was stopped.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future only cancels the wait.
    pub async fn wait_for_sync(&self, timeout: Duration) -> bool {
        tokio::select! {
            biased;
            _ = sync::wait_true(self.subscription.mailbox.synced(), timeout) => {}
            () = self.wait_for_end() => {}
        }
        self.has_synced()
    }

    /// Returns the number of queued events. Coalesced events count once per object.
    pub fn pending(&self) -> usize {
        self.subscription.mailbox.pending()
    }

    /// Returns the number of panics of the handler.
    pub fn panics(&self) -> u64 {
        self.subscription.mailbox.panics()
    }

    /// Removes the handler and drops its queued events.
    ///
    /// Waits for a running call. Afterwards, the handler is never called again. Do not await this
    /// method within a call of the handler, because the call would wait for its own end.
    ///
    /// # Cancel safety
    /// The first poll removes the handler. Dropping the future only cancels the wait for a running
    /// call.
    pub async fn remove(self) {
        self.cancel(Removal::DropQueued).await;
    }

    /// Delivers the queued events, and then removes the handler. Later events are not queued.
    ///
    /// # Cancel safety
    /// The first poll starts the removal. Dropping the future only cancels the wait.
    pub async fn remove_after_delivery(self) {
        self.cancel(Removal::DeliverQueued).await;
    }

    /// Delivers the queued events and a delete of each cached object, and then removes the handler.
    pub(crate) fn remove_with_deletes(mut self) {
        self.released = true;
        self.subscription.cancel(Removal::DeleteAll);
    }

    async fn cancel(mut self, removal: Removal) {
        self.released = true;
        self.subscription.cancel(removal);
        self.wait_for_end().await;
    }

    /// Returns the receiver of the sync state, and the receiver that is closed when the task of the
    /// handler has completed.
    pub(crate) fn signals(&self) -> (watch::Receiver<bool>, watch::Receiver<()>) {
        (self.subscription.mailbox.synced(), self.ended.clone())
    }

    async fn wait_for_end(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

impl<T: Object> Drop for HandlerRegistration<T> {
    fn drop(&mut self) {
        if !self.released {
            self.subscription.cancel(Removal::DropQueued);
        }
    }
}

impl<T: Object> fmt::Debug for HandlerRegistration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerRegistration").field("id", &self.subscription.id).finish_non_exhaustive()
    }
}
