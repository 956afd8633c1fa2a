//! Tests the rules for single deltas, and the visibility of batches.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube_object::{NoCache, ObjectIdRef};

use super::*;
use crate::{LabelSelector, testing::*};

#[test]
fn first_put_adds_and_later_version_updates() {
    let store = Store::new();
    assert_eq!(apply(&store, vec![put("a/x", "u", "3")]), ["+ a/x@3"]);
    assert_eq!(apply(&store, vec![put("a/x", "u", "4")]), ["* a/x@3 -> 4"]);
}

/// Property 1, for the store.
#[test]
fn lower_or_equal_version_has_no_effect() {
    let store = Store::new();
    apply(&store, vec![put("a/x", "u", "10")]);
    let before = store.get(&key("a/x")).unwrap();
    assert_eq!(apply(&store, vec![put("a/x", "u", "9"), put("a/x", "u", "10")]), [""; 0]);
    assert!(Arc::ptr_eq(&before, &store.get(&key("a/x")).unwrap()));
    assert_eq!(store.stats().repeats, 2);
}

#[test]
fn opaque_version_always_counts_as_changed() {
    let store = Store::new();
    let batch = || vec![put("a/x", "u", "")];
    assert_eq!(apply(&store, batch()), ["+ a/x@"]);
    assert_eq!(apply(&store, batch()), ["* a/x@ -> "]);
    assert_eq!(store.resource_version(), None);
}

/// Property 3.
#[test]
fn put_with_another_uid_deletes_and_adds() {
    let store = Store::new();
    apply(&store, vec![put("a/x", "old", "3")]);
    assert_eq!(apply(&store, vec![put("a/x", "new", "5")]), ["-? a/x@3", "+ a/x@5"]);
}

/// Property 3.
#[test]
fn events_of_previous_uid_have_no_effect() {
    let store = Store::new();
    apply(&store, vec![put("a/x", "new", "5")]);
    let late = vec![put("a/x", "old", "3"), remove("a/x", "old", "4"), undecodable("a/x", "old", "3")];
    assert_eq!(apply(&store, late), [""; 0]);
    assert_eq!(store.stats().repeats, 3);
}

#[test]
fn empty_uid_does_not_replace_object() {
    let store = Store::new();
    apply(&store, vec![put("a/x", "u", "3")]);
    assert_eq!(apply(&store, vec![put("a/x", "", "4")]), ["* a/x@3 -> 4"]);
    assert_eq!(apply(&store, vec![put("a/x", "u", "5")]), ["* a/x@4 -> 5"]);
    assert_eq!(apply(&store, vec![remove("a/x", "", "6")]), ["- a/x@5"]);
}

/// Property 18.
#[test]
fn deletion_contains_sent_or_cached_state() {
    let store = Store::new();
    apply(&store, vec![put("a/x", "u", "3"), put("a/y", "u", "4")]);
    let sent = Delta::Remove { id: id("a/x", "u", "9"), last: Some(pod("a/x", "u", "9")) };
    assert_eq!(apply(&store, vec![sent, remove("a/y", "u", "10")]), ["- a/x@9", "- a/y@4"]);
    assert!(store.is_empty());
}

/// Property 16.
#[test]
fn deletion_of_unknown_object_emits_no_event() {
    let store = Store::new();
    assert_eq!(apply(&store, vec![remove("a/x", "u", "3")]), [""; 0]);
    assert_eq!((store.stats().repeats, store.resource_version()), (1, Some("3".into())));
}

#[test]
fn undecodable_update_keeps_object_as_stale() {
    let store = Store::new();
    apply(&store, vec![put("a/x", "u", "3")]);
    assert_eq!(apply(&store, vec![undecodable("a/x", "u", "4"), undecodable("a/new", "u", "5")]), [""; 0]);
    assert!(store.snapshot().is_stale(&key("a/x")));
    assert_eq!((store.stats().stale, store.len()), (1, 1));
    assert_eq!(apply(&store, vec![put("a/x", "u", "3")]), [""; 0]);
    assert_eq!(store.stats().stale, 1, "a repeat of the last decoded version cleared the stale mark");
    assert_eq!(apply(&store, vec![put("a/x", "u", "6")]), ["* a/x@3 -> 6"]);
    assert_eq!(store.stats().stale, 0);
}

