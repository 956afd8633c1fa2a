//! Tests the effects of a relist.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_object::{CacheProbe, Delta, Digest, Entry, Listed, Object};

use super::*;
use crate::{Store, Watermark, testing::*};

fn incomplete(version: &str) -> Delta<k8s_openapi::api::core::v1::Pod> {
    Delta::End { version: version.into(), complete: false }
}

/// Property 12, for the store.
#[test]
fn only_first_list_adds_are_initial() {
    let store = Store::new();
    let first = vec![begin(), page(&[("a/x", "u", "3")]), end("5")];
    assert_eq!(apply(&store, first), ["++ a/x@3"]);
    assert!(store.is_synced());
    let second = vec![begin(), page(&[("a/x", "u", "3"), ("a/y", "u", "6")]), end("7")];
    assert_eq!(apply(&store, second), ["+ a/y@6"]);
}

/// Property 10, for the store.
#[test]
fn store_is_synced_at_end_of_first_list() {
    let store = Store::new();
    for batch in [vec![put("a/x", "u", "1")], vec![begin()], vec![page(&[("a/y", "u", "3")])]] {
        apply(&store, batch);
        assert!(!store.is_synced());
    }
    apply(&store, vec![end("5")]);
    assert!(store.is_synced());
    apply(&store, vec![begin(), page(&[("a/y", "u", "3")])]);
    assert!(store.is_synced(), "a relist in progress keeps the store synced");
}

/// Property 7.
#[test]
fn relist_deletes_missing_objects_before_changes() {
    let store = listed("9", &[("b/y", "u", "1"), ("a/z", "u", "2"), ("a/k", "u", "3"), ("b/r", "old", "4")]);
    let page = page(&[("c/new", "u", "12"), ("b/r", "new", "11"), ("a/k", "u", "10")]);
    assert_eq!(apply(&store, vec![begin(), page]), [""; 0]);
    let events = apply(&store, vec![end("12")]);
    assert_eq!(events, ["-? a/z@2", "-? b/r@4", "-? b/y@1", "+ c/new@12", "+ b/r@11", "* a/k@3 -> 10"]);
    assert_eq!(store.len(), 3);
}

#[test]
fn unchanged_object_keeps_arc_and_emits_no_event() {
    let store = listed("5", &[("a/x", "u", "3")]);
    let before = store.get(&key("a/x")).unwrap();
    assert_eq!(apply(&store, vec![begin(), page(&[("a/x", "u", "3")]), end("8")]), [""; 0]);
    assert!(Arc::ptr_eq(&before, &store.get(&key("a/x")).unwrap()));
    assert_eq!(store.resource_version(), Some("8".into()));
}

#[test]
fn unchanged_object_costs_one_bit_until_end() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    let root = store.snapshot().root;
    let mut relist = super::Relist::new(false);
    relist.collect(page(&[("a/x", "u", "3"), ("a/y", "u", "9")]), &root);
    assert_eq!((relist.changes.chunks[0].len(), relist.changes.places.len()), (1, 1));
    assert_eq!(relist.cached.present.0.len(), 1);
}

/// A server that ignores the `continue` token repeats the same page.
#[test]
fn repeated_list_items_need_no_memory() {
    let store = listed("5", &[]);
    let mut relist = super::Relist::new(false);
    let root = store.snapshot().root;
    for version in 10..1000 {
        relist.collect(page(&[("a/x", "u", &version.to_string())]), &root);
    }
    assert_eq!((relist.changes.chunks[0].len(), relist.changes.places.len()), (1, 1));
}

#[test]
fn restarted_relist_discards_collected_deltas() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    let interrupted = vec![begin(), page(&[("a/x", "u", "3"), ("a/new", "u", "6")])];
    assert_eq!(apply(&store, interrupted), [""; 0]);
    assert_eq!(apply(&store, vec![begin(), page(&[("a/y", "u", "4")]), end("8")]), ["-? a/x@3"]);
}

