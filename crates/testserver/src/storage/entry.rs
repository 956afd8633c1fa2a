//! Holds one state of one object. The state consists of the bytes, which are written once, and of values
//! that are read without parsing.
//!
//! The bytes are stored as the watch frame of the change that created the state. All watchers therefore
//! send the same allocation. `Shape` holds offsets within these bytes. With the offsets, lists omit kind
//! and apiVersion, and metadata-only responses take one slice. For a delete, or a selector that no
//! longer matches, another resourceVersion is inserted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use kube_managed_fields::Managers;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::schemas::kinds::kind::Kind;
use crate::wire::selector::Labels;

/// The kind of change to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    fn head(self) -> &'static [u8] {
        match self {
            Self::Added => b"{\"type\":\"ADDED\",\"object\":",
            Self::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            Self::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        }
    }
}

const TAIL: &[u8] = b"}\n";

/// Offsets within the JSON of the object.
#[derive(Clone, Debug)]
struct Shape {
    /// The start of the first key after kind and apiVersion.
    rest: usize,
    /// The value of `metadata`.
    metadata: Range<usize>,
    /// The digits of `metadata.resourceVersion`.
    version: Range<usize>,
}

/// Values of an object that are available without parsing.
#[derive(Debug)]
pub(crate) struct Essentials {
    /// The key: `namespace/name`, or only the name.
    pub key: Arc<str>,
    pub name: Box<str>,
    pub namespace: Option<Box<str>>,
    pub uid: Box<str>,
    pub labels: Box<Labels>,
    /// The values of the selectable fields of the kind.
    pub fields: Box<[Box<str>]>,
}

/// An object before it is stored. It is complete except for its resourceVersion.
pub(crate) struct Draft {
    pub essentials: Arc<Essentials>,
    json: Vec<u8>,
    shape: Shape,
}

/// A stored state of an object.
#[derive(Debug)]
pub(crate) struct Entry {
    pub revision: u64,
    pub essentials: Arc<Essentials>,
    change: Change,
    frame: Bytes,
    shape: Shape,
    /// The parsed object, if another write of the object is likely soon (see `recent`).
    tree: Mutex<Option<Box<Parsed>>>,
    /// The results of a conversion webhook, by version.
    conversions: Mutex<BTreeMap<String, Map<String, Value>>>,
}

/// A parsed object. Its field managers are separate, because most writes share them with the state before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parsed {
    /// The object without `metadata.managedFields`.
    pub object: Map<String, Value>,
    pub managers: Managers,
}

const MANAGED_FIELDS: &str = "managedFields";

impl Parsed {
    /// Takes the field managers out of a stored object.
    pub(crate) fn new(mut object: Map<String, Value>) -> Self {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        let value = metadata.and_then(|metadata| metadata.remove(MANAGED_FIELDS));
        let managers = value.and_then(|value| Managers::from_json(&value)).unwrap_or_default();
        Self { object, managers }
    }

    pub(crate) fn whole(&self) -> Map<String, Value> {
        whole(&self.object, &self.managers)
    }
}

pub(crate) fn whole(object: &Map<String, Value>, managers: &Managers) -> Map<String, Value> {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let (Some(metadata), Some(managers)) = (metadata, managers.to_json()) {
        metadata.insert(MANAGED_FIELDS.into(), managers);
    }
    object
}

/// The order of metadata fields in kube-apiserver for built-in kinds. Custom resources sort them by name.
const METADATA_ORDER: &str = "name generateName namespace selfLink uid resourceVersion generation creationTimestamp \
                              deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences \
                              finalizers managedFields";

fn text<'a>(metadata: &'a Map<String, Value>, key: &str) -> &'a str {
    metadata.get(key).and_then(Value::as_str).unwrap_or("")
}