/// Property 3.
#[test]
fn undecodable_object_with_another_uid_deletes() {
    let store = Store::new();
    apply(&store, vec![put("a/x", "old", "3"), undecodable("a/x", "old", "4")]);
    assert_eq!(apply(&store, vec![undecodable("a/x", "new", "6")]), ["-? a/x@3"]);
    assert_eq!(store.stats(), StoreStats::default());
}

/// Properties 13 and 14.
#[test]
fn watermark_never_decreases() {
    let store = Store::new();
    assert_eq!(store.resource_version(), None);
    apply(&store, vec![put("a/x", "u", "3"), Delta::Bookmark("7".into()), put("a/y", "u", "5")]);
    assert_eq!(store.resource_version(), Some("7".into()));
    apply(&store, vec![undecodable("a/x", "u", "8"), remove("a/z", "u", "9")]);
    assert_eq!(store.watermark(), Watermark { version: Some("9".into()), epoch: 0, synced: false });
}

/// Properties 4 and 6.
/// A watch after a list without a version sends the current state in no order, and the server can count
/// versions per object.
#[test]
fn after_list_without_version_events_have_no_order() {
    for none in ["", "0", "etag-7"] {
        let store = listed(none, &[("a/x", "u", "7"), ("a/y", "u", "2")]);
        assert_eq!(apply(&store, vec![put("a/z", "u", "100")]), ["+ a/z@100"]);
        assert!(!store.snapshot().has_reached(&"90".into()), "y@90 can follow");
        assert_eq!(apply(&store, vec![put("a/x", "u", "7")]), [""; 0], "the same state is a repeat");
        assert_eq!(apply(&store, vec![put("a/x", "u", "6")]), ["* a/x@7 -> 6"]);
        assert_eq!(apply(&store, vec![put("a/y", "v", "1")]), ["-? a/y@2", "+ a/y@1"]);
        assert_eq!(apply(&store, vec![undecodable("a/y", "v", "1")]), [""; 0]);
        assert_eq!(apply(&store, vec![undecodable("a/z", "w", "1")]), ["-? a/z@100"]);
        assert_eq!(apply(&store, vec![remove("a/y", "v", "1"), Delta::Bookmark("9".into())]), ["- a/y@1"]);
        assert_eq!(store.resource_version(), Some(none.into()));
        apply(&store, vec![begin(), page(&[("a/x", "u", "6")]), end("9")]);
        assert_eq!(apply(&store, vec![put("a/x", "u", "5")]), [""; 0], "versions have an order again");
        assert!(store.snapshot().has_reached(&"9".into()));
    }
}

/// The undecodable state can be older than the cached state.
#[test]
fn equal_state_refreshes_stale_object_if_versions_have_no_order() {
    let store = listed("", &[("a/x", "u", "7")]);
    apply(&store, vec![undecodable("a/x", "u", "3")]);
    assert!(store.snapshot().is_stale(&key("a/x")));
    assert_eq!(apply(&store, vec![put("a/x", "u", "7")]), ["* a/x@7 -> 7"]);
    assert!(!store.snapshot().is_stale(&key("a/x")));
}

#[test]
fn snapshot_contains_complete_batches() {
    let store = Store::new();
    let by_node = store.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone()).unwrap();
    apply(&store, vec![put("a/x", "u", "3"), put("b/y", "u", "4")]);
    let before = store.snapshot();
    apply(&store, vec![put("a/x", "u", "5"), remove("b/y", "u", "6"), put("c/z", "u", "7")]);
    let at = by_node.at(&before).unwrap();
    let old: Vec<String> = at.iter("node-1").map(|entry| entry.id.to_string()).collect();
    assert_eq!(old, ["a/x at resourceVersion 3", "b/y at resourceVersion 4"]);
    assert_eq!((before.resource_version(), before.namespace_len("c")), (Some(&"4".into()), 0));
    assert_eq!(by_node.keys("node-1"), [key("a/x"), key("c/z")]);
    assert_eq!(store.snapshot().resource_version(), Some(&"7".into()));
}