#[test]
fn relist_applies_last_event_per_key() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    let during = vec![
        begin(),
        page(&[("a/x", "u", "3"), ("a/y", "u", "4"), ("a/z", "u", "6")]),
        put("a/x", "u", "7"),
        put("a/x", "u", "8"),
        remove("a/y", "u", "9"),
        remove("a/z", "other", "9"),
        Delta::Bookmark("10".into()),
    ];
    assert_eq!(apply(&store, during), [""; 0]);
    assert_eq!(store.resource_version(), Some("5".into()));
    assert_eq!(apply(&store, vec![end("11")]), ["-? a/y@4", "+ a/z@6", "* a/x@3 -> 8"]);
}

/// Property 18.
#[test]
fn deletion_during_relist_has_final_state() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    let removal = |name: &str, uid| Delta::Remove { id: id(name, uid, "9"), last: Some(pod(name, uid, "9")) };
    let batch = vec![
        begin(),
        page(&[("a/y", "later", "8")]),
        removal("a/x", "u"),
        removal("a/y", "later"),
        end("10"),
    ];
    assert_eq!(apply(&store, batch), ["- a/x@9", "-? a/y@4"]);
}

/// Property 18: another object reuses the key before the list is complete.
#[test]
fn deletion_before_reused_name_has_final_state() {
    let removal =
        |uid, version| Delta::Remove { id: id("a/x", uid, version), last: Some(pod("a/x", uid, version)) };
    let after = |more: Vec<_>| {
        let store = listed("5", &[("a/x", "u", "3")]);
        let batch =
            [vec![begin(), removal("u", "9"), put("a/x", "new", "10")], more, vec![end("15")]].concat();
        apply(&store, batch)
    };
    assert_eq!(after(vec![]), ["- a/x@9", "+ a/x@10"]);
    assert_eq!(after(vec![put("a/x", "new", "11")]), ["- a/x@9", "+ a/x@11"]);
    assert_eq!(after(vec![removal("new", "12")]), ["- a/x@9"]);
    assert_eq!(after(vec![undecodable("a/x", "newest", "13")]), ["- a/x@9"]);
    assert_eq!(after(vec![removal("new", "12"), put("a/x", "u", "13"), removal("u", "14")]), ["- a/x@14"]);
}

#[test]
fn lists_are_counted_at_end_and_without_reuse() {
    let store = listed("5", &[("a/x", "u", "3")]);
    apply(&store, vec![Delta::Begin { without_reuse: true }, page(&[("a/x", "u", "3")])]);
    assert_eq!((store.stats().lists, store.stats().lists_without_reuse), (1, 0));
    apply(&store, vec![end("6"), put("a/x", "u", "7"), end("8")]);
    assert_eq!((store.stats().lists, store.stats().lists_without_reuse), (2, 1));
}

#[test]
fn incomplete_list_does_not_delete() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    let batch = vec![begin(), page(&[("a/y", "u", "6"), ("a/z", "u", "7")]), incomplete("8")];
    assert_eq!(apply(&store, batch), ["* a/y@4 -> 6", "+ a/z@7"]);
    assert_eq!((store.len(), store.resource_version()), (3, Some("5".into())));
}

