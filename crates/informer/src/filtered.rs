//! `Filtered`: a handler that is told of some objects only.

use std::collections::HashSet;

use kube_object::{Entry, ObjectKey};

use crate::EventHandler;

/// Shows a handler only the objects that pass a test: client-go's `FilteringResourceEventHandler`.
///
/// An update by which an object begins to pass is an `on_add`, one by which it ceases to is an `on_delete` with the
/// state in which it passed last; what never passed is not spoken of. So to the handler the objects that pass are all
/// that there are. For what was there at the beginning and begins to pass later `is_in_initial_list` is false.
///
/// It remembers the key of each object that it has shown, and does not ask the test about a former state: a handler that
/// lags is told less than every state, and what it was not told of it must not be told to forget. This makes a test
/// that changes its mind (say one that looks at settings) safe too; what it thinks now shows with each object's next
/// event, a resync included.
///
/// A test that panics leaves everything as it is, and counts as a panic of the handler.
///
/// ```
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informer::{Entry, Event, Filtered, Informer, handler_fn};
/// # fn example(pods: &Informer<Pod>) {
/// let running = |pod: &Entry<Pod>| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
/// let handler = handler_fn(|event: &Event<Pod>| println!("{}", event.key()));
/// let registration = pods.add_handler(Filtered::new(running, handler));
/// # }
/// ```
pub struct Filtered<P, H> {
    passes: P,
    handler: H,
    /// The objects that the handler knows.
    shown: HashSet<ObjectKey>,
}

impl<P, H> Filtered<P, H> {
    /// Shows `handler` the objects for which `passes` says yes.
    pub fn new(passes: P, handler: H) -> Self {
        Self { passes, handler, shown: HashSet::new() }
    }
}

impl<T, P, H> EventHandler<T> for Filtered<P, H>
where
    P: FnMut(&Entry<T>) -> bool + Send + 'static,
    H: EventHandler<T>,
{
    fn on_add(&mut self, object: &Entry<T>, is_in_initial_list: bool) {
        if (self.passes)(object) {
            self.shown.insert(object.key().clone());
            self.handler.on_add(object, is_in_initial_list);
        }
    }

    fn on_update(&mut self, old: &Entry<T>, new: &Entry<T>) {
        let passes = (self.passes)(new);
        match (self.shown.contains(new.key()), passes) {
            (true, true) => self.handler.on_update(old, new),
            (false, true) => {
                self.shown.insert(new.key().clone());
                self.handler.on_add(new, false);
            }
            (true, false) => {
                self.shown.remove(old.key());
                self.handler.on_delete(old, false);
            }
            (false, false) => {}
        }
    }

    fn on_delete(&mut self, last_known: &Entry<T>, final_state_unknown: bool) {
        if self.shown.remove(last_known.key()) {
            self.handler.on_delete(last_known, final_state_unknown);
        }
    }
}
