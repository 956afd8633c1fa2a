//! Tests which writes are pending after each kind of write and event, without a clock.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_object::{Delta, Entry};
use kube_store::Store;

use super::*;

fn map(name: &str, uid: &str, version: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.into());
    map.metadata.uid = Some(uid.into());
    map.metadata.resource_version = Some(version.into());
    map
}

/// Returns a store with these objects from a list at version 10.
fn cache(objects: &[(&str, &str, &str)]) -> Store<ConfigMap> {
    let store = Store::new();
    store.replace(objects.iter().map(|(name, uid, version)| map(name, uid, version)), "10".into());
    store
}

fn put(store: &Store<ConfigMap>, name: &str, uid: &str, version: &str) {
    store.apply(vec![Delta::Put(Entry::from_object(map(name, uid, version)))]);
}

fn remove(store: &Store<ConfigMap>, name: &str, uid: &str, version: &str) {
    store.apply(vec![Delta::Remove { id: id(name, uid, version), last: None }]);
}

fn id(name: &str, uid: &str, version: &str) -> ObjectId {
    ObjectId { key: key(name), uid: uid.into(), version: version.into() }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(None, name)
}

/// Returns the pending write that a new read must wait for.
fn not_visible(
    pending: &mut PendingWrites,
    key: Option<&ObjectKey>,
    store: &Store<ConfigMap>,
) -> Option<NotVisible> {
    let cache = store.snapshot();
    let barrier = pending.barrier(key, &cache);
    pending.not_visible(&barrier, key, &cache)
}

fn change(version: &str) -> Option<NotVisible> {
    Some(NotVisible::Write(version.into()))
}

#[test]
fn write_is_pending_until_cache_reaches_its_version() {
    let (store, mut pending) = (cache(&[]), PendingWrites::default());
    pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
    pending.record_write(&id("b", "v", "13"), Some(true), &store.snapshot());
    assert_eq!(not_visible(&mut pending, None, &store), change("13"));
    assert_eq!(not_visible(&mut pending, Some(&key("a")), &store), change("12"));
    assert_eq!(not_visible(&mut pending, Some(&key("c")), &store), None);
    put(&store, "a", "u", "12");
    assert_eq!(not_visible(&mut pending, Some(&key("a")), &store), None);
    assert_eq!(not_visible(&mut pending, None, &store), change("13"));
    // An event of another object, or a bookmark, has a later version.
    put(&store, "z", "w", "14");
    assert_eq!(not_visible(&mut pending, None, &store), None);
    assert!(pending.changes.is_empty(), "visible writes are removed");
}

#[test]
fn only_latest_write_of_object_is_pending() {
    let (store, mut pending) = (cache(&[]), PendingWrites::default());
    for version in ["12", "15", "14"] {
        pending.record_write(&id("a", "u", version), Some(true), &store.snapshot());
    }
    assert_eq!(not_visible(&mut pending, None, &store), change("15"));
}

#[test]
fn later_write_of_same_object_replaces_pending_version() {
    let (store, mut pending) = (cache(&[]), PendingWrites::default());
    for (name, version) in [("a", "12"), ("a", "15"), ("b", "12"), ("c", "12")] {
        pending.record_write(&id(name, "u", version), Some(true), &store.snapshot());
    }
    put(&store, "z", "w", "12");
    assert_eq!(not_visible(&mut pending, Some(&key("a")), &store), change("15"));
    assert_eq!(not_visible(&mut pending, Some(&key("b")), &store), None);
    assert_eq!(not_visible(&mut pending, Some(&key("c")), &store), None);
    put(&store, "z", "w", "15");
    assert_eq!(not_visible(&mut pending, Some(&key("a")), &store), None);
    assert!(pending.changes.is_empty());
}

/// Without reads, later deletions remove the visible deletions.
#[test]
fn visible_deletions_do_not_accumulate() {
    let (store, mut pending) = (cache(&[]), PendingWrites::default());
    for version in 11..1011 {
        let (name, at) = (format!("o{version}"), version.to_string());
        put(&store, &name, "u", &at);
        pending.record_delete(key(&name), "u".into(), &store.snapshot());
        remove(&store, &name, "u", &at);
    }
    assert!(pending.deletions.len() < 100, "{} remain", pending.deletions.len());
}