/// The object `a/x` was deleted before the list, so the cache does not contain all changes up to the
/// version of the list.
#[test]
fn incomplete_list_does_not_advance_watermark() {
    let store = listed("10", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    apply(&store, vec![begin(), page(&[("a/y", "u", "4")]), incomplete("20")]);
    assert!(store.get(&key("a/x")).is_some());
    let reached = |version: &str| store.snapshot().has_reached(&version.into());
    assert_eq!((reached("10"), reached("15"), store.watermark().epoch), (true, false, 0));
    apply(&store, vec![begin(), page(&[("a/y", "u", "4")]), end("20")]);
    assert_eq!((reached("20"), store.len(), store.watermark().epoch), (true, 1, 0));
}

/// A server that was restored to an older state.
#[test]
fn incomplete_list_of_older_state_starts_epoch_without_version() {
    let store = listed("10", &[("a/x", "u", "3"), ("a/y", "u", "8")]);
    apply(&store, vec![begin(), page(&[("a/y", "u", "4")]), incomplete("5")]);
    assert_eq!(store.watermark(), Watermark { version: None, epoch: 1, synced: true });
    apply(&store, vec![begin(), page(&[("a/y", "u", "4")]), end("6")]);
    assert_eq!(store.watermark(), Watermark { version: Some("6".into()), epoch: 1, synced: true });
}

#[test]
fn incomplete_list_deletes_object_that_undecodable_item_replaced() {
    let store = listed("5", &[("a/x", "old", "3"), ("a/y", "u", "4")]);
    let page = Delta::Page(vec![Listed::Undecodable(id("a/x", "new", "6"))]);
    assert_eq!(apply(&store, vec![begin(), page, incomplete("8")]), ["-? a/x@3"]);
}

#[test]
fn incomplete_list_deletes_object_whose_deletion_was_received() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    let batch = vec![begin(), remove("a/x", "u", "6"), incomplete("8")];
    assert_eq!(apply(&store, batch), ["-? a/x@3"]);
}

#[test]
fn undecodable_item_makes_object_stale() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "old", "4")]);
    let item = |name, uid| Listed::Undecodable(id(name, uid, "6"));
    let page = Delta::Page(vec![item("a/x", "u"), item("a/y", "new"), item("a/z", "u")]);
    assert_eq!(apply(&store, vec![begin(), page, end("7")]), ["-? a/y@4"]);
    assert!(store.snapshot().is_stale(&key("a/x")));
    assert_eq!((store.len(), store.stats().stale), (1, 1));
}

/// A lost history may have used the same version for another state.
#[test]
fn relisted_last_good_version_is_no_longer_stale() {
    let store = listed("5", &[("a/x", "u", "3")]);
    apply(&store, vec![undecodable("a/x", "u", "6")]);
    assert_eq!(apply(&store, vec![begin(), page(&[("a/x", "u", "3")]), end("9")]), ["* a/x@3 -> 3"]);
    assert_eq!(store.stats().stale, 0);
}

#[test]
fn later_item_of_relist_that_equals_cached_object_is_not_stale() {
    let store = listed("5", &[("a/x", "u", "3")]);
    let undecodable = Delta::Page(vec![Listed::Undecodable(id("a/x", "u", "3"))]);
    assert_eq!(apply(&store, vec![begin(), undecodable, page(&[("a/x", "u", "3")]), end("9")]), [""; 0]);
    assert_eq!(store.stats().stale, 0);
}

#[test]
fn undecodable_update_in_relist_makes_object_stale() {
    let store = Store::new();
    let batch = vec![begin(), page(&[("a/x", "u", "3")]), undecodable("a/x", "u", "4"), end("5")];
    assert_eq!(apply(&store, batch), ["++ a/x@3"]);
    assert!(store.snapshot().is_stale(&key("a/x")));
}

/// Property 13.
#[test]
fn list_without_reuse_ignores_equal_versions() {
    let store = listed("50", &[("a/x", "u", "30"), ("a/y", "u", "40")]);
    let before = store.get(&key("a/x")).unwrap();
    let list = vec![
        Delta::Begin { without_reuse: true },
        page(&[("a/x", "u", "30"), ("a/y", "u", "20")]),
        end("35"),
    ];
    assert_eq!(apply(&store, list), ["* a/x@30 -> 30", "* a/y@40 -> 20"]);
    assert!(!Arc::ptr_eq(&before, &store.get(&key("a/x")).unwrap()));
    assert_eq!(store.watermark(), Watermark { version: Some("35".into()), epoch: 1, synced: true });
}

