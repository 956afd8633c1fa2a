//! Tests of the slots that a store holds.

use k8s_openapi::api::core::v1::Pod;
use kube_object::{Delta, ObjectIdRef};

use super::*;
use crate::testing::*;

fn part(slots: SlotSet) -> Shard {
    Shard { key: ShardKey::Namespace, count: SlotCount::new(256).unwrap(), slots }
}

/// Returns the slots of these namespaces.
fn of(namespaces: &[&str]) -> Shard {
    let slot =
        |namespace: &&str| part(SlotSet::default()).slot_of(&ObjectIdRef::new(Some(namespace), "x", "", ""));
    part(namespaces.iter().map(slot).collect())
}

fn hold(namespaces: &[&str]) -> Delta<Pod> {
    gain(namespaces, &[])
}

fn gain(namespaces: &[&str], items: &[(&str, &str, &str)]) -> Delta<Pod> {
    let Delta::Page(gained) = page(items) else { unreachable!() };
    Delta::Hold { shard: of(namespaces), gained }
}

fn sharded() -> Store<Pod> {
    let shard = part(SlotSet::default());
    Store::sharded(shard.key, shard.count)
}

/// Returns a store that holds the slots of `alpha` and `bravo`.
fn listed_store() -> Store<Pod> {
    let store = sharded();
    let items = [("alpha/x", "u", "3"), ("bravo/y", "v", "4")];
    store.apply(vec![begin(), hold(&["alpha", "bravo"]), page(&items), end("5")]);
    store
}

#[test]
fn list_holds_its_slots_at_its_end() {
    let store = sharded();
    assert_eq!(store.snapshot().covers(&key("alpha/x")), Some(false), "no slot is held before the list");
    apply(&store, vec![begin()]);
    apply(&store, vec![hold(&["alpha", "bravo"])]);
    apply(&store, vec![page(&[("alpha/x", "u", "3")])]);
    assert_eq!((store.is_synced(), store.snapshot().covers(&key("alpha/x"))), (false, Some(false)));
    assert_eq!(apply(&store, vec![end("5")]), ["++ alpha/x@3"]);
    assert_eq!(store.snapshot().shard(), Some(of(&["alpha", "bravo"])));
    assert_eq!(store.lister().covers(&key("alpha/other")), Some(true));
    assert_eq!(store.lister().covers(&key("charlie/other")), Some(false));
}

#[test]
fn objects_of_lost_slot_leave_at_once() {
    let store = listed_store();
    assert_eq!(apply(&store, vec![hold(&["bravo"])]), ["-< alpha/x@3"]);
    assert_eq!(store.lister().covers(&key("alpha/x")), Some(false));
    assert_eq!(apply(&store, vec![hold(&["bravo"])]), [""; 0]);
    assert_eq!((store.len(), store.resource_version()), (1, Some("5".into())));
}

#[test]
fn gained_objects_do_not_move_watermark() {
    let store = listed_store();
    let gained = gain(&["alpha", "bravo", "charlie"], &[("charlie/z", "w", "9"), ("charlie/k", "w", "2")]);
    assert_eq!(apply(&store, vec![gained]), ["+ charlie/z@9", "+ charlie/k@2"], "not initial");
    assert_eq!(store.resource_version(), Some("5".into()), "the watch has not delivered the events up to 9");
    assert_eq!(apply(&store, vec![put("alpha/x", "u", "6")]), ["* alpha/x@3 -> 6"]);
    assert_eq!(store.snapshot().shard(), Some(of(&["alpha", "bravo", "charlie"])));
}

/// With shards by uid, a gained slot and a held slot can contain objects with the same key.
#[test]
fn gained_object_never_replaces_newer_object_of_its_key() {
    let store = listed_store();
    assert_eq!(apply(&store, vec![gain(&["alpha", "bravo"], &[("alpha/x", "other", "2")])]), [""; 0]);
    let newer = gain(&["alpha", "bravo"], &[("alpha/x", "other", "6")]);
    assert_eq!(apply(&store, vec![newer]), ["-? alpha/x@3", "+ alpha/x@6"]);
}