pub(crate) fn read_labels(metadata: &Map<String, Value>) -> Box<Labels> {
    let labels = metadata.get("labels").and_then(Value::as_object);
    let mut all: Vec<(Box<str>, Box<str>)> = labels
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str().into(), value.as_str().unwrap_or("").into()))
        .collect();
    all.sort();
    all.into()
}

fn write_pair(out: &mut Vec<u8>, key: &str, value: &Value) {
    if !matches!(out.last(), Some(b'{')) {
        out.push(b',');
    }
    write_value(out, &Value::from(key));
    out.push(b':');
    write_value(out, value);
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    // Values with string keys, written to memory, always serialise.
    let _ = serde_json::to_writer(out, value);
}

/// Writes the metadata without a resourceVersion, and returns the offset for the digits.
fn write_metadata(
    out: &mut Vec<u8>,
    metadata: &Map<String, Value>,
    managers: &Managers,
    is_custom: bool,
) -> usize {
    let separate = |key: &str| key == "resourceVersion" || key == MANAGED_FIELDS && !managers.is_empty();
    let mut keys: Vec<&str> = metadata.keys().map(String::as_str).filter(|key| !separate(key)).collect();
    keys.extend(["resourceVersion", MANAGED_FIELDS].into_iter().filter(|key| separate(key)));
    let place = |key: &str| METADATA_ORDER.split(' ').position(|known| known == key).unwrap_or(usize::MAX);
    keys.sort_by_cached_key(|key| (if is_custom { 0 } else { place(key) }, *key));
    let mut hole = 0;
    out.push(b'{');
    for key in keys {
        match metadata.get(key) {
            _ if key == MANAGED_FIELDS && separate(key) => {
                out.extend_from_slice(if out.ends_with(b"{") { b"" } else { b"," });
                out.extend_from_slice(b"\"managedFields\":");
                managers.write_json(out);
            }
            Some(value) if key != "resourceVersion" => write_pair(out, key, value),
            _ => {
                write_pair(out, key, &Value::from(""));
                hole = out.len() - 1;
            }
        }
    }
    out.push(b'}');
    hole
}

impl Draft {
    /// Serialises an object of `kind` in its storage version. Kind and apiVersion come from `kind`, not
    /// from the object.
    pub(crate) fn new(kind: &Kind, object: &Map<String, Value>) -> Self {
        Self::with_managers(kind, object, &Managers::default())
    }

    /// Serialises an object whose field managers are not part of `object`.
    pub(crate) fn with_managers(kind: &Kind, object: &Map<String, Value>, managers: &Managers) -> Self {
        let empty = Map::new();
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let name = text(metadata, "name");
        let namespace = kind.rules.namespaced.then(|| text(metadata, "namespace"));
        let essentials = Essentials {
            key: crate::storage::log::key(namespace, name),
            name: name.into(),
            namespace: namespace.map(Into::into),
            uid: text(metadata, "uid").into(),
            labels: read_labels(metadata),
            fields: kind.read_fields(object).into(),
        };
        let (json, shape) = serialise(kind, object, metadata, managers);
        Self { essentials: Arc::new(essentials), json, shape }
    }

    pub(crate) fn size(&self) -> usize {
        self.json.len()
    }

    /// Returns the object with its version, as the frame of the change that stores it.
    pub(crate) fn seal(self, change: Change, revision: u64) -> Entry {
        splice(change, revision, &revision.to_string(), self.essentials, &self.json, &self.shape)
    }

    /// Returns the object without a version, for a dry run that creates it.
    pub(crate) fn seal_unversioned(mut self) -> Entry {
        const KEY: &str = "\"resourceVersion\":\"";
        let Range { start, end } = self.shape.version;
        // The key, and the quotation mark and the comma after the value: each new object has a uid.
        self.shape.version = start - KEY.len()..end + 2;
        splice(Change::Added, 0, "", self.essentials, &self.json, &self.shape)
    }
}

