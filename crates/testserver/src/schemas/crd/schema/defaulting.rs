//! Defaults of a structural schema. Nulls that the schema does not allow count as absent.

use serde_json::{Map, Value};

use crate::schemas::crd::schema::node;

/// Removes nulls of fields that are not nullable, unless the field has a default.
pub(crate) fn drop_nulls(map: &mut Map<String, Value>, schema: &Value) {
    map.retain(|key, value| {
        let inner = node::field(schema, key);
        let absent = |schema| value.is_null() && is_never_null(schema) && node::default(schema).is_none();
        if inner.is_some_and(absent) {
            return false;
        }
        inner.inspect(|schema| drop_nulls_in(value, schema));
        true
    });
}

fn drop_nulls_in(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => drop_nulls(map, schema),
        Value::Array(list) => {
            let Some(items) = node::items(schema) else { return };
            list.iter_mut().for_each(|item| drop_nulls_in(item, items));
        }
        _ => {}
    }
}

fn is_never_null(schema: &Value) -> bool {
    !node::flag(schema, "nullable")
}

/// Adds the defaults of absent fields, and of null fields that are not nullable.
pub(crate) fn fill(map: &mut Map<String, Value>, schema: &Value) {
    for (name, property) in node::properties(schema) {
        let Some(default) = node::default(property) else { continue };
        let found = map.get(name);
        if found.is_none_or(|value| value.is_null() && is_never_null(property)) {
            map.insert(name.clone(), default.clone());
        }
    }
    for (key, value) in map {
        if let Some(property) = node::property(schema, key) {
            fill_in(value, property);
        } else if let Some(additional) = node::field(schema, key) {
            replace_null(value, additional);
            fill_in(value, additional);
        }
    }
}

fn fill_in(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => fill(map, schema),
        Value::Array(list) => {
            let Some(items) = node::items(schema) else { return };
            for item in list {
                replace_null(item, items);
                fill_in(item, items);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Value) {
    if let Some(default) = node::default(schema).filter(|_| value.is_null() && is_never_null(schema)) {
        *value = default.clone();
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
