//! Pruning: removes unknown fields, and returns their paths for `fieldValidation`.

use serde_json::{Map, Value};

use crate::schemas::crd::schema::node::{self, Additional};
use crate::schemas::crd::schema::path::Path;

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields of an object, except its type and metadata. Returns their paths in sorted
/// order.
pub(crate) fn prune(object: &mut Map<String, Value>, schema: &Value) -> Vec<String> {
    let mut dropped = Vec::new();
    fields(object, Some(schema), node::preserves(schema), true, &Path::default(), &mut dropped);
    dropped.sort();
    dropped
}

/// Removes unknown fields of a value, such as a default.
pub(crate) fn prune_value(value: &mut Value, schema: &Value) {
    any(value, Some(schema), false, &Path::default(), &mut Vec::new());
}

/// Prunes a value. If `keeps` is true, or if the schema preserves unknown fields, only the values that
/// have a schema are pruned.
fn any(value: &mut Value, schema: Option<&Value>, keeps: bool, path: &Path, dropped: &mut Vec<String>) {
    let keeps = keeps || schema.is_some_and(node::preserves);
    match value {
        Value::Object(map) => {
            fields(map, schema, keeps, schema.is_some_and(node::is_embedded), path, dropped);
        }
        Value::Array(list) => {
            let items = schema.and_then(node::items);
            for (index, item) in list.iter_mut().enumerate() {
                any(item, items, keeps, &path.item(index), dropped);
            }
        }
        _ => {}
    }
}

/// Prunes the fields of an object. A resource also has its type and metadata.
fn fields(
    map: &mut Map<String, Value>,
    schema: Option<&Value>,
    keeps: bool,
    is_resource: bool,
    path: &Path,
    dropped: &mut Vec<String>,
) {
    map.retain(|key, value| {
        if is_resource && META.contains(&key.as_str()) {
            return true;
        }
        let inner = match schema.map(|schema| (node::property(schema, key), node::additional(schema))) {
            Some((Some(property), _)) => Some(property),
            Some((None, Additional::Schema(schema))) => Some(schema),
            Some((None, Additional::Unspecified)) => None,
            Some((None, Additional::Unknown)) | None => {
                if !keeps {
                    dropped.push(path.field(key).text().to_owned());
                }
                return keeps;
            }
        };
        any(value, inner, false, &path.field(key), dropped);
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pruned(schema: &Value, mut object: Value) -> (Value, Vec<String>) {
        let dropped = prune(object.as_object_mut().unwrap(), schema);
        (object, dropped)
    }

    #[test]
    fn unknown_fields_are_removed_and_returned_in_order() {
        let schema = json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
        }});
        let object = json!({"kind": "K", "apiVersion": "g/v1", "metadata": {"name": "x"}, "zz": 1,
            "list": [{"a": 1, "b": 2}, 5], "map": {"k": {"l": 1}}});
        let (object, dropped) = pruned(&schema, object);
        assert_eq!(dropped, ["list[0].b", "map.k.l", "zz"]);
        assert_eq!(
            object,
            json!({"kind": "K", "apiVersion": "g/v1", "metadata": {"name": "x"}, "list": [{"a": 1}, 5],
                   "map": {"k": {}}})
        );
    }

    #[test]
    fn preserved_fields_stay_unless_they_have_a_schema() {
        let schema = json!({"type": "object", "properties": {"free": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        }}});
        let (object, dropped) = pruned(&schema, json!({"free": {"x": {"y": 1}, "known": {"a": 1, "b": 2}}}));
        assert_eq!(object, json!({"free": {"x": {"y": 1}, "known": {"a": 1}}}));
        assert_eq!(dropped, ["free.known.b"]);
    }

    #[test]
    fn embedded_resource_keeps_type_and_metadata() {
        let schema = json!({"type": "object", "properties": {"inner": {
            "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "string"}},
        }}});
        let inner = json!({"kind": "K", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": "s"});
        let mut sent = inner.clone();
        sent["status"] = json!({});
        assert_eq!(pruned(&schema, json!({"inner": sent})).0, json!({"inner": inner}));
    }
}