fn serialise(
    kind: &Kind,
    object: &Map<String, Value>,
    metadata: &Map<String, Value>,
    managers: &Managers,
) -> (Vec<u8>, Shape) {
    let mut out = type_prefix(kind, &kind.storage_api_version());
    let rest = out.len();
    let mut keys: Vec<&str> = object.keys().map(String::as_str).collect();
    keys.retain(|key| !matches!(*key, "kind" | "apiVersion" | "metadata"));
    keys.push("metadata");
    let rank = |key: &str| match key {
        "metadata" => 0,
        "status" => 2,
        _ => 1,
    };
    keys.sort_by_key(|key| (if kind.rules.custom { 0 } else { rank(key) }, *key));
    let (mut span, mut hole) = (0..0, 0);
    for key in keys {
        if out.len() > rest {
            out.push(b',');
        }
        write_value(&mut out, &Value::from(key));
        out.push(b':');
        if key == "metadata" {
            let start = out.len();
            hole = write_metadata(&mut out, metadata, managers, kind.rules.custom);
            span = start..out.len();
        } else {
            write_value(&mut out, object.get(key).unwrap_or(&Value::Null));
        }
    }
    out.push(b'}');
    (out, Shape { rest, metadata: span, version: hole..hole })
}

/// Returns the start of an object, for example `{"kind":"Pod","apiVersion":"v1",`. Custom resources have the
/// reverse order.
pub(crate) fn type_prefix(kind: &Kind, api_version: &str) -> Vec<u8> {
    let mut parts = [format!("\"kind\":\"{}\"", kind.kind), format!("\"apiVersion\":\"{api_version}\"")];
    if kind.rules.custom {
        parts.reverse();
    }
    format!("{{{},", parts.join(",")).into_bytes()
}

fn splice(
    change: Change,
    revision: u64,
    version: &str,
    essentials: Arc<Essentials>,
    json: &[u8],
    shape: &Shape,
) -> Entry {
    let head = change.head();
    let (before, after) = (&json[..shape.version.start], &json[shape.version.end..]);
    let mut frame = Vec::with_capacity(head.len() + json.len() + version.len() + TAIL.len());
    for part in [head, before, version.as_bytes(), after, TAIL] {
        frame.extend_from_slice(part);
    }
    let shift = |at: usize| at + version.len() - shape.version.len();
    let shape = Shape {
        rest: shape.rest,
        metadata: shape.metadata.start..shift(shape.metadata.end),
        version: shape.version.start..shape.version.start + version.len(),
    };
    let frame = frame.into();
    let (tree, conversions) = Default::default();
    Entry { revision, essentials, change, frame, shape, tree, conversions }
}

impl Entry {
    /// Returns the same state with another change and revision. Used for a delete, and for an object
    /// that no longer matches a selector.
    pub(crate) fn with_change(&self, change: Change, revision: u64) -> Self {
        let entry = splice(
            change,
            revision,
            &revision.to_string(),
            self.essentials.clone(),
            self.bytes(),
            &self.shape,
        );
        entry.conversions.lock().clone_from(&self.conversions.lock());
        entry
    }

    pub(crate) fn key(&self) -> &Arc<str> {
        &self.essentials.key
    }

    fn bytes(&self) -> &[u8] {
        let head = self.change.head().len();
        self.frame.get(head..self.frame.len() - TAIL.len()).unwrap_or_default()
    }

    /// Returns the object as JSON, which shares the stored bytes.
    pub(crate) fn json(&self) -> Bytes {
        self.frame.slice(self.change.head().len()..self.frame.len() - TAIL.len())
    }

    /// Returns the JSON after kind and apiVersion. With a leading `{` it is a list item.
    pub(crate) fn rest(&self) -> &[u8] {
        self.bytes().get(self.shape.rest..).unwrap_or_default()
    }

    pub(crate) fn metadata(&self) -> &[u8] {
        self.bytes().get(self.shape.metadata.clone()).unwrap_or_default()
    }