#[test]
fn undecodable_gained_object_marks_its_gained_state() {
    let store = listed_store();
    let Delta::Hold { shard, mut gained } = gain(&["alpha", "bravo", "charlie"], &[("charlie/z", "w", "7")])
    else {
        unreachable!()
    };
    gained.push(Listed::Undecodable(id("charlie/z", "w", "8")));
    gained.push(Listed::Undecodable(id("charlie/k", "w", "8")));
    assert_eq!(apply(&store, vec![Delta::Hold { shard, gained }]), ["+ charlie/z@7"]);
    assert!(store.snapshot().is_stale(&key("charlie/z")));
}

#[test]
fn empty_set_discards_relist_and_is_synced() {
    let store = sharded();
    apply(&store, vec![begin(), hold(&["alpha"]), page(&[("alpha/x", "u", "3")])]);
    assert!(!store.is_synced());
    assert_eq!(apply(&store, vec![hold(&[])]), [""; 0]);
    assert!(store.is_synced());
    assert_eq!(apply(&store, vec![end("5")]), [""; 0], "the relist was discarded");
    assert_eq!(apply(&listed_store(), vec![hold(&[])]), ["-< alpha/x@3", "-< bravo/y@4"]);
}

#[test]
fn slot_lost_during_relist_is_not_held_after_it() {
    let store = listed_store();
    apply(&store, vec![begin(), hold(&["alpha", "bravo", "charlie"])]);
    assert_eq!(
        store.snapshot().shard(),
        Some(of(&["alpha", "bravo"])),
        "the store holds `charlie` after the list"
    );
    apply(
        &store,
        vec![page(&[
            ("alpha/x", "u", "6"),
            ("bravo/y", "v", "4"),
            ("charlie/z", "w", "7"),
            ("alpha/new", "u", "7"),
        ])],
    );
    apply(&store, vec![undecodable("alpha/x", "u", "8"), undecodable("bravo/y", "v", "8")]);
    assert_eq!(apply(&store, vec![hold(&["bravo", "charlie"])]), ["-< alpha/x@3"]);
    assert_eq!(apply(&store, vec![end("9")]), ["+ charlie/z@7"]);
    assert_eq!(store.snapshot().shard(), Some(of(&["bravo", "charlie"])));
    assert!(store.snapshot().is_stale(&key("bravo/y")));
}

#[test]
fn uid_key_covers_only_cached_objects() {
    let store = Store::<Pod>::sharded(ShardKey::Uid, SlotCount::new(4).unwrap());
    let held = |slots: SlotSet| Shard { key: ShardKey::Uid, count: SlotCount::new(4).unwrap(), slots };
    let all = held(SlotSet::all(SlotCount::new(4).unwrap()));
    let slot = all.slot_of(&id("alpha/x", "u", "3").as_id());
    let Delta::Page(gained) = page(&[("alpha/x", "u", "3")]) else { unreachable!() };
    store.apply(vec![Delta::Hold { shard: held([slot].into_iter().collect()), gained }]);
    let covers = |text: &str| store.lister().covers(&key(text));
    assert_eq!((covers("alpha/x"), covers("alpha/y")), (Some(true), None));
    store.apply(vec![Delta::Hold { shard: all, gained: Vec::new() }]);
    assert_eq!(covers("alpha/y"), Some(true));
    assert_eq!(Store::<Pod>::new().lister().covers(&key("alpha/y")), Some(true), "not sharded");
}

#[test]
fn large_changes_of_slots_are_prepared_outside_of_locks() {
    let store = listed_store();
    let events = |delta: Delta<Pod>, min: usize| {
        let mut write = store.begin_large_write(&[delta], min).unwrap();
        let events = write.prepare();
        assert!(write.publish());
        store.check();
        events.len()
    };
    assert!(store.begin_large_write(&[hold(&["alpha"])], 3).is_none(), "the store has two objects");
    assert!(
        store.begin_large_write(&[hold(&["alpha", "bravo", "charlie"])], 1).is_none(),
        "no object leaves"
    );
    assert_eq!(events(gain(&["alpha", "charlie"], &[("charlie/z", "w", "7")]), 2), 2);
    assert_eq!(events(gain(&["alpha", "charlie", "delta"], &[("delta/z", "w", "8")]), 1), 1);
    assert_eq!(store.snapshot().shard(), Some(of(&["alpha", "charlie", "delta"])));
    store.apply(vec![begin()]);
    assert!(store.begin_large_write(&[hold(&[])], 0).is_none(), "not during a relist");
}
