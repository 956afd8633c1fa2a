//! The objects of the workload: instances of a CRD.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::properties::Key;

/// The namespaces of the objects.
pub(super) const NAMESPACES: [&str; 2] = ["blue", "red"];
/// The names of the objects.
pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// The number of keys.
pub(super) const KEYS: u32 = 8;
pub(super) const API: &str = "sim.test/v1";
pub(super) const KIND: &str = "Thing";
pub(super) const PLURAL: &str = "things";
/// The CRD's own place.
pub(super) const CRD: (&str, &str, &str) =
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.sim.test");

/// The annotation with the number of the write that an object is from.
pub(super) const WRITE: &str = "write";
/// The annotation of an object that no cache can decode.
pub(super) const BAD: &str = "bad";

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(
    group = "sim.test",
    version = "v1",
    kind = "Thing",
    namespaced,
    status = "ThingStatus",
    schema = "disabled"
)]
pub(super) struct ThingSpec {
    /// The number of the write; text in an object that can't be decoded.
    write: u64,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct ThingStatus {
    /// The number of its last write.
    pub(super) write: u64,
}

pub(super) fn crd() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}
    });
    json!({
        "apiVersion": CRD.0, "kind": CRD.1, "metadata": {"name": CRD.2},
        "spec": {
            "group": "sim.test", "scope": "Namespaced", "names": {"plural": PLURAL, "kind": KIND},
            "versions": [version]
        }
    })
}

/// Returns the body of a write, as a merge patch or as a new object.
pub(super) fn body(write: u64, bad: bool, labelled: bool) -> Value {
    let spec = if bad { json!("not a number") } else { json!(write) };
    let bad = if bad { json!("yes") } else { Value::Null };
    let label = if labelled { json!("yes") } else { json!("no") };
    json!({
        "metadata": {"annotations": {WRITE: write.to_string(), BAD: bad}, "labels": {"on": label}},
        "spec": {"write": spec}
    })
}

/// Namespace and name of a key. Numbers have the order of keys.
pub(super) fn place(key: Key) -> (&'static str, &'static str) {
    let (namespace, name) = (key as usize / NAMES.len(), key as usize % NAMES.len());
    (NAMESPACES[namespace], NAMES[name])
}

/// The number of a key.
pub(super) fn number(namespace: Option<&str>, name: &str) -> Key {
    let key = (0..KEYS).find(|key| Some(place(*key).0) == namespace && place(*key).1 == name);
    key.unwrap_or(KEYS)
}

/// Returns a number that is unique among the states of an object. A deletion mark is a separate state
/// without a write. After a restore, the same version can be marked again, so the number contains the
/// second of the mark.
pub(super) fn value(write: u64, deleted: Option<&Time>) -> u64 {
    let second = deleted.map_or(0, |time| time.0.as_second().rem_euclid(DAY));
    write + second.unsigned_abs() * 1_000_000
}

const DAY: i64 = 24 * 3600;

/// One state of an object, as the server returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) uid: String,
    pub(super) version: u64,
    /// The number of the last write of the object without its status.
    pub(super) write: u64,
    /// The number of the last write of the status.
    pub(super) status: u64,
    pub(super) labelled: bool,
    pub(super) bad: bool,
    pub(super) held: bool,
    pub(super) deleted: Option<Time>,
}

impl State {
    pub(super) fn read(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            uid: text(&metadata["uid"]),
            version: text(&metadata["resourceVersion"]).parse().unwrap_or(0),
            write: text(&metadata["annotations"][WRITE]).parse().unwrap_or(0),
            status: object["status"]["write"].as_u64().unwrap_or(0),
            labelled: metadata["labels"]["on"] == "yes",
            bad: metadata["annotations"][BAD] == "yes",
            held: metadata["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()),
            deleted: serde_json::from_value(metadata["deletionTimestamp"].clone()).ok(),
        }
    }
}
