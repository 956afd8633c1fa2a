//! `FilteringEventHandler`: a handler that receives only some objects.

use std::collections::HashSet;

use kube_object::{Entry, ObjectKey};

use super::EventHandler;

/// Passes only the objects that match a predicate to a handler. Equivalent to client-go's
/// `FilteringResourceEventHandler`.
///
/// If an update changes an object so that it matches, the handler receives an `on_add` with
/// `is_in_initial_list` false. If an update changes an object so that it no longer matches, the
/// handler receives an `on_delete` with the last matching state. Objects that never match are
/// ignored.
///
/// The filter stores the keys of the objects that the handler has received. It does not apply the
/// predicate to old states, because events may have been coalesced. A predicate may therefore depend on
/// other data, for example on settings. If the settings change, the filter applies the predicate again
/// with the next event of each object. A resync is such an event.
///
/// If the predicate panics, the event is ignored. The panic counts as a panic of the handler.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informer::{Entry, Event, FilteringEventHandler, Informer, handler_fn};
///
/// # fn example(pods: &Informer<Pod>) {
/// let is_running = |pod: &Entry<Pod>| {
///     pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
/// };
/// let handler = handler_fn(|event: &Event<Pod>| println!("{}", event.key()));
/// let registration = pods.add_handler(FilteringEventHandler::new(is_running, handler));
/// # }
/// ```
pub struct FilteringEventHandler<P, H> {
    predicate: P,
    handler: H,
    /// The objects that the handler has received.
    passed: HashSet<ObjectKey>,
}

impl<P, H> FilteringEventHandler<P, H> {
    /// Creates a filter that passes the objects for which `predicate` returns true to `handler`.
    pub fn new(predicate: P, handler: H) -> Self {
        Self { predicate, handler, passed: HashSet::new() }
    }
}

impl<T, P, H> EventHandler<T> for FilteringEventHandler<P, H>
where
    P: FnMut(&Entry<T>) -> bool + Send + 'static,
    H: EventHandler<T>,
{
    fn on_add(&mut self, object: &Entry<T>, is_in_initial_list: bool) {
        if (self.predicate)(object) {
            self.passed.insert(object.key().clone());
            self.handler.on_add(object, is_in_initial_list);
        }
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        let matches = (self.predicate)(new);
        match (self.passed.contains(new.key()), matches) {
            (true, true) => self.handler.on_update(old, new),
            (false, true) => {
                self.passed.insert(new.key().clone());
                self.handler.on_add(new, false);
            }
            (true, false) => {
                self.passed.remove(old.key());
                self.handler.on_delete(old, false);
            }
            (false, false) => {}
        }
    }

    fn on_delete(&mut self, last_known: &Entry<T>, final_state_unknown: bool) {
        if self.passed.remove(last_known.key()) {
            self.handler.on_delete(last_known, final_state_unknown);
        }
    }
}