    /// Returns the watch frame of `change` for this state. The frame is shared if this change created the
    /// state.
    pub(crate) fn frame(&self, change: Change) -> Bytes {
        if change == self.change {
            return self.frame.clone();
        }
        [change.head(), self.bytes(), TAIL].concat().into()
    }

    pub(crate) fn size(&self) -> usize {
        self.bytes().len()
    }

    /// Returns the parsed object for the next write, and removes it from the entry.
    pub(crate) fn take_object(&self) -> Parsed {
        let Some(mut parsed) = self.tree.lock().take() else { return Parsed::new(self.object()) };
        let metadata = parsed.object.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.insert("resourceVersion".into(), self.revision.to_string().into());
        }
        *parsed
    }

    /// Keeps the parsed object of this state for the next write. The object may lack its
    /// resourceVersion.
    pub(crate) fn keep_object(&self, object: Parsed) {
        *self.tree.lock() = Some(object.into());
    }

    pub(crate) fn forget_object(&self) {
        let tree = self.tree.lock().take();
        drop(tree);
    }

    /// Returns the object in another version, if a conversion webhook has converted it.
    pub(crate) fn converted(&self, version: &str) -> Option<Map<String, Value>> {
        self.conversions.lock().get(version).cloned()
    }

    pub(crate) fn keep_converted(&self, version: &str, object: Map<String, Value>) {
        self.conversions.lock().insert(version.into(), object);
    }

    #[cfg(test)]
    pub(crate) fn has_object(&self) -> bool {
        self.tree.lock().is_some()
    }

    pub(crate) fn object(&self) -> Map<String, Value> {
        // The bytes were written by `serialise` and always parse; an empty object avoids a panic.
        serde_json::from_slice(self.bytes()).unwrap_or_default()
    }
}

pub(crate) fn frame_around(change: Change, json: &[u8]) -> Bytes {
    [change.head(), json, TAIL].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(plural: &str) -> Kind {
        crate::schemas::kinds::builtin::kinds().into_iter().find(|k| k.plural == plural).unwrap()
    }

    fn pod() -> Map<String, Value> {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "n1"}, "status": {"phase": "Running"},
            "metadata": {"uid": "u", "name": "web-0", "namespace": "shop", "labels": {"b": "2", "a": "1"},
                         "resourceVersion": "7"}});
        pod.as_object().unwrap().clone()
    }

    #[test]
    fn fields_are_ordered_as_on_real_server() {
        let entry = Draft::new(&kind("pods"), &pod()).seal(Change::Added, 12);
        assert_eq!(
            entry.frame(Change::Added),
            r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","namespace":"shop","uid":"u","resourceVersion":"12","labels":{"a":"1","b":"2"}},"spec":{"nodeName":"n1"},"status":{"phase":"Running"}}}
"#
        );
        assert_eq!(entry.essentials.fields[2].as_ref(), "n1");
        assert!(entry.rest().starts_with(b"\"metadata\":{\"name\""));
    }

    #[test]
    fn spliced_version_keeps_all_offsets_valid() {
        let entry = Draft::new(&kind("pods"), &pod()).seal(Change::Added, 9);
        let deleted = entry.with_change(Change::Deleted, 1_000);
        assert_eq!(deleted.object()["metadata"]["resourceVersion"], "1000");
        let metadata: Value = serde_json::from_slice(deleted.metadata()).unwrap();
        assert_eq!(metadata["name"], "web-0");
        let back = deleted.with_change(Change::Added, 9);
        assert_eq!(back.frame(Change::Added), entry.frame(Change::Added));
    }

    #[test]
    fn dry_run_object_has_no_version() {
        let draft = Draft::new(&kind("pods"), &pod());
        let entry = draft.seal_unversioned();
        let metadata: Value = serde_json::from_slice(entry.metadata()).unwrap();
        assert_eq!(metadata.get("resourceVersion"), None);
        assert_eq!(Value::Object(entry.object())["metadata"], metadata);
    }
}
