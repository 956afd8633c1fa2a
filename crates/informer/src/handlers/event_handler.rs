//! `EventHandler`: user code that receives the events of a cache.

use kube_object::{Entry, Event, Removal};

/// Receives the events of a cache. Equivalent to client-go's `ResourceEventHandler`.
///
/// # Contract
/// 1. Calls are sequential, on the task or thread of the handler.
/// 2. A change is visible in the store and in every index before the handler is called.
/// 3. The calls for one object have a fixed order: one `on_add`, any number of `on_update`, and one
///    `on_delete`. If an object is deleted and created again under the same name, the handler
///    receives a delete and an add, even if the watch missed the deletion.
/// 4. If a handler lags, its events are coalesced. The handler still receives the latest state of
///    every object, and a delete for every object that it has received. A handler of
///    [`Informer::add_backpressured_handler`](crate::Informer::add_backpressured_handler) receives
///    every event, and the cache waits for this handler.
/// 5. A panic in a call is caught, counted and logged. The handler remains registered.
///
/// A handler must not block, and its methods are not async. A typical handler adds keys to a work
/// queue. If your code must await, read the stream [`Informer::events`](crate::Informer::events).
/// If your code must block, register the handler with
/// [`Informer::add_blocking_handler`](crate::Informer::add_blocking_handler).
///
/// See also [`handler_fn`] for closures and
/// [`FilteringEventHandler`](crate::FilteringEventHandler).
pub trait EventHandler<T>: Send + 'static {
    /// Receives a new object. `is_in_initial_list` is true for objects that were cached when the
    /// handler was added, and for objects of the informer's initial list.
    fn on_add(&mut self, object: &Entry<T>, is_in_initial_list: bool) {
        let _ = (object, is_in_initial_list);
    }

    /// Receives a changed object. In a resync, `old` and `new` are the same entry.
    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        let _ = (old, new);
    }

    /// Receives an object that was removed from the cache. `removal` tells whether it was deleted, and
    /// whether `last_known` can be older than the last state of the object.
    fn on_delete(&mut self, last_known: &Entry<T>, removal: Removal) {
        let _ = (last_known, removal);
    }
}

impl<T: 'static> EventHandler<T> for Box<dyn EventHandler<T>> {
    fn on_add(&mut self, object: &Entry<T>, is_in_initial_list: bool) {
        (**self).on_add(object, is_in_initial_list);
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        (**self).on_update(old, new);
    }

    fn on_delete(&mut self, last_known: &Entry<T>, removal: Removal) {
        (**self).on_delete(last_known, removal);
    }
}

/// Calls a closure with each event. [`handler_fn`] creates this handler.
#[derive(Clone, Debug)]
pub struct HandlerFn<F>(F);

/// Creates an [`EventHandler`] from a closure that receives each event.
///
/// [`Informer::on_event`](crate::Informer::on_event) accepts a closure directly.
pub fn handler_fn<T, F: FnMut(&Event<T>) + Send + 'static>(handler: F) -> HandlerFn<F> {
    HandlerFn(handler)
}

impl<T, F: FnMut(&Event<T>) + Send + 'static> EventHandler<T> for HandlerFn<F> {
    fn on_add(&mut self, object: &Entry<T>, initial: bool) {
        (self.0)(&Event::Added { object: object.clone(), initial });
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        (self.0)(&Event::Updated { old: old.clone(), new: new.clone() });
    }

    fn on_delete(&mut self, last: &Entry<T>, removal: Removal) {
        (self.0)(&Event::Deleted { last: last.clone(), removal });
    }
}
