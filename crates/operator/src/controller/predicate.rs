//! `Predicate`: which events of an object are worth a run.

use std::sync::Arc;

use kube_client::Resource;
use kube_informer::{Event, Object};

/// Whether an event of a `T` is worth a run. Combined by [`and`](Predicate::and), [`or`](Predicate::or) and
/// [`not`](Predicate::not).
///
/// Those that compare two states let additions and deletions pass, which have one only.
///
/// # Deletes
/// What a predicate says of a deletion decides whether the deletion is seen at all: where an object was passed over while it
/// lived and its deletion is passed over too, nothing was lost; where it was worked on, its deletion has to be. A predicate
/// that looks at the state (a label, a phase) is asked about the *last* state of a deleted object, which may be another one
/// than that which was worked on. A finalizer is the safe way: then a deletion comes as an update first. Each state that the
/// cache has had is asked about, also one that was there for a moment; one that came and went between two lists it has not had.
pub struct Predicate<T>(Arc<Passes<T>>);

type Passes<T> = dyn Fn(&Event<T>) -> bool + Send + Sync;

impl<T> Clone for Predicate<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Object> Predicate<T> {
    /// Events for which this says so.
    pub fn new(passes: impl Fn(&Event<T>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// Every event.
    pub fn always() -> Self {
        Self::new(|_| true)
    }

    /// Updates for whose two states this says so, and all that are no updates.
    pub fn updates(passes: impl Fn(&T, &T) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| match event {
            Event::Updated { old, new } => passes(old, new),
            Event::Added { .. } | Event::Deleted { .. } => true,
        })
    }

    /// Updates to another resourceVersion: a resync shows the same one again.
    pub fn resource_version_changed() -> Self {
        Self::new(|event| match event {
            Event::Updated { old, new } => old.id.version != new.id.version,
            Event::Added { .. } | Event::Deleted { .. } => true,
        })
    }

    /// Events that both let pass.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) && other.passes(event))
    }

    /// Events that one of both lets pass.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) || other.passes(event))
    }

    /// Events that this does not let pass: of those that compare two states, no addition and no deletion.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "a method beside `and` and `or`, which no operators are"
    )]
    pub fn not(self) -> Self {
        Self::new(move |event| !self.passes(event))
    }

    /// Whether this event is worth a run.
    pub fn passes(&self, event: &Event<T>) -> bool {
        (self.0)(event)
    }
}

impl<K: Resource + Object> Predicate<K> {
    /// Updates that change the generation: the server counts it up where the spec changes, and where an object is being
    /// deleted. Types without a status subresource count up for every change, and some types (ConfigMaps, Secrets) not at
    /// all: no update of those passes.
    pub fn generation_changed() -> Self {
        Self::updates(|old, new| old.meta().generation != new.meta().generation)
    }

    /// Updates that change a label.
    pub fn labels_changed() -> Self {
        Self::updates(|old, new| old.meta().labels != new.meta().labels)
    }

    /// Updates that change an annotation.
    pub fn annotations_changed() -> Self {
        Self::updates(|old, new| old.meta().annotations != new.meta().annotations)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_informer::Entry;
    use serde_json::{Value, json};

    use super::*;

    fn map(version: &str, metadata: Value) -> Entry<ConfigMap> {
        let mut map =
            ConfigMap { metadata: serde_json::from_value(metadata).unwrap(), ..ConfigMap::default() };
        map.metadata.name = Some("a".to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        Entry::of(map)
    }

    fn updated(from: Value, to: Value) -> Event<ConfigMap> {
        Event::Updated { old: map("1", from), new: map("2", to) }
    }

    fn others() -> [Event<ConfigMap>; 2] {
        let object = || map("1", json!({}));
        [
            Event::Added { object: object(), initial: false },
            Event::Deleted { last: object(), final_state_unknown: false },
        ]
    }

    #[test]
    fn each_looks_at_its_part_of_an_update_and_lets_the_rest_pass() {
        let generation = updated(json!({"generation": 1}), json!({"generation": 2}));
        let labels = updated(json!({"labels": {"a": "1"}}), json!({"labels": {"a": "2"}}));
        let annotations = updated(json!({}), json!({"annotations": {"a": "2"}}));
        let resync = {
            let same = map("1", json!({}));
            Event::Updated { old: same.clone(), new: same }
        };
        for (predicate, expected) in [
            (Predicate::always(), [true, true, true, true]),
            (Predicate::resource_version_changed(), [true, true, true, false]),
            (Predicate::generation_changed(), [true, false, false, false]),
            (Predicate::labels_changed(), [false, true, false, false]),
            (Predicate::annotations_changed(), [false, false, true, false]),
        ] {
            let passes = [&generation, &labels, &annotations, &resync].map(|event| predicate.passes(event));
            assert_eq!(passes, expected);
            assert_eq!(others().map(|event| predicate.passes(&event)), [true, true]);
        }
    }

    #[test]
    fn they_are_combined_as_they_are_named() {
        let event = updated(json!({}), json!({"labels": {"a": "1"}}));
        let (yes, no) = (Predicate::labels_changed, Predicate::annotations_changed);
        assert_eq!((yes().passes(&event), no().passes(&event)), (true, false));
        assert!(!yes().and(no()).passes(&event) && yes().and(yes()).passes(&event));
        assert!(yes().or(no()).passes(&event) && !no().or(no()).passes(&event));
        assert!(no().not().passes(&event) && !yes().not().passes(&event));
    }
}
