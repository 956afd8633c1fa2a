//! `Predicate`: decides which events cause a reconcile.

use std::sync::Arc;

use kube_client::Resource;
use kube_informer::{Event, Object};

/// Decides whether an event of a `T` causes a reconcile. Combine predicates with
/// [`and`](Predicate::and), [`or`](Predicate::or) and [`not`](Predicate::not).
///
/// Some predicates compare the old and the new state of an update. They accept all additions and
/// deletions, because these events contain only one state.
///
/// # Deletions
/// A predicate also filters deletions. Write the predicate so that it accepts the deletion of each object
/// that it accepted before. Otherwise, the reconciler is not called for the deletion.
///
/// For a deletion, a predicate receives the *last* state of the object. A predicate on a label or a
/// phase can therefore reject the deletion of an object that it accepted in an earlier state. To
/// handle each deletion, use a [`Finalizer`](crate::Finalizer). The deletion then starts with an
/// update that sets `deletionTimestamp`, and the predicate must accept this update.
///
/// The controller calls the predicate for each change of the cache. A state that existed only
/// between two lists is never in the cache, so the predicate is not called for such a state.
pub struct Predicate<T>(Arc<Passes<T>>);

type Passes<T> = dyn Fn(&Event<T>) -> bool + Send + Sync;

impl<T> Clone for Predicate<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Object> Predicate<T> {
    /// Creates a predicate from a function that returns true for accepted events.
    pub fn new(passes: impl Fn(&Event<T>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// Accepts every event.
    pub fn always() -> Self {
        Self::new(|_| true)
    }

    /// Accepts updates for which the function returns true, and all additions and deletions. The
    /// arguments of the function are the old and the new state.
    pub fn updates(passes: impl Fn(&T, &T) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |event| match event {
            Event::Updated { old, new } => passes(old, new),
            Event::Added { .. } | Event::Deleted { .. } => true,
        })
    }

    /// Accepts updates that change the resourceVersion, and all additions and deletions. It rejects
    /// the events of a resync, which do not change the resourceVersion.
    pub fn resource_version_changed() -> Self {
        Self::new(|event| match event {
            Event::Updated { old, new } => old.id.version != new.id.version,
            Event::Added { .. } | Event::Deleted { .. } => true,
        })
    }

    /// Accepts events that both predicates accept.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) && other.passes(event))
    }

    /// Accepts events that at least one of the predicates accepts.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |event| self.passes(event) || other.passes(event))
    }

    /// Accepts the events that this predicate rejects, and rejects the events that it accepts. For
    /// example, the negation of [`generation_changed`](Predicate::generation_changed) rejects
    /// additions and deletions.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "a method like `and` and `or`, which are not operators either"
    )]
    pub fn not(self) -> Self {
        Self::new(move |event| !self.passes(event))
    }

    /// Returns whether the predicate accepts the event.
    pub fn passes(&self, event: &Event<T>) -> bool {
        (self.0)(event)
    }
}

impl<K: Resource + Object> Predicate<K> {
    /// Accepts updates that change the generation, and all additions and deletions.
    ///
    /// The server increments the generation when the spec changes and when the deletion starts. For
    /// custom resources without a status subresource, each change outside of `metadata` increments
    /// it. Some types, such as ConfigMaps and Secrets, have no generation. This predicate rejects
    /// all updates of such types.
    pub fn generation_changed() -> Self {
        Self::updates(|old, new| old.meta().generation != new.meta().generation)
    }

    /// Accepts updates that change a label, and all additions and deletions.
    pub fn labels_changed() -> Self {
        Self::updates(|old, new| old.meta().labels != new.meta().labels)
    }

    /// Accepts updates that change an annotation, and all additions and deletions.
    pub fn annotations_changed() -> Self {
        Self::updates(|old, new| old.meta().annotations != new.meta().annotations)
    }

    /// Accepts updates that change the finalizers, and all additions and deletions.
    pub fn finalizers_changed() -> Self {
        Self::updates(|old, new| old.meta().finalizers != new.meta().finalizers)
    }

    /// Accepts updates that set `deletionTimestamp`, and all additions and deletions.
    ///
    /// If a finalizer holds an object, its deletion starts with such an update. For types with a
    /// generation, [`generation_changed`](Self::generation_changed) also accepts this update.
    pub fn deletion_started() -> Self {
        Self::updates(|old, new| {
            old.meta().deletion_timestamp.is_none() && new.meta().deletion_timestamp.is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_informer::{Entry, Removal};
    use serde_json::{Value, json};

    use super::*;

    fn map(version: &str, metadata: Value) -> Entry<ConfigMap> {
        let mut map =
            ConfigMap { metadata: serde_json::from_value(metadata).unwrap(), ..ConfigMap::default() };
        map.metadata.name = Some("a".to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        Entry::from_object(map)
    }

    fn updated(from: Value, to: Value) -> Event<ConfigMap> {
        Event::Updated { old: map("1", from), new: map("2", to) }
    }

    fn other_events() -> [Event<ConfigMap>; 2] {
        let object = || map("1", json!({}));
        [
            Event::Added { object: object(), initial: false },
            Event::Deleted { last: object(), removal: Removal::Deleted },
        ]
    }

    #[test]
    fn update_predicates_compare_their_part_and_accept_other_events() {
        let generation = updated(json!({"generation": 1}), json!({"generation": 2}));
        let labels = updated(json!({"labels": {"a": "1"}}), json!({"labels": {"a": "2"}}));
        let annotations = updated(json!({}), json!({"annotations": {"a": "2"}}));
        let finalizers = updated(json!({"finalizers": ["a"]}), json!({"finalizers": ["a", "b"]}));
        let deletion = updated(json!({}), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let resync = {
            let same = map("1", json!({}));
            Event::Updated { old: same.clone(), new: same }
        };
        for (predicate, expected) in [
            (Predicate::always(), "generation labels annotations finalizers deletion resync"),
            (Predicate::resource_version_changed(), "generation labels annotations finalizers deletion"),
            (Predicate::generation_changed(), "generation"),
            (Predicate::labels_changed(), "labels"),
            (Predicate::annotations_changed(), "annotations"),
            (Predicate::finalizers_changed(), "finalizers"),
            (Predicate::deletion_started(), "deletion"),
        ] {
            let events = [
                ("generation", &generation),
                ("labels", &labels),
                ("annotations", &annotations),
                ("finalizers", &finalizers),
                ("deletion", &deletion),
                ("resync", &resync),
            ];
            let passed = events.iter().filter(|(_, event)| predicate.passes(event));
            assert_eq!(passed.map(|(name, _)| *name).collect::<Vec<_>>().join(" "), expected);
            assert_eq!(other_events().map(|event| predicate.passes(&event)), [true, true]);
        }
    }

    #[test]
    fn deletion_starts_once() {
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(!Predicate::deletion_started().passes(&updated(deleted.clone(), deleted)));
    }

    #[test]
    fn and_or_not_combine_predicates() {
        let event = updated(json!({}), json!({"labels": {"a": "1"}}));
        let (yes, no) = (Predicate::labels_changed, Predicate::annotations_changed);
        assert_eq!((yes().passes(&event), no().passes(&event)), (true, false));
        assert!(!yes().and(no()).passes(&event) && yes().and(yes()).passes(&event));
        assert!(yes().or(no()).passes(&event) && !no().or(no()).passes(&event));
        assert!(no().not().passes(&event) && !yes().not().passes(&event));
    }
}
