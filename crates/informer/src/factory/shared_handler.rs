//! `SharedHandler`: a handler for the events of several informers.

use std::sync::Arc;

use kube_object::{Entry, Object, Removal};
use parking_lot::Mutex;

use crate::{EventHandler, HandlerRegistration, Informer, handlers::LagPolicy};

/// A handler that the tasks of several informers share. Only one task calls it at a time.
pub(super) struct SharedHandler<T> {
    handler: Arc<Mutex<Box<dyn EventHandler<T>>>>,
    policy: LagPolicy,
}

impl<T> SharedHandler<T> {
    pub(super) fn new(handler: impl EventHandler<T>, policy: LagPolicy) -> Self {
        Self { handler: Arc::new(Mutex::new(Box::new(handler))), policy }
    }
}

impl<T: Object> SharedHandler<T> {
    /// Registers the handler with an informer.
    pub(super) fn register(self, informer: &Informer<T>) -> HandlerRegistration<T> {
        let policy = self.policy;
        informer.register(self, policy, informer.default_resync())
    }
}

impl<T> Clone for SharedHandler<T> {
    fn clone(&self) -> Self {
        Self { handler: Arc::clone(&self.handler), policy: self.policy }
    }
}

impl<T: 'static> EventHandler<T> for SharedHandler<T> {
    fn on_add(&mut self, object: &Entry<T>, is_in_initial_list: bool) {
        self.handler.lock().on_add(object, is_in_initial_list);
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        self.handler.lock().on_update(old, new);
    }

    fn on_delete(&mut self, last_known: &Entry<T>, removal: Removal) {
        self.handler.lock().on_delete(last_known, removal);
    }
}
