//! PATCH: merge patch and JSON patch, with the refusals of the real server.

use bytes::Bytes;
use json_patch::{AddOperation, PatchOperation};
use serde_json::{Map, Value};

use crate::kinds::kind::Kind;
use crate::status::Status;

/// A patch, read but not yet applied.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    Merge(Map<String, Value>),
    Json(json_patch::Patch),
}

impl Patch {
    /// Reads a patch of the given media type. Strategic merge patches are taken only where they mean the same as
    /// a merge patch: where they contain no list.
    pub(crate) fn read(media_type: &str, body: &Bytes, kind: &Kind) -> Result<Self, Status> {
        match media_type {
            "application/merge-patch+json" => merge(body).map(Self::Merge),
            "application/json-patch+json" => operations(body).map(Self::Json),
            "application/strategic-merge-patch+json" if !kind.rules.custom => {
                let patch = merge(body)?;
                if patch.values().any(has_list) {
                    return Err(Status::unsupported_patch());
                }
                Ok(Self::Merge(patch))
            }
            "application/strategic-merge-patch+json" => Err(Status::unsupported_body(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(Status::unsupported_patch()),
        }
    }

    /// The object with the patch applied.
    pub(crate) fn apply(&self, object: Map<String, Value>) -> Result<Map<String, Value>, Status> {
        let mut value = Value::Object(object);
        match self {
            Self::Merge(patch) => merge_into(&mut value, patch),
            Self::Json(operations) => {
                for operation in operations.iter() {
                    let operation = as_server(operation, &value);
                    json_patch::patch(&mut value, &[operation]).map_err(|_| Status::patch_rejected())?;
                }
            }
        }
        match value {
            Value::Object(object) => Ok(object),
            _ => Err(Status::patch_rejected()),
        }
    }
}

/// The operation as the real server takes it: to replace what an object does not have is to add it.
fn as_server(operation: &PatchOperation, to: &Value) -> PatchOperation {
    let PatchOperation::Replace(replace) = operation else { return operation.clone() };
    let parent = replace.path.parent().and_then(|parent| to.pointer(parent.as_str()));
    let absent = to.pointer(replace.path.as_str()).is_none();
    if absent && parent.is_some_and(Value::is_object) {
        let (path, value) = (replace.path.clone(), replace.value.clone());
        return PatchOperation::Add(AddOperation { path, value });
    }
    operation.clone()
}

fn has_list(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(map) => map.values().any(has_list),
        _ => false,
    }
}

fn decoding(why: impl std::fmt::Display) -> Status {
    Status::bad_request(format!("error decoding patch: {why}"))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    }
}

fn merge(body: &Bytes) -> Result<Map<String, Value>, Status> {
    match serde_json::from_slice(body).map_err(decoding)? {
        Value::Object(patch) => Ok(patch),
        other => {
            let found = type_name(&other);
            let text =
                format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
            Err(decoding(text))
        }
    }
}

fn operations(body: &Bytes) -> Result<json_patch::Patch, Status> {
    let value: Value = serde_json::from_slice(body).map_err(decoding)?;
    if !value.is_array() {
        let found = type_name(&value);
        return Err(decoding(format!(
            "json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
        )));
    }
    serde_json::from_value(value).map_err(|_| Status::patch_rejected())
}

/// RFC 7386: null removes, maps merge, everything else replaces.
fn merge_into(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(inner) => merge_into(target.entry(key.as_str()).or_insert(Value::Null), inner),
            other => {
                target.insert(key.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(media_type: &str, patch: &Value) -> Result<Value, Status> {
        let kind = crate::kinds::builtin::kinds().into_iter().find(|k| k.plural == "configmaps").unwrap();
        let patch = Patch::read(media_type, &patch.to_string().into(), &kind)?;
        let object = json!({"data": {"a": "1", "b": "2"}});
        patch.apply(object.as_object().unwrap().clone()).map(Value::Object)
    }

    #[test]
    fn a_merge_patch_merges_maps_and_removes_by_null() {
        let patch = json!({"data": {"a": null, "c": "3"}, "new": {"x": {"y": null, "z": 1}}});
        let result = patched("application/merge-patch+json", &patch).unwrap();
        assert_eq!(result, json!({"data": {"b": "2", "c": "3"}, "new": {"x": {"z": 1}}}));
    }

    #[test]
    fn a_json_patch_applies_or_is_rejected_as_a_whole() {
        let good = json!([{"op": "replace", "path": "/data/a", "value": "9"}]);
        assert_eq!(patched("application/json-patch+json", &good).unwrap()["data"]["a"], "9");
        let bad = json!([{"op": "test", "path": "/data/a", "value": "nope"}]);
        assert_eq!(patched("application/json-patch+json", &bad).unwrap_err().code(), 422);
        let message = patched("application/json-patch+json", &json!({})).unwrap_err().message().to_owned();
        assert_eq!(
            message,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
    }

    #[test]
    fn a_patch_of_unknown_type_is_unsupported() {
        assert_eq!(patched("application/json", &json!({})).unwrap_err().code(), 415);
    }
}