/// Properties 2 and 18.
#[test]
fn list_without_reuse_compares_digests() {
    let listed_item = |key, digest| Entry::with_digest(pod(key, "u", "30"), Digest::new(digest));
    let list = |digest| {
        Delta::Page(vec![Listed::Object(listed_item("a/x", 1)), Listed::Object(listed_item("a/y", digest))])
    };
    let store = Store::new();
    apply(&store, vec![begin(), list(1), end("50")]);
    let before = store.get(&key("a/x")).unwrap();
    assert_eq!(
        apply(&store, vec![Delta::Begin { without_reuse: true }, list(2), end("50")]),
        ["* a/y@30 -> 30"]
    );
    // The client did not notice that the history was replaced.
    assert_eq!(apply(&store, vec![begin(), list(3), end("50")]), ["* a/y@30 -> 30"]);
    assert!(Arc::ptr_eq(&before, &store.get(&key("a/x")).unwrap()));
}

#[test]
fn older_list_replaces_cached_objects() {
    let store = listed("50", &[("a/x", "u", "30")]);
    assert_eq!(apply(&store, vec![begin(), page(&[("a/x", "u", "20")]), end("25")]), ["* a/x@30 -> 20"]);
    assert_eq!(store.watermark().epoch, 1);
}

#[test]
fn batch_may_contain_relist_and_other_deltas() {
    let store = listed("5", &[("a/x", "u", "3"), ("a/y", "u", "4")]);
    let batch = vec![
        remove("a/x", "u", "6"),
        put("a/z", "u", "7"), // takes the slot of a/x
        begin(),
        page(&[("a/y", "u", "4"), ("a/z", "u", "7")]),
        end("8"),
        put("a/y", "u", "9"),
    ];
    assert_eq!(apply(&store, batch), ["- a/x@3", "+ a/z@7", "* a/y@4 -> 9"]);
    assert_eq!(store.resource_version(), Some("9".into()));
}

/// Deltas before a list are applied first, in their order.
#[test]
fn list_is_applied_after_earlier_deltas() {
    let empty = || vec![begin(), end("9")];
    let with_x = || vec![begin(), page(&[("a/x", "u", "8")]), end("9")];
    let recreated = || vec![put("a/x", "u", "4"), remove("a/x", "u", "5"), put("a/x", "v", "6")];
    for (before, list, expected) in [
        (vec![put("a/x", "u", "4")], empty(), vec!["+ a/x@4", "-? a/x@4"]),
        (vec![put("a/x", "u", "4"), remove("a/x", "u", "5")], empty(), vec!["+ a/x@4", "- a/x@4"]),
        (
            vec![put("a/x", "u", "4"), remove("a/x", "u", "5")],
            with_x(),
            vec!["+ a/x@4", "- a/x@4", "+ a/x@8"],
        ),
        (recreated(), empty(), vec!["+ a/x@4", "- a/x@4", "+ a/x@6", "-? a/x@6"]),
        (with_x(), empty(), vec!["+ a/x@8", "-? a/x@8"]),
    ] {
        let store = listed("3", &[]);
        assert_eq!(apply(&store, [before, list].concat()), expected);
    }
}

#[test]
fn bookmark_end_does_not_delete() {
    let store = listed("5", &[("a/x", "u", "3")]);
    assert_eq!(apply(&store, vec![end("8")]), [""; 0]);
    assert_eq!((store.len(), store.resource_version()), (1, Some("8".into())));
    assert_eq!(apply(&store, vec![page(&[("a/y", "u", "9")])]), ["+ a/y@9"]);
}

#[test]
fn clear_deletes_all_and_keeps_watermark() {
    let store = listed("9", &[("b/y", "u", "1"), ("a/z", "u", "2")]);
    let before = store.watermark();
    apply(&store, vec![undecodable("a/z", "u", "10"), begin(), page(&[("c/new", "u", "9")])]);
    assert_eq!(apply(&store, vec![Delta::Clear]), ["-? a/z@2", "-? b/y@1"]);
    assert_eq!((store.len(), store.stats().stale), (0, 0));
    assert_eq!(store.watermark(), Watermark { version: Some("10".into()), ..before });
    // `Clear` discarded the relist, so this `End` has no `Begin`.
    assert_eq!(apply(&store, vec![end("11")]), [""; 0]);
    assert!(store.is_empty());
    assert_eq!(apply(&store, vec![begin(), page(&[("b/y", "u", "1")]), end("12")]), ["+ b/y@1"]);
}

