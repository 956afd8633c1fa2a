//! Defaults of a structural schema. Nulls that the schema does not allow count as absent.

use serde_json::{Map, Value};

use crate::schemas::crd::schema::node;

/// Removes nulls of fields that are not nullable, unless the field has a default.
pub(crate) fn drop_nulls(map: &mut Map<String, Value>, schema: &Value) {
    map.retain(|key, value| {
        let Some(inner) = node::field(schema, key) else { return true };
        below(value, inner, drop_nulls);
        !is_forbidden_null(value, inner) || node::default(inner).is_some()
    });
}

/// Adds the defaults of absent fields, and of null fields that are not nullable.
pub(crate) fn fill(map: &mut Map<String, Value>, schema: &Value) {
    for (name, property) in node::properties(schema) {
        if let Some(default) = node::default(property).filter(|_| !map.contains_key(name)) {
            map.insert(name.clone(), default.clone());
        }
    }
    for (key, value) in map {
        let Some(inner) = node::field(schema, key) else { continue };
        if let Some(default) = node::default(inner).filter(|_| is_forbidden_null(value, inner)) {
            *value = default.clone();
        }
        below(value, inner, fill);
    }
}

fn is_forbidden_null(value: &Value, schema: &Value) -> bool {
    value.is_null() && !node::flag(schema, "nullable")
}

/// Applies a function to an object, or to the objects in a list.
fn below(value: &mut Value, schema: &Value, each: fn(&mut Map<String, Value>, &Value)) {
    match (value, node::items(schema)) {
        (Value::Object(map), _) => each(map, schema),
        (Value::Array(list), Some(items)) => list.iter_mut().for_each(|item| below(item, items, each)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filled(mut object: Value) -> Value {
        let schema = json!({"type": "object", "properties": {
            "plain": {"type": "string"},
            "size": {"type": "integer", "default": 3},
            "maybe": {"type": "string", "nullable": true, "default": "x"},
            "inner": {"type": "object", "default": {}, "properties": {"deep": {"type": "integer", "default": 1}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"on": {"type": "boolean", "default": true}}}},
        }});
        let map = object.as_object_mut().unwrap();
        drop_nulls(map, &schema);
        fill(map, &schema);
        object
    }

    #[test]
    fn defaults_apply_inside_of_defaults_and_lists() {
        assert_eq!(
            filled(json!({"list": [{}]})),
            json!({"size": 3, "maybe": "x", "inner": {"deep": 1}, "list": [{"on": true}]})
        );
        assert_eq!(filled(json!({"size": 5, "inner": {"deep": 2}}))["inner"], json!({"deep": 2}));
    }

    #[test]
    fn nulls_are_removed_defaulted_or_kept() {
        let filled = filled(json!({"plain": null, "size": null, "maybe": null}));
        assert_eq!(filled, json!({"size": 3, "maybe": null, "inner": {"deep": 1}}));
    }
}
