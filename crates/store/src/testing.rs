//! Short constructors of Pods, deltas and events for unit tests.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube_object::{Delta, Entry, Event, Listed, Object, ObjectId, ObjectKey, Removal};

use crate::Store;

pub(crate) fn id(key: &str, uid: &str, version: &str) -> ObjectId {
    ObjectId { key: key.parse().unwrap(), uid: uid.into(), version: version.into() }
}

pub(crate) fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

pub(crate) fn pod_on(node: &str, key: &str, uid: &str, version: &str) -> Entry<Pod> {
    let key: ObjectKey = key.parse().unwrap();
    let mut pod = Pod::default();
    pod.metadata.namespace = key.namespace().map(str::to_owned);
    pod.metadata.name = Some(key.name().to_owned());
    pod.metadata.uid = Some(uid.to_owned());
    pod.metadata.resource_version = Some(version.to_owned());
    pod.metadata.labels = Some([("app".to_owned(), key.name().to_owned())].into());
    pod.spec = Some(PodSpec { node_name: Some(node.to_owned()), ..PodSpec::default() });
    Entry::from_object(pod)
}

pub(crate) fn pod(key: &str, uid: &str, version: &str) -> Entry<Pod> {
    pod_on("node-1", key, uid, version)
}

pub(crate) fn put(key: &str, uid: &str, version: &str) -> Delta<Pod> {
    Delta::Put(pod(key, uid, version))
}

pub(crate) fn remove(key: &str, uid: &str, version: &str) -> Delta<Pod> {
    Delta::Remove { id: id(key, uid, version), last: None }
}

pub(crate) fn undecodable(key: &str, uid: &str, version: &str) -> Delta<Pod> {
    Delta::Undecodable(id(key, uid, version))
}

pub(crate) fn begin() -> Delta<Pod> {
    Delta::Begin { without_reuse: false }
}

pub(crate) fn page(items: &[(&str, &str, &str)]) -> Delta<Pod> {
    Delta::Page(items.iter().map(|(key, uid, version)| Listed::Object(pod(key, uid, version))).collect())
}

pub(crate) fn end(version: &str) -> Delta<Pod> {
    Delta::End { version: version.into(), complete: true }
}

/// Creates a store with these objects from an initial list at this version.
pub(crate) fn listed(version: &str, items: &[(&str, &str, &str)]) -> Store<Pod> {
    let store = Store::new();
    store.apply(vec![begin(), page(items), end(version)]);
    store
}

/// Applies a batch, checks the store, and formats each event: `+` for an addition (`++` if
/// initial), `*` for an update between two versions, `-` for a deletion (`-?` if its final state is
/// unknown).
pub(crate) fn apply<T: Object>(store: &Store<T>, batch: Vec<Delta<T>>) -> Vec<String> {
    let events = store.apply(batch);
    store.check();
    events.iter().map(text).collect()
}

fn text<T>(event: &Event<T>) -> String {
    let at = |entry: &Entry<T>| format!("{}@{}", entry.key(), entry.id.version);
    match event {
        Event::Added { object, initial: false } => format!("+ {}", at(object)),
        Event::Added { object, initial: true } => format!("++ {}", at(object)),
        Event::Updated { old, new } => format!("* {} -> {}", at(old), new.id.version),
        Event::Deleted { last, removal: Removal::Deleted } => format!("- {}", at(last)),
        Event::Deleted { last, removal: Removal::FinalStateUnknown } => format!("-? {}", at(last)),
        Event::Deleted { last, removal: Removal::Left } => format!("-< {}", at(last)),
    }
}
