//! Lookups by key, snapshots and indexes are parts of one state.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use k8s_openapi::api::core::v1::Pod;
use kube_object::ObjectKey;

use super::*;
use crate::testing::*;

fn version_of(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_deref().unwrap_or_default().parse().unwrap()
}

#[test]
fn lookup_sees_each_kind_of_write() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    let versions = |store: &Store<Pod>| {
        store.check();
        ["a/x", "a/y", "a/z"].map(|name| store.get(&key(name)).map_or(0, |pod| version_of(&pod)))
    };
    assert_eq!(versions(&store), [3, 4, 0]);
    store.apply(vec![put("a/x", "u", "6"), remove("a/y", "u", "7"), put("a/z", "u", "8")]);
    assert_eq!(versions(&store), [6, 0, 8], "written in place");
    let snapshot = store.snapshot();
    store.apply(vec![put("a/x", "other", "9"), put("a/y", "u", "10")]);
    assert_eq!(versions(&store), [9, 10, 8], "written to a copy");
    store.apply(vec![begin(), page(&[("a/y", "u", "11")]), end("12")]);
    assert_eq!(versions(&store), [0, 11, 0], "a relist");
    let fork = store.fork();
    fork.apply(vec![put("a/y", "u", "13")]);
    assert_eq!((versions(&store), versions(&fork)), ([0, 11, 0], [0, 13, 0]));
    let mut write = store.begin_large_write(&[Delta::Clear], 0).unwrap();
    write.prepare();
    assert_eq!(versions(&store), [0, 11, 0], "not published yet");
    assert!(write.publish());
    assert_eq!(versions(&store), [0, 0, 0]);
    store.add_index("node", |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone())).unwrap();
    store.apply(vec![put("a/z", "u", "14")]);
    assert_eq!(versions(&store), [0, 0, 14]);
    assert_eq!(snapshot.get(&key("a/x")).map(|pod| version_of(pod)), Some(6));
}

#[test]
fn states_of_object_share_text_of_key() {
    let store = listed("5", &[("a/x", "u", "3")]);
    let before = store.snapshot();
    store.apply(vec![put("a/x", "u", "6")]);
    let text = |snapshot: &crate::Snapshot<Pod>| snapshot.get(&key("a/x")).unwrap().key().as_str().as_ptr();
    assert_eq!(text(&before), text(&store.snapshot()));
}

/// A source can send another object as the last state of a deleted object.
#[test]
fn deletion_with_another_object_deletes_the_identified_object() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    let events =
        store.apply(vec![Delta::Remove { id: id("a/x", "u", "6"), last: Some(pod("a/y", "u", "6")) }]);
    assert_eq!(events.iter().map(Event::key).collect::<Vec<_>>(), [&key("a/x")]);
    store.check();
}

/// Large enough that a write of all objects is not written in place.
const OBJECTS: u64 = 2 * MAX_IN_PLACE_DELTAS as u64 + 10;

fn object_key(number: u64) -> ObjectKey {
    key(&format!("a/{number}"))
}

fn write_of(numbers: impl Iterator<Item = u64>, version: u64) -> Vec<Delta<Pod>> {
    numbers.map(|number| put(object_key(number).as_str(), "u", &version.to_string())).collect()
}

/// Each write changes the first and the last object, so their versions are always equal. Versions only grow,
/// so a later read never sees a lower version.
#[test]
fn lookups_snapshots_and_indexes_change_together() {
    const ROUNDS: u64 = 300;
    let store = Store::<Pod>::new();
    let by_version = store.add_index("version", |pod: &Pod| pod.metadata.resource_version.clone()).unwrap();
    store.apply(write_of(0..OBJECTS, 1));
    let over = AtomicBool::new(false);
    let (first, last) = (object_key(0), object_key(OBJECTS - 1));
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                let get = |key: &ObjectKey| version_of(&store.get(key).unwrap());
                while !over.load(Relaxed) {
                    let before = get(&first);
                    let snapshot = store.snapshot();
                    let [one, other] = [&first, &last].map(|key| version_of(snapshot.get(key).unwrap()));
                    let indexed = by_version.at(&snapshot).unwrap().len(&one.to_string());
                    let after = get(&last);
                    let between = get(&first);
                    assert_eq!(one, other);
                    assert!(indexed >= 2, "the index has {indexed} objects with version {one}");
                    assert!(before <= one && one <= after && after <= between);
                }
            });
        }
        for round in 0..ROUNDS {
            let version = round + 2;
            let both = [0, OBJECTS - 1].into_iter();
            let events = match round % 3 {
                0 => store.apply(write_of(both, version)),
                1 => store.apply(write_of(0..OBJECTS, version)),
                _ => {
                    let _held = store.snapshot();
                    store.apply(write_of(both, version))
                }
            };
            assert!(events.len() >= 2);
        }
        over.store(true, Relaxed);
    });
    store.check();
}
