//! Tests of the steps of a finalizer and of its patches.

use json_patch_of_kube::{PatchOperation, patch};
use serde_json::{Value, json};

use super::*;

const OURS: &str = "shop.example.com/buckets";

fn meta(finalizers: &[&str], is_deleted: bool) -> ObjectMeta {
    let finalizers = (!finalizers.is_empty()).then_some(finalizers);
    let deleted = is_deleted.then_some("2026-01-01T00:00:00Z");
    let meta = json!({"name": "a", "uid": "u", "finalizers": finalizers, "deletionTimestamp": deleted});
    serde_json::from_value(meta).unwrap()
}

#[test]
fn step_depends_on_where_the_object_was_read() {
    use ReadFrom::{Cache, Server, TrustedCache};
    for (finalizers, is_deleted, expected) in [
        (&[][..], true, [Step::Skip, Step::Skip, Step::Skip]),
        (&["other"], true, [Step::Skip, Step::Skip, Step::Skip]),
        (&["other"], false, [Step::Add, Step::Add, Step::Add]),
        (&["other", OURS], false, [Step::Read, Step::Apply, Step::Apply]),
        (&["other", OURS], true, [Step::Read, Step::Read, Step::Cleanup]),
    ] {
        let steps = [Cache, TrustedCache, Server]
            .map(|read_from| step(&meta(finalizers, is_deleted), OURS, read_from));
        assert_eq!(steps, expected, "{finalizers:?} {is_deleted}");
    }
}

/// Applies the patch to an object with the finalizers `current`, and returns the resulting
/// finalizers.
fn patched(operations: &[PatchOperation], current: &[&str], uid: &str) -> Option<Value> {
    let list = if current.is_empty() { Value::Null } else { current.into() };
    let mut object = json!({"metadata": {"uid": uid, "finalizers": list}});
    patch(&mut object, operations).ok()?;
    Some(object["metadata"]["finalizers"].take())
}

#[test]
fn addition_requires_unchanged_finalizers() {
    let add =
        |seen: &[&str], current: &[&str], uid| patched(&addition(&meta(seen, false), OURS), current, uid);
    assert_eq!(add(&[], &[], "u"), Some(json!([OURS])));
    assert_eq!(add(&["x"], &["x"], "u"), Some(json!(["x", OURS])));
    assert_eq!(add(&[], &["x"], "u"), None);
    assert_eq!(add(&["x"], &["x", OURS], "u"), None, "a second entry would be added");
    assert_eq!(add(&["x"], &[], "u"), None);
    assert_eq!(add(&["x"], &["x"], "another"), None);
}

#[test]
fn removal_removes_every_occurrence() {
    let remove =
        |seen: &[&str], current: &[&str], uid| patched(&removal(&meta(seen, true), OURS), current, uid);
    assert_eq!(remove(&["x", OURS, "y"], &["x", OURS, "y"], "u"), Some(json!(["x", "y"])));
    assert_eq!(remove(&["x", OURS], &["x", OURS, "y"], "u"), Some(json!(["x", "y"])));
    assert_eq!(remove(&[OURS, "x", OURS], &[OURS, "x", OURS], "u"), Some(json!(["x"])));
    assert_eq!(remove(&["x", OURS], &[OURS], "u"), None);
    assert_eq!(remove(&["x", OURS], &[OURS, "x"], "u"), None);
    assert_eq!(remove(&[OURS], &[OURS], "another"), None);
}
