//! `EventHandler`: what a program does about changes.

use kube_object::{Entry, Event};

/// Is told of every change of a cache: client-go's `ResourceEventHandler`.
///
/// # Contract
/// 1. Calls are sequential, on one task of the handler's own, or on one thread.
/// 2. Each call comes after the store and every index show the change.
/// 3. For each object the calls are a history: one `on_add`, any number of `on_update`, one
///    `on_delete`; then perhaps an `on_add` again. An object that is deleted and created again
///    under its name is a delete and an add, also where the watch missed the moment between.
/// 4. A handler that lags far behind is shown fewer, merged updates, but every addition and
///    deletion of an object that it has been shown. One of
///    [`Informer::on_every`](crate::Informer::on_every) is shown each, and the cache waits for it.
/// 5. A panic is caught, counted and logged; the handler stays registered.
///
/// A handler must not block and can't await: hand keys to a work queue, read
/// [`Informer::events`](crate::Informer::events) as a stream instead, or register it with
/// [`Informer::add_blocking_handler`](crate::Informer::add_blocking_handler), which gives it a thread.
///
/// [`Filtered`](crate::Filtered) shows a handler some objects only, [`handler_fn`] makes one of a closure.
pub trait EventHandler<T>: Send + 'static {
    /// An object appeared. `is_in_initial_list`: it was there when this handler began to look.
    fn on_add(&mut self, object: &Entry<T>, is_in_initial_list: bool) {
        let _ = (object, is_in_initial_list);
    }

    /// An object changed, or is shown again by a resync: then `old` and `new` are one value.
    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        let _ = (old, new);
    }

    /// An object is gone. `final_state_unknown`: the deletion was not watched, so `last_known` may
    /// be older than the object's last state (client-go's `DeletedFinalStateUnknown`).
    fn on_delete(&mut self, last_known: &Entry<T>, final_state_unknown: bool) {
        let _ = (last_known, final_state_unknown);
    }
}

impl<T: 'static> EventHandler<T> for Box<dyn EventHandler<T>> {
    fn on_add(&mut self, object: &Entry<T>, is_in_initial_list: bool) {
        (**self).on_add(object, is_in_initial_list);
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        (**self).on_update(old, new);
    }

    fn on_delete(&mut self, last_known: &Entry<T>, final_state_unknown: bool) {
        (**self).on_delete(last_known, final_state_unknown);
    }
}

/// A handler made of a closure: see [`handler_fn`].
pub struct HandlerFn<F>(F);

/// A closure over events as a handler, for where a handler is asked for; [`Informer::on`](crate::Informer::on) takes the
/// closure itself.
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

    fn on_delete(&mut self, last: &Entry<T>, final_state_unknown: bool) {
        (self.0)(&Event::Deleted { last: last.clone(), final_state_unknown });
    }
}

/// Gives one event to a handler.
pub(crate) fn call<T>(handler: &mut impl EventHandler<T>, event: &Event<T>) {
    match event {
        Event::Added { object, initial } => handler.on_add(object, *initial),
        Event::Updated { old, new } => handler.on_update(old, new),
        Event::Deleted { last, final_state_unknown } => handler.on_delete(last, *final_state_unknown),
    }
}