#[test]
fn write_outside_selection_is_not_pending() {
    let (store, mut pending) = (cache(&[]), PendingWrites::default());
    pending.record_write(&id("a", "u", "12"), Some(false), &store.snapshot());
    assert_eq!(not_visible(&mut pending, None, &store), None);
    pending.record_write(&id("b", "u", "13"), None, &store.snapshot());
    assert_eq!(not_visible(&mut pending, None, &store), change("13"), "only the server can decide");
}

#[test]
fn write_that_leaves_selection_is_pending() {
    let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
    pending.record_write(&id("a", "u", "12"), Some(false), &store.snapshot());
    assert_eq!(not_visible(&mut pending, None, &store), change("12"));
    let (store, mut pending) = (cache(&[]), PendingWrites::default());
    pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
    pending.record_write(&id("a", "u", "13"), Some(false), &store.snapshot());
    assert_eq!(
        not_visible(&mut pending, None, &store),
        change("13"),
        "the second write moves the object out of the selection"
    );
}

#[test]
fn deletion_is_pending_while_object_is_cached() {
    let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
    pending.record_delete(key("a"), "u".into(), &store.snapshot());
    assert_eq!(not_visible(&mut pending, None, &store), Some(NotVisible::Deletion(key("a"))));
    assert_eq!(not_visible(&mut pending, Some(&key("b")), &store), None);
    remove(&store, "a", "u", "12");
    assert_eq!(not_visible(&mut pending, None, &store), None);
}

#[test]
fn object_with_other_uid_is_not_pending_deletion() {
    let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
    pending.record_delete(key("a"), "u".into(), &store.snapshot());
    put(&store, "a", "other", "12");
    assert_eq!(not_visible(&mut pending, None, &store), None);
}

/// The response to a write can arrive after its event, and after later events of other clients.
#[test]
fn write_already_deleted_in_cache_is_not_pending() {
    for successor in [None, Some("v")] {
        let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
        put(&store, "a", "u", "12");
        remove(&store, "a", "u", "13");
        if let Some(uid) = successor {
            put(&store, "a", uid, "14");
        }
        pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
        assert!(pending.changes.is_empty());
        assert_eq!(not_visible(&mut pending, None, &store), None);
    }
}

#[test]
fn create_then_delete_are_both_pending() {
    let (store, mut pending) = (cache(&[]), PendingWrites::default());
    pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
    pending.record_delete(key("a"), "u".into(), &store.snapshot());
    assert_eq!(not_visible(&mut pending, None, &store), change("12"));
    put(&store, "a", "u", "12");
    assert_eq!(not_visible(&mut pending, None, &store), Some(NotVisible::Deletion(key("a"))));
    remove(&store, "a", "u", "13");
    assert_eq!(not_visible(&mut pending, None, &store), None);
}

/// Property 13.
#[test]
fn lost_epoch_is_reported_once() {
    let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
    pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
    store.replace([map("a", "u", "5")], "8".into());
    pending.record_write(&id("b", "v", "9"), Some(true), &store.snapshot());
    assert_eq!(not_visible(&mut pending, None, &store), Some(NotVisible::LostEpoch("12".into())));
    assert_eq!(not_visible(&mut pending, None, &store), change("9"));
}

#[test]
fn opaque_version_is_not_pending() {
    let (store, mut pending) = (cache(&[]), PendingWrites::default());
    pending.record_write(&id("a", "u", "abc"), Some(true), &store.snapshot());
    assert_eq!(not_visible(&mut pending, None, &store), None);
}

#[test]
fn writes_after_barrier_are_not_awaited() {
    let (store, mut pending) = (cache(&[("gone", "u", "3"), ("later", "u", "4")]), PendingWrites::default());
    pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
    pending.record_delete(key("gone"), "u".into(), &store.snapshot());
    let (all, one) = (None, Some(key("a")));
    let barriers = [all.as_ref(), one.as_ref()].map(|key| (key, pending.barrier(key, &store.snapshot())));
    pending.record_write(&id("a", "u", "13"), Some(true), &store.snapshot());
    pending.record_delete(key("later"), "u".into(), &store.snapshot());
    put(&store, "a", "u", "12");
    remove(&store, "gone", "u", "12");
    for (key, barrier) in barriers {
        assert_eq!(pending.not_visible(&barrier, key, &store.snapshot()), None);
        assert_eq!(
            not_visible(&mut pending, key, &store),
            change("13"),
            "a new read waits for the later write"
        );
    }
    put(&store, "a", "u", "13");
    assert_eq!(not_visible(&mut pending, None, &store), Some(NotVisible::Deletion(key("later"))));
}

