//! `HandlerRegistration`: the result of `add_handler`.

use std::{fmt, time::Duration};

use kube_object::Object;
use tokio::sync::watch;

use crate::{
    shared::{Removal, Subscription},
    sync,
};

/// Refers to a registered handler.
///
/// If the registration is dropped, the handler remains registered. A registered handler keeps its
/// informer running until the informer is stopped.
pub struct HandlerRegistration<T> {
    pub(crate) subscription: Subscription<T>,
    /// Closed when the task of the handler has completed, because the task holds the sender.
    pub(crate) ended: watch::Receiver<()>,
}

impl<T: Object> HandlerRegistration<T> {
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
        self.subscription.cancel(Removal::DropQueued);
        self.wait_for_end().await;
    }

    /// Delivers the queued events, and then removes the handler. Later events are not queued.
    ///
    /// # Cancel safety
    /// The first poll starts the removal. Dropping the future only cancels the wait.
    pub async fn remove_after_delivery(self) {
        self.subscription.cancel(Removal::DeliverQueued);
        self.wait_for_end().await;
    }

    /// Delivers the queued events and a delete of each cached object, and then removes the handler.
    pub(crate) fn remove_with_deletes(&self) {
        self.subscription.cancel(Removal::DeleteAll);
    }

    async fn wait_for_end(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

impl<T> fmt::Debug for HandlerRegistration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerRegistration").field("id", &self.subscription.id).finish_non_exhaustive()
    }
}
