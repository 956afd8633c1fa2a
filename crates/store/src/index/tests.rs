//! Tests the contents of indexes, and the effects of faulty index functions.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::api::core::v1::Pod;
use kube_object::Delta;

use super::*;
use crate::testing::*;

fn node(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

/// Property 6, for the store.
#[test]
fn each_write_updates_index() {
    let store = Store::new();
    let by_node = store.add_index("node", node).unwrap();
    apply(&store, vec![Delta::Put(pod_on("n1", "a/x", "u", "1")), Delta::Put(pod_on("n1", "a/y", "u", "2"))]);
    assert_eq!(by_node.keys("n1"), [key("a/x"), key("a/y")]);
    apply(&store, vec![Delta::Put(pod_on("n2", "a/x", "u", "3"))]);
    assert_eq!((by_node.keys("n1"), by_node.keys("n2")), (vec![key("a/y")], vec![key("a/x")]));
    apply(&store, vec![remove("a/y", "u", "4")]);
    assert_eq!((by_node.values(), by_node.len("n1"), by_node.len("n2")), (vec!["n2".to_owned()], 0, 1));
    assert!(by_node.get("n1").is_empty() && by_node.get("never").is_empty());
}

#[test]
fn late_index_contains_cached_objects() {
    let store = listed("5", &[("a/x", "u", "3"), ("b/y", "u", "4")]);
    let before = store.snapshot();
    let by_node = store.add_index("node", node).unwrap();
    store.check();
    assert_eq!(by_node.get("node-1").len(), 2);
    assert!(by_node.at(&before).is_none(), "an older snapshot does not contain a later index");
}

#[test]
fn duplicate_index_values_count_once() {
    let store = Store::new();
    let letters =
        store.add_index("letters", |pod: &Pod| pod.metadata.name.clone().unwrap_or_default().into_bytes());
    let letters = letters.unwrap();
    apply(&store, vec![put("a/aab", "u", "1"), put("a/b", "u", "2")]);
    assert_eq!((letters.keys(&b'a'), letters.len(&b'b')), (vec![key("a/aab")], 2));
    assert_eq!(letters.values(), [b'a', b'b']);
}

#[test]
fn index_name_is_unique_and_typed() {
    let store = listed("5", &[("a/x", "u", "3")]);
    let by_node = store.add_index("node", node).unwrap();
    assert_eq!(store.add_index("node", node).unwrap_err(), IndexError::AlreadyExists("node".into()));
    assert_eq!(store.index::<String>("node").unwrap().get("node-1"), by_node.get("node-1"));
    assert!(store.index::<u32>("node").is_none() && store.index::<String>("zone").is_none());
    assert_eq!(store.lister().index::<String>("node").unwrap().name(), "node");
}

#[test]
fn index_of_another_store_rejects_snapshot() {
    let (one, other) = (listed("5", &[("a/x", "u", "3")]), listed("5", &[("a/x", "u", "3")]));
    let by_node = one.add_index("node", node).unwrap();
    other.add_index("zone", node).unwrap();
    assert!(by_node.at(&other.snapshot()).is_none());
}

#[test]
fn panicking_function_is_counted_and_yields_no_values() {
    let store = listed("5", &[("a/bad", "u", "3"), ("a/x", "u", "4")]);
    let by_node = store.add_index("node", |pod: &Pod| {
        assert_ne!(pod.metadata.name.as_deref(), Some("bad"));
        node(pod)
    });
    let by_node = by_node.unwrap();
    assert_eq!(by_node.keys("node-1"), [key("a/x")]);
    assert_eq!(
        apply(&store, vec![put("a/bad", "u", "6"), put("a/y", "u", "7")]),
        ["* a/bad@3 -> 6", "+ a/y@7"]
    );
    assert_eq!((by_node.len("node-1"), store.len(), store.stats().index_panics), (2, 3, 2));
}

#[test]
fn outdated_values_of_inconsistent_function_are_removed() {
    let store = Store::new();
    let calls = AtomicUsize::new(0);
    let by_call =
        store.add_index("call", move |_: &Pod| Some(calls.fetch_add(1, Ordering::Relaxed))).unwrap();
    for version in 1..5 {
        apply(&store, vec![put("a/x", "u", &version.to_string())]);
        assert_eq!(by_call.values().len(), 1);
    }
    apply(&store, vec![remove("a/x", "u", "9")]);
    assert!(by_call.values().is_empty());
}

#[test]
fn index_function_may_read_store() {
    let store = Store::new();
    let itself: Arc<OnceLock<Store<Pod>>> = Arc::default();
    let shared = Arc::clone(&itself);
    let count = store.add_index("count", move |_: &Pod| shared.get().map(|store| store.len())).unwrap();
    itself.set(store.clone()).unwrap();
    apply(&store, vec![put("a/x", "u", "1")]);
    apply(&store, vec![begin(), page(&[("a/x", "u", "1"), ("a/y", "u", "2")]), end("2")]);
    assert_eq!((count.len(&0), count.len(&1)), (1, 1));
}
