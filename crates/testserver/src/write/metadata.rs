//! Validation of metadata for all kinds: names, labels, annotations, owners and finalizers.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::schemas::kinds::kind::Kind;
use crate::schemas::kinds::labels::labels;
use crate::status::{Cause, Status};
use crate::storage::entry::Draft;
use crate::wire::object::Object;
use crate::wire::object::meta;
use crate::wire::object::{FOREGROUND, ORPHAN};
use crate::wire::qualified::name_complaints;

/// The maximum size of all keys and values of annotations together, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
const PLAIN_FINALIZERS: [&str; 3] = ["kubernetes", ORPHAN, FOREGROUND];

/// The maximum size of a request to etcd, in bytes.
const REQUEST_LIMIT: usize = 1536 * 1024;

/// Rejects an object that is too large for the storage of the real server, which counts slightly
/// differently.
pub(crate) fn check_size(draft: &Draft) -> Result<(), Status> {
    if draft.size() > REQUEST_LIMIT {
        return Err(Status::internal("etcdserver: request is too large"));
    }
    Ok(())
}

/// Validates the metadata of a new object, including the name by the rule of the kind.
pub(crate) fn check_new(kind: &Kind, object: &Object) -> Result<(), Status> {
    let (name, base) = (meta(object, "name"), meta(object, "generateName"));
    let rule = kind.rules.names;
    let mut causes = Vec::new();
    let invalid = |field: &str, text: &str, detail: String| Cause::invalid_text(field, text, &detail);
    if !base.is_empty() {
        let complaints = rule.prefix_complaints(base).into_iter();
        causes.extend(complaints.map(|detail| invalid("metadata.generateName", base, detail)));
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        causes.extend(rule.complaints(name).into_iter().map(|detail| invalid("metadata.name", name, detail)));
    }
    causes.extend(self::causes(object));
    refuse(kind, name, causes)
}

/// Validates the metadata of an object that replaces an older state.
pub(crate) fn check(kind: &Kind, object: &Object) -> Result<(), Status> {
    refuse(kind, meta(object, "name"), causes(object))
}

fn refuse(kind: &Kind, name: &str, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid(kind.named_kind(), name, causes)) }
}

fn causes(object: &Object) -> Vec<Cause> {
    let empty = Map::new();
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut causes = Vec::new();
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|n| *n < 0) {
        let detail = "must be greater than or equal to 0";
        causes.push(Cause::invalid("metadata.generation", &generation.to_string(), detail));
    }
    labels(metadata, &mut causes);
    annotations(metadata, &mut causes);
    owners(metadata, &mut causes);
    finalizers(metadata, &mut causes);
    causes
}

/// Checks annotations: keys are qualified names in upper or lower case, and values are limited in size
/// only.
fn annotations(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let field = "metadata.annotations";
    let mut size = 0;
    for (key, value) in metadata.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        let complaints = name_complaints(&key.to_lowercase());
        causes.extend(complaints.iter().map(|detail| Cause::invalid_text(field, key, detail)));
    }
    if size > ANNOTATIONS_LIMIT {
        causes.push(Cause::too_long(field, ANNOTATIONS_LIMIT as u64));
    }
}

fn owners(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    let owners: &[Value] = owners.map_or(&[], Vec::as_slice);
    let mut controller: Option<&Value> = None;
    for owner in owners {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or("");
        let (version, kind) = (text("apiVersion"), text("kind"));
        if version.is_empty() || version.matches('/').count() > 1 || version.ends_with('/') {
            let field = "metadata.ownerReferences.apiVersion";
            causes.push(Cause::invalid_text(field, version, "version must not be empty"));
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                let field = format!("metadata.ownerReferences.{key}");
                causes.push(Cause::invalid(&field, "\"\"", "must not be empty"));
            }
        }
        if (version, kind) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid("metadata.ownerReferences", &owner.to_string(), detail));
        }
        if owner.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        match controller {
            Some(first) if first.get("uid") != owner.get("uid") => {
                let detail = "Only one reference can have Controller set to true";
                let shown = Value::from(owners).to_string();
                causes.push(Cause::invalid("metadata.ownerReferences", &shown, detail));
            }
            Some(_) => {}
            None => controller = Some(owner),
        }
    }
}

fn finalizers(metadata: &Map<String, Value>, causes: &mut Vec<Cause>) {
    let list = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten();
    let all: Vec<&str> = list.filter_map(Value::as_str).collect();
    for (place, finalizer) in all.iter().enumerate() {
        let shown = format!("{finalizer:?}");
        let complaints = name_complaints(finalizer);
        causes.extend(complaints.iter().map(|detail| Cause::invalid("metadata.finalizers", &shown, detail)));
        if !finalizer.contains('/') && !PLAIN_FINALIZERS.contains(finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(&format!("metadata.finalizers[{place}]"), &shown, detail));
        }
    }
    if all.contains(&ORPHAN) && all.contains(&FOREGROUND) {
        let shown = serde_json::json!(all).to_string();
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        causes.push(Cause::invalid("metadata.finalizers", &shown, &detail));
    }
}

pub(crate) fn unique_owners(metadata: &mut Map<String, Value>) {
    let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else { return };
    let mut known = HashSet::new();
    owners.retain(|owner| known.insert(owner.to_string()));
    if owners.is_empty() {
        metadata.remove("ownerReferences");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(metadata: &Value) -> String {
        let kind =
            crate::schemas::kinds::builtin::kinds().into_iter().find(|k| k.plural == "configmaps").unwrap();
        let object = json!({"metadata": metadata}).as_object().unwrap().clone();
        match check_new(&kind, &object) {
            Ok(()) => String::new(),
            Err(status) => status.message().replace("ConfigMap \"a\" is invalid: ", ""),
        }
    }

    #[test]
    fn owners_need_all_fields_and_one_controller() {
        let owner =
            |uid: &str| json!({"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid, "controller": true});
        assert_eq!(refused(&json!({"name": "a", "ownerReferences": [owner("1"), owner("1")]})), "");
        assert!(
            refused(&json!({"name": "a", "ownerReferences": [owner("1"), owner("2")]}))
                .ends_with("Only one reference can have Controller set to true")
        );
        assert_eq!(
            refused(&json!({"name": "a", "ownerReferences": [{}]})).matches("must not be empty").count(),
            4
        );
    }

    #[test]
    fn finalizers_must_be_qualified_or_standard() {
        assert_eq!(refused(&json!({"name": "a", "finalizers": ["x.test/f", "orphan", "kubernetes"]})), "");
        assert_eq!(
            refused(&json!({"name": "a", "finalizers": ["bad"]})),
            "metadata.finalizers[0]: Invalid value: \"bad\": name is neither a standard finalizer name nor is it fully \
             qualified"
        );
        assert_eq!(
            refused(&json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]})),
            "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
             foregroundDeletion cannot be both set"
        );
    }

    #[test]
    fn total_annotation_size_is_limited() {
        let with = |bytes: usize| json!({"name": "a", "annotations": {"A": "x".repeat(bytes)}});
        assert_eq!(refused(&with(ANNOTATIONS_LIMIT - 1)), "");
        assert_eq!(
            refused(&with(ANNOTATIONS_LIMIT)),
            "metadata.annotations: Too long: may not be more than 262144 bytes"
        );
    }
}