/// Properties 4 and 6, with one writer and three readers. Each batch first deletes half of the
/// previous objects, so that slots are freed and reused.
#[test]
fn concurrent_readers_see_complete_batches() {
    const LAST: u64 = 400;
    let store = Store::new();
    let by_node = store.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone()).unwrap();
    let batch = |version: u64| {
        let (node, version) = (format!("node-{}", version % 3), version.to_string());
        let puts = (0..20).map(|n| Delta::Put(pod_on(&node, &format!("a/{n}"), "u", &version)));
        let deletions = (0..20).filter(|n| n % 2 == 0).map(|n| remove(&format!("a/{n}"), "u", &version));
        deletions.chain(puts).collect::<Vec<_>>()
    };
    let read = || {
        let snapshot = store.snapshot();
        let Some(version) = snapshot.resource_version() else { return 0 };
        assert!(snapshot.iter().all(|entry| entry.id.version == *version));
        let number: u64 = version.to_string().parse().unwrap();
        let found = by_node.at(&snapshot).unwrap().len(&format!("node-{}", number % 3));
        assert_eq!((snapshot.len(), snapshot.namespace_len("a"), found), (20, 20, 20));
        number
    };
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                let mut last = 0;
                while last < LAST {
                    let now = read();
                    assert!(now >= last);
                    last = now;
                }
            });
        }
        (1..=LAST).for_each(|version| drop(store.apply(batch(version))));
    });
    store.check();
}

#[test]
fn batch_is_written_in_place_without_snapshots() {
    let store = Store::new();
    apply(&store, vec![put("a/x", "u", "3"), put("a/y", "u", "4")]);
    let address = |store: &Store<Pod>| Arc::as_ptr(&store.snapshot().root);
    let before = address(&store);
    apply(&store, vec![put("a/x", "u", "5")]);
    assert_eq!(address(&store), before);
    let held = store.snapshot();
    apply(&store, vec![put("a/x", "u", "6")]);
    assert_ne!(address(&store), Arc::as_ptr(&held.root));
}

/// The remaining objects of a list must not keep deleted objects in memory.
#[test]
fn deleted_object_is_freed_before_rest_of_page() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4"), ("a/z", "u", "5")]);
    let deleted_objects = ["a/x", "a/z"].map(|name| Arc::downgrade(&store.get(&key(name)).unwrap()));
    assert_eq!(apply(&store, vec![remove("a/x", "u", "6")]), ["- a/x@3"]);
    assert_eq!(apply(&store, vec![begin(), page(&[("a/y", "u", "4")]), end("7")]), ["-? a/z@5"]);
    assert!(deleted_objects.iter().all(|object| object.upgrade().is_none()));
    assert_eq!(store.keys(), [key("a/y")]);
}

#[test]
fn relist_in_progress_is_invisible() {
    let store = listed("5", &[("a/x", "u", "3")]);
    let before = Arc::as_ptr(&store.snapshot().root);
    apply(&store, vec![begin(), page(&[("a/y", "u", "6")]), remove("a/x", "u", "7")]);
    assert_eq!(Arc::as_ptr(&store.snapshot().root), before);
}

#[test]
fn probe_returns_entry_only_at_same_version() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "odd")]);
    let probe = |name, uid, resource_version| {
        store
            .find_unchanged(&ObjectIdRef::new(Some("a"), name, uid, resource_version), None)
            .map(|entry| entry.object)
    };
    assert!(Arc::ptr_eq(&probe("x", "u", "3").unwrap(), &store.get(&key("a/x")).unwrap()));
    assert!(probe("x", "", "3").is_some(), "an empty uid does not differ");
    assert!(
        probe("x", "v", "3").is_none() && probe("x", "u", "4").is_none() && probe("z", "u", "3").is_none()
    );
    assert!(probe("y", "u", "odd").is_none(), "an opaque version always counts as changed");
    let _: [Arc<dyn CacheProbe<Pod>>; 2] = [Arc::new(store.clone()), Arc::new(NoCache)];
}

