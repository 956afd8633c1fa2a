//! Pruning: removes unknown fields, and returns their paths for `fieldValidation`.

use serde_json::{Map, Value};

use crate::schemas::crd::schema::node::{self, Additional};
use crate::schemas::crd::schema::path::Path;

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields of an object, except its type and metadata. Returns their paths in sorted
/// order.
pub(crate) fn prune(object: &mut Map<String, Value>, schema: &Value) -> Vec<String> {
    let (mut path, mut dropped) = (Path::default(), Vec::new());
    if node::preserves(schema) {
        keep_map(object, schema, true, &mut path, &mut dropped);
    } else {
        prune_map(object, Some(schema), true, &mut path, &mut dropped);
    }
    dropped.sort();
    dropped
}

/// Removes unknown fields of a value, such as a default.
pub(crate) fn prune_value(value: &mut Value, schema: &Value) {
    prune_any(value, Some(schema), &mut Path::default(), &mut Vec::new());
}

fn prune_any(value: &mut Value, schema: Option<&Value>, path: &mut Path, dropped: &mut Vec<String>) {
    match (value, schema) {
        (value, Some(schema)) if node::preserves(schema) => keep(value, schema, path, dropped),
        (Value::Object(map), schema) => {
            prune_map(map, schema, schema.is_some_and(node::is_embedded), path, dropped);
        }
        (Value::Array(list), schema) => {
            let items = schema.and_then(node::items);
            for (index, item) in list.iter_mut().enumerate() {
                path.enter_item(index, |path| prune_any(item, items, path, dropped));
            }
        }
        _ => {}
    }
}

fn prune_map(
    map: &mut Map<String, Value>,
    schema: Option<&Value>,
    embedded: bool,
    path: &mut Path,
    dropped: &mut Vec<String>,
) {
    map.retain(|key, value| {
        if embedded && META.contains(&key.as_str()) {
            return true;
        }
        let inner = match schema.map(|schema| (node::property(schema, key), node::additional(schema))) {
            Some((Some(property), _)) => Some(property),
            Some((None, Additional::Schema(schema))) => Some(schema),
            Some((None, Additional::Unspecified)) => None,
            Some((None, Additional::Unknown)) | None => {
                dropped.push(path.child(key));
                return false;
            }
        };
        path.enter(key, |path| prune_any(value, inner, path, dropped));
        true
    });
}

/// Keeps unknown fields, but prunes nested values that have a schema.
fn keep(value: &mut Value, schema: &Value, path: &mut Path, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => keep_map(map, schema, node::is_embedded(schema), path, dropped),
        Value::Array(list) => {
            let Some(items) = node::items(schema) else { return };
            for (index, item) in list.iter_mut().enumerate() {
                path.enter_item(index, |path| keep(item, items, path, dropped));
            }
        }
        _ => {}
    }
}

fn keep_map(
    map: &mut Map<String, Value>,
    schema: &Value,
    embedded: bool,
    path: &mut Path,
    dropped: &mut Vec<String>,
) {
    for (key, value) in map {
        if embedded && META.contains(&key.as_str()) {
            continue;
        }
        let inner = match (node::property(schema, key), node::additional(schema)) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(schema)) => Some(schema),
            (None, Additional::Unspecified) => None,
            (None, Additional::Unknown) => continue,
        };
        path.enter(key, |path| prune_any(value, inner, path, dropped));
    }
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
