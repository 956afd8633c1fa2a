//! `FilteringEventHandler`: a handler that receives only some objects.

use std::collections::HashSet;

use kube_object::{Entry, ObjectKey, Removal};

use super::EventHandler;

/// Passes only the objects that match a predicate to an inner handler. Equivalent to client-go's
/// `FilteringResourceEventHandler`.
///
/// If an object starts to match in an update, the inner handler receives an `on_add` with
/// `is_in_initial_list` false. If an object no longer matches after an update, the inner handler
/// receives an `on_delete` with the last matching state. Objects that never match are ignored.
///
/// The filter stores the keys of the objects that the inner handler has received, and applies the
/// predicate only to the new state of each event. The predicate can therefore depend on other data,
/// for example on settings. If the settings change, the filter applies them to an object with the
/// next event of this object, for example with a resync.
///
/// If the predicate panics, the inner handler does not receive the event. The panic counts as a
/// panic of the handler.
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
                self.handler.on_delete(old, Removal::Left);
            }
            (false, false) => {}
        }
    }

    fn on_delete(&mut self, last_known: &Entry<T>, removal: Removal) {
        if self.passed.remove(last_known.key()) {
            self.handler.on_delete(last_known, removal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use k8s_openapi::api::core::v1::ConfigMap;
    use proptest::prelude::*;

    use super::*;

    /// The objects that the inner handler has received and not deleted, with their versions. Each call
    /// must fit the earlier calls.
    #[derive(Clone, Default)]
    struct Received(Arc<Mutex<BTreeMap<ObjectKey, String>>>);

    impl EventHandler<ConfigMap> for Received {
        fn on_add(&mut self, object: &Entry<ConfigMap>, _: bool) {
            let before = self.0.lock().unwrap().insert(object.key().clone(), object.id.version.to_string());
            assert_eq!(before, None, "an add of a received object");
        }

        fn on_update(&mut self, old: &Entry<ConfigMap>, new: &Entry<ConfigMap>) {
            let before = self.0.lock().unwrap().insert(new.key().clone(), new.id.version.to_string());
            assert_eq!(before, Some(old.id.version.to_string()), "an update of another state");
        }

        fn on_delete(&mut self, last_known: &Entry<ConfigMap>, _: Removal) {
            let before = self.0.lock().unwrap().remove(last_known.key());
            assert!(before.is_some(), "a delete of an object that was not received");
        }
    }

    /// Returns an object of this version. Its label decides whether it matches.
    fn object(key: u8, version: u64, matches: bool) -> Entry<ConfigMap> {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(format!("object-{key}"));
        object.metadata.resource_version = Some(version.to_string());
        object.metadata.labels = matches.then(|| [("on".to_owned(), String::new())].into());
        Entry::from_object(object)
    }

    proptest! {
        /// Invariant of the filter: it stores exactly the keys of the objects that the handler has received
        /// and that were not deleted.
        #[test]
        fn filter_stores_received_objects(
            steps in prop::collection::vec((0u8..3, prop::bool::weighted(0.7), any::<bool>()), 0..60),
        ) {
            let received = Received::default();
            let matches = |entry: &Entry<ConfigMap>| entry.metadata.labels.is_some();
            let mut filter = FilteringEventHandler::new(matches, received.clone());
            let mut server: BTreeMap<u8, Entry<ConfigMap>> = BTreeMap::new();
            for (version, (key, exists, matches)) in (1..).zip(steps) {
                let before = server.remove(&key);
                let after = exists.then(|| object(key, version, matches));
                match (&before, &after) {
                    (None, Some(new)) => filter.on_add(new, false),
                    (Some(old), Some(new)) => filter.on_update(old, new),
                    (Some(last), None) => filter.on_delete(last, Removal::Deleted),
                    (None, None) => {}
                }
                server.extend(after.map(|after| (key, after)));
                let matching = server.values().filter(|entry| entry.metadata.labels.is_some());
                let expected: HashSet<ObjectKey> = matching.map(|entry| entry.key().clone()).collect();
                let known: HashSet<ObjectKey> = received.0.lock().unwrap().keys().cloned().collect();
                prop_assert_eq!(&filter.passed, &expected);
                prop_assert_eq!(known, expected);
            }
        }
    }
}