#[test]
fn lister_reads_by_name_namespace_and_label() {
    let store = listed(
        "5",
        &[("shop/web-0", "u", "3"), ("shop/db-0", "v", "4"), ("x/web-0", "w", "5"), ("node", "n", "1")],
    );
    let pods = store.lister();
    let shop = pods.namespace("shop");
    assert!(shop.get("web-0").is_some() && shop.get("node").is_none() && pods.get("node").is_some());
    assert_eq!((shop.keys(), shop.len()), (vec![key("shop/web-0"), key("shop/db-0")], 2));
    let web = LabelSelector::everything().equals("app", "web-0");
    assert_eq!((pods.list(&web).len(), shop.list(&web).len(), shop.list_all().len()), (2, 1, 2));
    assert_eq!((pods.list_all().len(), pods.list(&LabelSelector::everything()).len(), pods.len()), (4, 4, 4));
    assert!(pods.namespace("nowhere").is_empty() && !pods.is_empty());
    assert!(pods.get_by_key(&key("x/web-0")).is_some() && pods.is_synced());
}

#[test]
fn namespace_lister_finds_only_its_namespace() {
    let store = listed("5", &[("shop/web", "u", "3"), ("node", "n", "4")]);
    let pods = store.lister();
    let [shop, other] = ["shop", "other"].map(|name| pods.namespace(name));
    assert!(shop.get("web").is_some() && other.get("web").is_none() && pods.get("web").is_none());
    assert!(pods.get("node").is_some() && shop.get("node").is_none() && other.get("node").is_none());
}

#[test]
fn standalone_store_works_like_client_go_indexer() {
    let store = Store::<Pod>::new();
    store.add_index("node", |pod: &Pod| pod.spec.as_ref()?.node_name.clone()).unwrap();
    let object = |name: &str| {
        let mut pod = Pod::clone(&pod(name, "", "").object);
        pod.metadata.resource_version = None;
        pod
    };
    store.add(object("a/x"));
    assert_eq!(store.update(object("a/x")).len(), 1);
    store.replace([object("a/y"), object("a/z")], "9".into());
    assert_eq!(store.keys(), [key("a/y"), key("a/z")]);
    store.delete(&key("a/y"));
    assert_eq!((store.list().len(), store.by_index("node", "node-1").unwrap().len()), (1, 1));
    assert_eq!(store.by_index("zone", "a").unwrap_err(), IndexError::NotFound("zone".into()));
}

#[test]
fn closed_store_ignores_writes_and_can_be_read() {
    let store = listed("5", &[("a/x", "u", "3")]);
    let by_app = store.add_index("app", |pod: &Pod| pod.label("app").map(str::to_owned)).unwrap();
    apply(&store, vec![begin()]);
    store.close();
    assert_eq!(apply(&store, vec![put("a/y", "u", "6")]), [""; 0]);
    assert_eq!(apply(&store, vec![page(&[]), end("7")]), [""; 0]);
    assert_eq!((store.len(), by_app.get("x").len(), store.resource_version()), (1, 1, Some("5".into())));
    let late = store.add_index("late", |pod: &Pod| pod.label("app").map(str::to_owned)).unwrap();
    assert_eq!(late.get("x").len(), 1);
}

/// The function, its lister and the store refer to each other.
#[test]
fn closed_store_is_freed_if_index_function_holds_lister() {
    let held = Arc::new(());
    let alive = Arc::downgrade(&held);
    for close_first in [false, true] {
        let store = listed("5", &[("a/x", "u", "3")]).with_keep_alive(Arc::clone(&held) as _);
        if close_first {
            store.close();
        }
        let lister = store.lister();
        let names = move |pod: &Pod| (!lister.is_empty()).then(|| pod.id().key.name().to_owned());
        assert_eq!(store.add_index("name", names).unwrap().get("x").len(), 1);
        if !close_first {
            store.close();
        }
    }
    drop(held);
    assert!(alive.upgrade().is_none());
}
