//! `HandlerRegistration`: the result of `add_handler`.

use std::{fmt, time::Duration};

use kube_object::Object;
use tokio::sync::watch;

use crate::{
    subscription::{Subscription, Unsubscribe},
    sync,
};

/// Owns a registered handler. The registration keeps the informer running.
///
/// If the registration is dropped, the handler is removed and its queued events are dropped. A
/// running call completes, and no later call starts. [`HandlerRegistration::remove`] also waits for
/// the running call. [`HandlerRegistration::detach`] keeps the handler registered until the
/// informer stops.
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
    /// A detached handler does not keep the informer running. The informer stops when the last
    /// value that keeps it alive is dropped: a clone, a lister, an index, a stream or another
    /// registration. A factory also keeps its informers alive (see
    /// [`InformerFactory`](crate::InformerFactory)).
    pub fn detach(mut self) {
        self.released = true;
    }

    /// Sets the name of the handler in logs and in the status of the informer. The default is `#`
    /// and the number of the registration, for example `#3`.
    pub fn named(self, name: impl AsRef<str>) -> Self {
        self.subscription.mailbox.set_name(name.as_ref());
        self
    }

    /// Returns whether the handler has processed each object of its initial list.
    pub fn has_synced(&self) -> bool {
        *self.subscription.mailbox.synced().borrow()
    }

    /// Waits until the handler has processed each object of its initial list. Then returns true.
    ///
    /// Returns false if the timeout expires, the handler is removed, or the informer is stopped.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn wait_for_sync(&self, timeout: Duration) -> bool {
        self.refuse_index_function();
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

    /// Returns the number of panics in calls of the handler.
    pub fn panics(&self) -> u64 {
        self.subscription.mailbox.panics()
    }

    /// Removes the handler and drops its queued events.
    ///
    /// Waits for a running call. Afterwards, the handler is never called again.
    ///
    /// Do not wait for this method within a call of the handler, because the call and the method
    /// would wait for each other indefinitely.
    ///
    /// # Cancel safety
    /// The handler is always removed, because dropping the future also drops the registration. If
    /// you drop the future, you do not know when the running call has returned.
    pub async fn remove(self) {
        self.cancel(Unsubscribe::DropQueued).await;
    }

    /// Delivers the queued events, and then removes the handler. Events after this call are not
    /// queued.
    ///
    /// Waits until the handler has returned from the last call. Do not wait for this method within
    /// a call of the handler, because the call and the method would wait for each other
    /// indefinitely.
    ///
    /// # Cancel safety
    /// If you drop the future before its first poll, the handler is removed without its queued
    /// events. If you drop it later, the handler still receives its queued events, but you do not
    /// know when.
    pub async fn remove_after_delivery(self) {
        self.cancel(Unsubscribe::DeliverQueued).await;
    }

    /// Delivers the queued events and a delete of each cached object, with
    /// [`Removal::Left`](kube_object::Removal::Left), and then removes the handler. If the informer has
    /// stopped, the handler receives no deletes.
    ///
    /// Waits until the handler has returned from the last call. Do not wait for this method within
    /// a call of the handler, because the call and the method would wait for each other
    /// indefinitely.
    ///
    /// # Cancel safety
    /// If you drop the future before its first poll, the handler is removed without these events. If you
    /// drop it later, the handler still receives the events, but you do not know when.
    pub async fn remove_after_deletes(self) {
        self.cancel(Unsubscribe::DeleteAll).await;
    }

    /// Delivers the queued events and a delete of each cached object, and then removes the handler.
    pub(crate) fn remove_with_deletes(mut self) {
        self.released = true;
        self.subscription.cancel(Unsubscribe::DeleteAll);
    }

    async fn cancel(mut self, removal: Unsubscribe) {
        self.refuse_index_function();
        self.released = true;
        self.subscription.cancel(removal);
        self.wait_for_end().await;
    }

    /// Panics within an index function of the informer.
    pub(crate) fn refuse_index_function(&self) {
        self.subscription.refuse_index_function();
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
            self.subscription.cancel(Unsubscribe::DropQueued);
        }
    }
}

impl<T: Object> fmt::Debug for HandlerRegistration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerRegistration").field("id", &self.subscription.id).finish_non_exhaustive()
    }
}
