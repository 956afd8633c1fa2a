//! Tests stores with the objects of an earlier process.

use kube_object::{Delta, Event};

use crate::{
    Store,
    testing::{apply, begin, end, key, listed, page, pod, pod_on, put, remove},
};

fn restored() -> Store<k8s_openapi::api::core::v1::Pod> {
    let store = Store::new();
    assert!(store.restore(vec![pod("n/a", "u", "5"), pod_on("node-2", "n/b", "v", "6")]));
    store.check();
    store
}

#[test]
fn restored_objects_are_readable_and_not_synced() {
    let store = Store::new();
    let by_node = |pod: &k8s_openapi::api::core::v1::Pod| pod.spec.as_ref()?.node_name.clone();
    let before = store.add_index("before", by_node).unwrap();
    assert!(store.restore(vec![pod("n/a", "u", "5"), pod_on("node-2", "n/b", "v", "6")]));
    let after = store.add_index("after", by_node).unwrap();
    store.check();
    for index in [before, after] {
        assert_eq!(index.get("node-2").len(), 1);
    }
    assert!(store.get(&key("n/a")).is_some());
    assert!(!store.is_synced());
    assert_eq!(store.resource_version(), None);
}

#[test]
fn confirmed_objects_are_first_state() {
    let store = restored();
    store.confirm_restored("9".into());
    assert!(store.is_synced());
    assert_eq!(store.resource_version(), Some("9".into()));
    assert_eq!(store.watermark().epoch, 0);
    let events = apply(&store, vec![put("n/a", "u", "10"), remove("n/b", "v", "11"), put("n/c", "w", "12")]);
    assert_eq!(events, ["* n/a@5 -> 10", "- n/b@6", "+ n/c@12"]);
}

#[test]
fn list_replaces_restored_objects() {
    let store = restored();
    let events = apply(&store, vec![begin(), page(&[("n/a", "u", "5"), ("n/c", "w", "7")]), end("9")]);
    assert_eq!(events, ["-? n/b@6", "++ n/c@7"], "the first object is unchanged");
    assert_eq!(store.resource_version(), Some("9".into()));
}

#[test]
fn cleared_objects_are_gone() {
    let store = restored();
    let events = store.apply(vec![Delta::Clear]);
    assert!(events.iter().all(|event| matches!(event, Event::Deleted { .. })));
    assert!(store.snapshot().is_empty() && !store.is_synced());
}

#[test]
fn written_store_is_not_restored() {
    let objects = || vec![pod("n/x", "u", "5")];
    assert!(!restored().restore(objects()));
    assert!(!listed("9", &[]).restore(objects()));
    let collecting = Store::new();
    collecting.apply(vec![begin()]);
    assert!(!collecting.restore(objects()));
    let closed = Store::new();
    closed.close();
    assert!(!closed.restore(objects()));
}