/// Property 10: the list of a missing resource does not count as an initial list.
#[test]
fn clear_of_empty_store_does_not_sync() {
    let store = Store::<k8s_openapi::api::core::v1::Pod>::new();
    assert_eq!(apply(&store, vec![Delta::Clear]), [""; 0]);
    assert_eq!(store.watermark(), Watermark::default());
}

/// Property 2: the cached version may belong to a lost history that used the same versions.
#[test]
fn event_replaces_stale_object_of_lost_history() {
    let store = listed("2", &[("a/x", "1", "2")]);
    apply(&store, vec![put("a/x", "1", "5")]);
    let fresh = Delta::Begin { without_reuse: true };
    let list = Delta::Page(vec![Listed::Undecodable(id("a/x", "1", "3"))]);
    assert_eq!(apply(&store, vec![fresh, list, end("3")]), [""; 0]);
    let same_version = pod("a/x", "1", "5");
    assert!(
        store.find_unchanged(&same_version.object.as_ref().id(), None).is_none(),
        "the cached version belongs to another history"
    );
    // Events up to the version of the list are repeats.
    assert_eq!(apply(&store, vec![put("a/x", "1", "3"), put("a/x", "1", "2")]), [""; 0]);
    assert_eq!(apply(&store, vec![put("a/x", "1", "5")]), ["* a/x@5 -> 5"]);
    assert_eq!(store.stats().stale, 0);
    assert_eq!(apply(&store, vec![put("a/x", "1", "4")]), [""; 0]);
}

/// Property 3.
#[test]
fn undecodable_event_of_another_uid_deletes_stale_object_of_lost_history() {
    let store = listed("100", &[("a/x", "old", "90")]);
    let fresh = Delta::Begin { without_reuse: true };
    apply(&store, vec![fresh, Delta::Page(vec![Listed::Undecodable(id("a/x", "old", "7"))]), end("10")]);
    assert_eq!(apply(&store, vec![undecodable("a/x", "new", "9")]), [""; 0], "older than the list");
    assert_eq!(apply(&store, vec![undecodable("a/x", "new", "12")]), ["-? a/x@90"]);
}

/// Property 1: some servers return objects that are newer than the list, and then repeat their events.
#[test]
fn events_do_not_replace_listed_object_that_is_newer_than_list() {
    let store = listed("20", &[("a/x", "u", "28"), ("a/y", "second", "27")]);
    let repeats = vec![
        put("a/x", "u", "22"),
        put("a/y", "first", "21"),
        remove("a/y", "first", "24"),
        put("a/y", "second", "27"),
        put("a/x", "u", "28"),
    ];
    assert_eq!(apply(&store, repeats), [""; 0]);
    assert_eq!(apply(&store, vec![put("a/x", "u", "29")]), ["* a/x@28 -> 29"]);
}

#[test]
fn places_fill_chunks_of_growing_size() {
    for (place, expected) in [
        (0, (0, 0)),
        (FIRST_CHUNK - 1, (0, FIRST_CHUNK - 1)),
        (FIRST_CHUNK, (1, 0)),
        (3 * FIRST_CHUNK - 1, (1, 2 * FIRST_CHUNK - 1)),
        (3 * FIRST_CHUNK, (2, 0)),
        (1_000_000, (9, 1_000_000 - 511 * FIRST_CHUNK)),
    ] {
        assert_eq!(position(place), expected, "{place}");
    }
    let mut changes: Changes<ConfigMap> = Changes::new();
    let keys: Vec<ObjectKey> =
        (0..4 * FIRST_CHUNK).map(|number| ObjectKey::new(None, &format!("{number}"))).collect();
    keys.iter().for_each(|key| changes.set(key.clone(), CollectedChange::Gone(None)));
    let lengths: Vec<usize> = changes.chunks.iter().map(Vec::len).collect();
    assert_eq!(lengths, [FIRST_CHUNK, 2 * FIRST_CHUNK, FIRST_CHUNK]);
    assert!(keys.iter().all(|key| changes.get(key).is_some()));
}
