//! `AppliedObjects`: what an `Applier` applied, in this process and in earlier processes.
//!
//! This process remembers its own applies. For earlier processes, each applied object has an annotation
//! with a digest of the applied fields, without their values.

use std::collections::HashMap;

use kube_client::core::ObjectMeta;
use kube_informer::ObjectKey;
use serde_json::{Map, Value};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::{records::ObjectRecords, requests::ObjectPart};

/// The prefix of the annotation with the digest of the applied fields.
const ANNOTATION: &str = "kube-operator/applied-fields.";

/// A name of an annotation has at most this number of bytes after the `/`.
const MAX_ANNOTATION_NAME: usize = 63;

/// The last applies of all objects, by their type.
#[derive(Debug, Default)]
pub(super) struct AppliedObjects {
    types: HashMap<(String, ObjectPart), ObjectRecords<ObjectKey, LastApply>>,
}

/// Identifies an object, or the status of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ApplyTarget {
    /// The URL of the collection in all namespaces.
    url: String,
    part: ObjectPart,
    key: ObjectKey,
}

impl ApplyTarget {
    /// `url` is the URL of the collection, which can contain the namespace of the key.
    pub(super) fn new(url: &str, part: ObjectPart, key: &ObjectKey) -> Self {
        let namespace = key.namespace().map(|namespace| format!("/namespaces/{namespace}/"));
        let url = namespace.map_or_else(|| url.to_owned(), |segment| url.replacen(&segment, "/", 1));
        Self { url, part, key: key.clone() }
    }
}

/// The last apply of an object by this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LastApply {
    /// The server did not respond, so the applied fields are unknown.
    Unknown,
    Succeeded(Applied),
}

/// A successful apply, and the resulting object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    /// A hash of the applied JSON.
    pub(super) digest: u64,
    pub(super) uid: Option<String>,
    /// At this resourceVersion, the object contains the applied fields.
    pub(super) resource_version: Option<String>,
}

impl Applied {
    pub(super) fn new(digest: u64, object: &ObjectMeta) -> Self {
        Self { digest, uid: object.uid.clone(), resource_version: object.resource_version.clone() }
    }
}

impl AppliedObjects {
    pub(super) fn get(&self, ApplyTarget { url, part, key }: ApplyTarget) -> Option<LastApply> {
        self.types.get(&(url, part))?.get(&key).cloned()
    }

    /// Records an apply. `exists` returns whether the object with a key exists.
    pub(super) fn insert(
        &mut self,
        ApplyTarget { url, part, key }: ApplyTarget,
        apply: LastApply,
        exists: impl Fn(&ObjectKey) -> bool,
    ) {
        self.types.entry((url, part)).or_default().insert(key, apply, exists);
    }
}

/// Adds the annotation with the digest of all fields of `requested`. Two objects with the same fields
/// and other values have the same digest, so that the annotation reveals nothing about the values.
///
/// Returns false if `requested` has no valid metadata. The server then rejects it.
pub(super) fn annotate(requested: &mut Value, manager: &str) -> bool {
    let digest = fields_digest(manager, requested);
    let Some(metadata) = requested.get_mut("metadata").and_then(Value::as_object_mut) else { return false };
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = Value::Object(Map::new());
    }
    let Some(annotations) = annotations.as_object_mut() else { return false };
    annotations.insert(annotation(manager), digest.into());
    true
}

/// Returns the name of the annotation of this field manager.
fn annotation(manager: &str) -> String {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let prefix = ANNOTATION.split_once('/').map_or(ANNOTATION, |(_, name)| name);
    let fits = prefix.len() + manager.len() <= MAX_ANNOTATION_NAME;
    let ends_well = manager.ends_with(|c: char| c.is_ascii_alphanumeric());
    if fits && ends_well && manager.chars().all(is_valid) {
        return format!("{ANNOTATION}{manager}");
    }
    // Other managers need an unambiguous name, too.
    format!("{ANNOTATION}{:016x}", hash(|hasher| hash_text(hasher, manager)) as u64)
}

/// Returns a digest that does not change between processes and versions.
fn fields_digest(manager: &str, requested: &Value) -> String {
    let digest = hash(|hasher| {
        hash_text(hasher, manager);
        hash_fields(hasher, requested);
    });
    format!("{digest:032x}")
}