#[test]
fn both_deletions_of_one_name_are_pending() {
    let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
    pending.record_delete(key("a"), "u".into(), &store.snapshot());
    pending.record_write(&id("a", "v", "12"), Some(true), &store.snapshot());
    pending.record_delete(key("a"), "v".into(), &store.snapshot());
    let deletion = Some(NotVisible::Deletion(key("a")));
    let barrier = pending.barrier(None, &store.snapshot());
    put(&store, "z", "w", "11");
    assert_eq!(pending.not_visible(&barrier, None, &store.snapshot()), change("12"));
    put(&store, "a", "v", "12");
    assert_eq!(pending.not_visible(&barrier, None, &store.snapshot()), deletion);
    assert_eq!(not_visible(&mut pending, Some(&key("a")), &store), deletion);
    remove(&store, "a", "v", "13");
    assert_eq!(pending.not_visible(&barrier, None, &store.snapshot()), None);
}

/// The first deletion must remain pending although the second deletion is visible.
#[test]
fn first_of_two_deletions_of_one_name_is_pending() {
    let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
    pending.record_delete(key("a"), "u".into(), &store.snapshot());
    pending.record_delete(key("a"), "v".into(), &store.snapshot());
    assert_eq!(not_visible(&mut pending, Some(&key("a")), &store), Some(NotVisible::Deletion(key("a"))));
    remove(&store, "a", "u", "12");
    assert_eq!(not_visible(&mut pending, Some(&key("a")), &store), None);
}

#[test]
fn write_response_after_delete_response_belongs_to_old_uid() {
    let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
    pending.record_delete(key("a"), "u".into(), &store.snapshot());
    remove(&store, "a", "u", "6"); // For example, a relist deleted the object and missed the later change.
    pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
    put(&store, "a", "u", "12");
    assert_eq!(not_visible(&mut pending, None, &store), Some(NotVisible::Deletion(key("a"))));
}

#[test]
fn lost_epoch_is_reported_to_every_waiting_read() {
    let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
    pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
    let barriers = [None, None].map(|key| pending.barrier(key, &store.snapshot()));
    store.replace([map("a", "u", "5")], "8".into());
    for barrier in barriers {
        assert_eq!(
            pending.not_visible(&barrier, None, &store.snapshot()),
            Some(NotVisible::LostEpoch("12".into()))
        );
    }
    assert_eq!(not_visible(&mut pending, None, &store), None, "the read started after the restore");
}

/// Some aggregated servers return a Status without a uid.
#[test]
fn deletion_without_uid_applies_to_last_object() {
    let (store, mut pending) = (cache(&[("a", "old", "5")]), PendingWrites::default());
    pending.record_write(&id("a", "new", "12"), Some(true), &store.snapshot());
    pending.record_delete(key("a"), Uid::new(""), &store.snapshot());
    put(&store, "a", "new", "12");
    assert_eq!(not_visible(&mut pending, None, &store), Some(NotVisible::Deletion(key("a"))));
    pending.record_write(&id("a", "again", "15"), Some(true), &store.snapshot());
    put(&store, "a", "again", "15");
    assert_eq!(not_visible(&mut pending, None, &store), None);
}

/// The cache misses the change at first, so it does not contain the deleted object for a while.
#[test]
fn late_response_of_earlier_write_keeps_deletion_pending() {
    let (store, mut pending) = (cache(&[("a", "u", "5")]), PendingWrites::default());
    pending.record_delete(key("a"), "u".into(), &store.snapshot());
    let barrier = pending.barrier(None, &store.snapshot());
    remove(&store, "a", "u", "6");
    pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
    let deletion = Some(NotVisible::Deletion(key("a")));
    assert_eq!(pending.not_visible(&barrier, None, &store.snapshot()), deletion);
    put(&store, "a", "u", "12");
    assert_eq!(not_visible(&mut pending, None, &store), deletion);
}

/// Property 13.
#[test]
fn second_lost_epoch_keeps_first_report() {
    let (store, mut pending) = (cache(&[]), PendingWrites::default());
    pending.record_write(&id("a", "u", "12"), Some(true), &store.snapshot());
    store.replace([], "8".into());
    pending.barrier(None, &store.snapshot());
    store.replace([], "7".into());
    assert_eq!(not_visible(&mut pending, None, &store), Some(NotVisible::LostEpoch("12".into())));
    assert_eq!(not_visible(&mut pending, None, &store), None);
}
