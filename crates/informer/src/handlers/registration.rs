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
/// Dropping it only detaches: the handler stays registered, and keeps its informer running, until
/// the informer is stopped.
pub struct HandlerRegistration<T> {
    pub(crate) subscription: Subscription<T>,
    /// The task of the handler drops the sender at its end.
    pub(crate) ended: watch::Receiver<()>,
}

impl<T: Object> HandlerRegistration<T> {
    /// Sets the name of the handler in the informer's status and in logs. The default is `#` and
    /// the number of the registration.
    #[must_use]
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
    /// Returns `false` after the timeout, or if the handler or its informer ended before.
    ///
    /// # Cancel safety
    /// Safe: only the wait is lost.
    pub async fn wait_for_sync(&self, timeout: Duration) -> bool {
        tokio::select! {
            biased;
            _ = sync::wait_true(self.subscription.mailbox.synced(), timeout) => {}
            () = self.wait_for_end() => {}
        }
        self.has_synced()
    }

    /// Returns the number of events that wait for the handler. If its events are coalesced, there is
    /// one for each changed object.
    pub fn pending(&self) -> usize {
        self.subscription.mailbox.pending()
    }

    /// Returns how many calls of the handler have panicked.
    pub fn panics(&self) -> u64 {
        self.subscription.mailbox.panics()
    }

    /// Removes the handler and drops its queued events.
    ///
    /// When this returns, no call is running and none will follow. Do not await it within a call of
    /// the handler: it would wait for itself.
    ///
    /// # Cancel safety
    /// The handler is removed at the first poll. Only the wait for a running call is lost.
    pub async fn remove(self) {
        self.subscription.cancel(Removal::DropQueued);
        self.wait_for_end().await;
    }

    /// Removes the handler after the delivery of its queued events.
    ///
    /// # Cancel safety
    /// Same as [`HandlerRegistration::remove`].
    pub async fn remove_after_delivery(self) {
        self.subscription.cancel(Removal::DeliverQueued);
        self.wait_for_end().await;
    }

    /// Removes the handler after the delivery of its queued events and of a delete of each object.
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
