//! `HandlerRegistration`: what `add_handler` gives back.

use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use kube_object::Object;
use tokio::sync::watch;

use crate::{
    mailbox::{Mailbox, Queued},
    shared::Shared,
    sync,
};

/// A registered handler. Dropping it only detaches: the handler stays registered, and keeps its
/// informer alive, until the informer is stopped.
pub struct HandlerRegistration<T> {
    pub(crate) id: u64,
    pub(crate) shared: Weak<Shared<T>>,
    pub(crate) mailbox: Arc<Mailbox<T>>,
    /// Its sender is dropped when the handler's task has ended.
    pub(crate) ended: watch::Receiver<()>,
}

impl<T: Object> HandlerRegistration<T> {
    /// Gives the handler a name, by which the status of its informer and logs call it. Until then it is `#` and the
    /// number of its registration.
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Self {
        self.mailbox.set_name(name.as_ref());
        self
    }

    /// Whether the handler has returned from each add of its initial list.
    pub fn has_synced(&self) -> bool {
        *self.mailbox.synced().borrow()
    }

    /// Waits until the handler has returned from each add of its initial list; `false` if that
    /// did not happen within the time or before the handler or its informer came to an end.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn wait_for_sync(&self, within: Duration) -> bool {
        let mut ended = self.ended.clone();
        tokio::select! {
            biased;
            _ = sync::wait_true(self.mailbox.synced(), within) => {}
            () = async { while ended.changed().await.is_ok() {} } => {}
        }
        self.has_synced()
    }

    /// Events that wait for the handler; far behind, one for each changed object.
    pub fn pending(&self) -> usize {
        self.mailbox.pending()
    }

    /// How often the handler has panicked.
    pub fn panics(&self) -> u64 {
        self.mailbox.panics()
    }

    /// Removes the handler; what is queued for it is dropped. When this returns no call is
    /// running, and none will follow. Must not be awaited from within the handler's own calls.
    ///
    /// # Cancel safety
    /// The handler is removed at the first poll; only the wait for a running call is lost.
    pub async fn remove(self) {
        self.end(Queued::Drop).await;
    }

    /// Removes the handler after it has been given what is queued for it now.
    ///
    /// # Cancel safety
    /// As [`HandlerRegistration::remove`].
    pub async fn remove_after_delivery(self) {
        self.end(Queued::Deliver).await;
    }

    /// Removes the handler once it has been given what is queued for it now, and then been told that each object is gone.
    pub(crate) fn forget_all(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.remove_telling(self.id, &self.mailbox);
        }
        self.mailbox.close(Queued::Deliver);
    }

    async fn end(mut self, queued: Queued) {
        if let Some(shared) = self.shared.upgrade() {
            shared.remove(self.id);
        }
        self.mailbox.close(queued);
        while self.ended.changed().await.is_ok() {}
    }
}

impl<T> fmt::Debug for HandlerRegistration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerRegistration").field("id", &self.id).finish_non_exhaustive()
    }
}
