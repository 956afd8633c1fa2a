//! The objects of the measurements without a server: ConfigMaps, and Secrets with ConfigMaps as owners.
//! The program in Go creates the same objects.

use std::sync::Arc;

use fastrand::Rng;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_informer::{Entry, Object, ObjectKey};

/// The number of ConfigMaps per namespace.
const OBJECTS_PER_NAMESPACE: usize = 100;
/// The number of ConfigMaps with the same value of the label [`GROUP`].
pub(super) const OBJECTS_PER_GROUP: usize = 10;
/// One in this number of ConfigMaps owns a Secret.
pub(super) const OWNED_INTERVAL: usize = 10;
/// The label that the indexes and queries use.
pub(super) const GROUP: &str = "group";
/// The resourceVersion of the first change. Each event has a greater version than the earlier events.
const FIRST_CHANGE: usize = 2;
/// The label of Secrets whose changes pass the predicate of the controller.
const REVISION: &str = "revision";

/// Returns the namespace of a ConfigMap.
pub(super) fn namespace(number: usize) -> String {
    format!("team-{:05}", number / OBJECTS_PER_NAMESPACE)
}

/// Returns the name of a ConfigMap.
pub(super) fn name(number: usize) -> String {
    format!("web-7d4b9c6f5-{number:07}")
}

/// Returns the value of the label [`GROUP`] of a ConfigMap.
pub(super) fn group(number: usize) -> String {
    format!("group-{:06}", number / OBJECTS_PER_GROUP)
}

pub(super) fn config_map(number: usize) -> ConfigMap {
    ConfigMap { metadata: metadata(number, "8f14e45f", 1), ..ConfigMap::default() }
}

/// Returns the Secret that the ConfigMap `number` owns. Only changes of the label pass the
/// predicate of the controller.
pub(super) fn secret(number: usize, version: usize, revision: usize) -> Secret {
    let mut metadata = metadata(number, "c9f0f895", version);
    metadata.labels.get_or_insert_default().insert(REVISION.to_owned(), revision.to_string());
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: name(number),
        uid: uid(number, "8f14e45f"),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    Secret { metadata, ..Secret::default() }
}

/// Returns the numbers of the ConfigMaps that own a Secret.
pub(super) fn owners(objects: usize) -> impl Iterator<Item = usize> {
    (0..objects).step_by(OWNED_INTERVAL)
}

/// Returns changed Secrets without a change of the label, and one Secret with a change. The reconcile
/// of this last Secret proves that all earlier events were processed.
pub(super) fn rejected(objects: usize) -> impl Iterator<Item = Secret> {
    let changed = owners(objects).zip(FIRST_CHANGE..).map(|(number, version)| secret(number, version, 1));
    changed.chain([secret(0, FIRST_CHANGE + objects, 2)])
}

/// Returns changed Secrets with a change of the label. Follows `rejected`.
pub(super) fn accepted(objects: usize) -> impl Iterator<Item = Secret> {
    let versions = FIRST_CHANGE + objects + 1..;
    owners(objects).zip(versions).map(|(number, version)| secret(number, version, 3))
}

fn metadata(number: usize, kind: &str, version: usize) -> ObjectMeta {
    ObjectMeta {
        name: Some(name(number)),
        namespace: Some(namespace(number)),
        uid: Some(uid(number, kind)),
        resource_version: Some(version.to_string()),
        labels: Some([(GROUP.to_owned(), group(number))].into()),
        ..ObjectMeta::default()
    }
}

fn uid(number: usize, kind: &str) -> String {
    format!("{kind}-ceea-467f-a0e6-{number:012}")
}

/// Returns the numbers of all objects in an order that depends only on their number.
pub(super) fn shuffled(objects: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..objects).collect();
    Rng::with_seed(7).shuffle(&mut order);
    order
}

/// Returns the index value of a ConfigMap.
pub(super) fn group_of(map: &ConfigMap) -> Option<String> {
    map.metadata.labels.as_ref()?.get(GROUP).cloned()
}

/// Returns an object with its identity.
pub(super) fn entry<T: Object>(object: T) -> Entry<T> {
    Entry::new(object.id().into(), Arc::new(object))
}

/// Returns the key of a ConfigMap.
pub(super) fn key(number: usize) -> ObjectKey {
    ObjectKey::new(Some(&namespace(number)), &name(number))
}
