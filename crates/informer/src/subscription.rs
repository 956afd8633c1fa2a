//! `Subscription`: the handle on one subscriber of an informer.

use std::sync::{Arc, Weak};

use kube_object::Object;

use crate::{
    handlers::{Mailbox, Queued},
    shared::{KeepAlive, Shared},
};

/// Identifies a subscriber of an informer, and keeps the informer running. Only
/// [`Subscription::cancel`] removes the subscriber before the informer stops.
pub(crate) struct Subscription<T> {
    pub(crate) id: u64,
    pub(crate) shared: Weak<Shared<T>>,
    pub(crate) mailbox: Arc<Mailbox<T>>,
    pub(crate) _keep_alive: Option<Arc<KeepAlive>>,
}

/// The treatment of the queued events when a subscriber is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsubscribe {
    DropQueued,
    DeliverQueued,
    /// The queued events are delivered, and then a delete of each cached object.
    DeleteAll,
}

impl<T: Object> Subscription<T> {
    /// Panics within an index function of the informer.
    pub(crate) fn refuse_index_function(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.store.refuse_index_function();
        }
    }

    /// Removes the subscriber and closes its mailbox.
    pub(crate) fn cancel(&self, removal: Unsubscribe) {
        match self.shared.upgrade() {
            Some(shared) => shared.unsubscribe(self, removal),
            None => drop(self.mailbox.close(removal.queued())),
        }
    }
}

impl Unsubscribe {
    pub(crate) fn queued(self) -> Queued {
        match self {
            Self::DropQueued => Queued::Drop,
            Self::DeliverQueued | Self::DeleteAll => Queued::Deliver,
        }
    }
}
