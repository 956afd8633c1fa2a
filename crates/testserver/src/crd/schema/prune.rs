//! Pruning: fields that the schema does not know are dropped, and named for `fieldValidation`.

use serde_json::{Map, Value};

use crate::crd::schema::path::Path;
use crate::crd::schema::shape::{self, Additional};

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops what `schema` does not know of an object, but for its type and metadata; gives the dropped paths, sorted.
pub(crate) fn prune(object: &mut Map<String, Value>, schema: &Value) -> Vec<String> {
    let (mut path, mut dropped) = (Path::default(), Vec::new());
    if shape::preserves(schema) {
        keep_map(object, schema, true, &mut path, &mut dropped);
    } else {
        prune_map(object, Some(schema), true, &mut path, &mut dropped);
    }
    dropped.sort();
    dropped
}

/// Drops what `schema` does not know of a value that is no object of the API, such as a default.
pub(crate) fn prune_value(value: &mut Value, schema: &Value) {
    prune_any(value, Some(schema), &mut Path::default(), &mut Vec::new());
}

fn prune_any(value: &mut Value, schema: Option<&Value>, path: &mut Path, dropped: &mut Vec<String>) {
    match (value, schema) {
        (value, Some(schema)) if shape::preserves(schema) => keep(value, schema, path, dropped),
        (Value::Object(map), schema) => {
            prune_map(map, schema, schema.is_some_and(shape::is_embedded), path, dropped);
        }
        (Value::Array(list), schema) => {
            let items = schema.and_then(shape::items);
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
        let inner = match schema.map(|schema| (shape::property(schema, key), shape::additional(schema))) {
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

/// What is preserved is only looked through for parts that have a schema of their own.
fn keep(value: &mut Value, schema: &Value, path: &mut Path, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => keep_map(map, schema, shape::is_embedded(schema), path, dropped),
        Value::Array(list) => {
            let Some(items) = shape::items(schema) else { return };
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
        let inner = match (shape::property(schema, key), shape::additional(schema)) {
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
    fn unknown_fields_go_and_are_named_in_order() {
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
    fn preserved_parts_stay_but_for_what_has_a_schema() {
        let schema = json!({"type": "object", "properties": {"free": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        }}});
        let (object, dropped) = pruned(&schema, json!({"free": {"x": {"y": 1}, "known": {"a": 1, "b": 2}}}));
        assert_eq!(object, json!({"free": {"x": {"y": 1}, "known": {"a": 1}}}));
        assert_eq!(dropped, ["free.known.b"]);
    }

    #[test]
    fn an_embedded_resource_keeps_its_type_and_metadata() {
        let schema = json!({"type": "object", "properties": {"inner": {
            "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "string"}},
        }}});
        let inner = json!({"kind": "K", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": "s"});
        let mut sent = inner.clone();
        sent["status"] = json!({});
        assert_eq!(pruned(&schema, json!({"inner": sent})).0, json!({"inner": inner}));
    }
}
