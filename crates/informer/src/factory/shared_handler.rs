//! `SharedHandler`: a handler for the events of several informers.

use std::sync::Arc;

use kube_object::Entry;
use parking_lot::Mutex;

use crate::EventHandler;

/// A handler that the tasks of several informers share. Only one task calls it at a time.
pub(super) struct SharedHandler<T>(Arc<Mutex<Box<dyn EventHandler<T>>>>);

impl<T> SharedHandler<T> {
    pub(super) fn new(handler: impl EventHandler<T>) -> Self {
        Self(Arc::new(Mutex::new(Box::new(handler))))
    }
}

impl<T> Clone for SharedHandler<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: 'static> EventHandler<T> for SharedHandler<T> {
    fn on_add(&mut self, object: &Entry<T>, is_in_initial_list: bool) {
        self.0.lock().on_add(object, is_in_initial_list);
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        self.0.lock().on_update(old, new);
    }

    fn on_delete(&mut self, last_known: &Entry<T>, final_state_unknown: bool) {
        self.0.lock().on_delete(last_known, final_state_unknown);
    }
}