fn hash(write: impl FnOnce(&mut SipHasher13)) -> u128 {
    let mut hasher = SipHasher13::new();
    write(&mut hasher);
    hasher.finish128().as_u128()
}

/// Hashes the names of all fields and the lengths of all lists, but no values. The objects must be
/// sorted.
fn hash_fields(hasher: &mut SipHasher13, value: &Value) {
    use std::hash::Hasher as _;

    match value {
        Value::Object(fields) => {
            hasher.write(b"{");
            for (name, value) in fields {
                hash_text(hasher, name);
                hash_fields(hasher, value);
            }
            hasher.write(b"}");
        }
        Value::Array(items) => {
            hasher.write(b"[");
            items.iter().for_each(|item| hash_fields(hasher, item));
            hasher.write(b"]");
        }
        Value::Null => hasher.write(b"0"),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => hasher.write(b"1"),
    }
}

/// Hashes a text with its length, so that different sequences of texts have different hashes.
fn hash_text(hasher: &mut SipHasher13, text: &str) {
    use std::hash::Hasher as _;

    hasher.write(&(text.len() as u64).to_le_bytes());
    hasher.write(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn annotations(mut requested: Value, manager: &str) -> Value {
        requested.sort_all_objects();
        assert!(annotate(&mut requested, manager));
        requested["metadata"]["annotations"].take()
    }

    #[test]
    fn annotation_depends_on_fields_and_manager_and_not_on_values() {
        let object = |data: Value| json!({"metadata": {"name": "a"}, "data": data});
        let first = annotations(object(json!({"password": "hunter2"})), "shop");
        assert_eq!(first, annotations(object(json!({"password": "12345"})), "shop"));
        // Written by an earlier version. A change would send an apply for each object after an update.
        assert_eq!(first, json!({"kube-operator/applied-fields.shop": "ef310377dbe69aadc2d3efc4d5a02514"}));
        for other in [
            annotations(object(json!({"password": "hunter2", "user": "a"})), "shop"),
            annotations(object(json!({"passwor": {"d": "hunter2"}})), "shop"),
            annotations(object(json!({"password": ["hunter2"]})), "shop"),
            annotations(object(json!({"password": null})), "shop"),
            annotations(object(json!({"password": "hunter2"})), "bank"),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn annotation_has_a_valid_name_for_each_manager() {
        for (manager, name) in [
            ("shop", "kube-operator/applied-fields.shop"),
            ("example.com/shop", "kube-operator/applied-fields.eb8abb5695a1fcc3"),
            ("shop-", "kube-operator/applied-fields.81e321314344d152"),
        ] {
            assert_eq!(annotation(manager), name);
        }
        let long = annotation(&"x".repeat(200));
        assert!(long.split_once('/').is_some_and(|(_, name)| name.len() <= MAX_ANNOTATION_NAME), "{long}");
    }

    #[test]
    fn records_of_all_namespaces_share_a_table() {
        let key = ObjectKey::new(Some("shop"), "a");
        let target = ApplyTarget::new("/api/v1/namespaces/shop/configmaps", ObjectPart::Main, &key);
        assert_eq!(target.url, "/api/v1/configmaps");
        let cluster = ObjectKey::new(None, "shop");
        assert_eq!(
            ApplyTarget::new("/api/v1/namespaces", ObjectPart::Main, &cluster).url,
            "/api/v1/namespaces"
        );
        let mut applied = AppliedObjects::default();
        for number in 0..100_000 {
            let key = ObjectKey::new(Some(&format!("preview-{number}")), "a");
            let url = format!("/api/v1/namespaces/preview-{number}/configmaps");
            let target = ApplyTarget::new(&url, ObjectPart::Main, &key);
            applied.insert(target, LastApply::Unknown, |_| false);
        }
        assert_eq!(applied.types.len(), 1);
        assert!(format!("{applied:?}").matches("Unknown").count() <= 2048, "no object exists");
    }

    #[test]
    fn invalid_metadata_is_left_to_the_server() {
        for mut requested in [json!({}), json!({"metadata": 1}), json!({"metadata": {"annotations": "x"}})] {
            assert!(!annotate(&mut requested, "shop"), "{requested}");
        }
        assert!(annotations(json!({"metadata": {"annotations": null}}), "shop").is_object());
    }
}
