//! Checks of the sizes of lists and objects.

use serde_json::{Map, Value};

use crate::schemas::crd::schema::node;
use crate::status::Cause;

pub(super) fn list(schema: &Value, value: &Value, name: &str, at: &str) -> Vec<Cause> {
    let Value::Array(list) = value else { return Vec::new() };
    size(schema, list.len(), ["minItems", "maxItems"], "items", name, at)
}

/// Checks the number of fields, and fields that `additionalProperties: false` forbids.
pub(super) fn object(schema: &Value, object: &Map<String, Value>, name: &str, at: &str) -> Vec<Cause> {
    let mut causes = size(schema, object.len(), ["minProperties", "maxProperties"], "properties", name, at);
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        let unknown = object.keys().filter(|key| node::property(schema, key).is_none());
        causes.extend(unknown.map(|key| {
            Cause::invalid_text(at, key, &format!("{name}.{key} in body is a forbidden property"))
        }));
    }
    causes
}

fn size(schema: &Value, size: usize, keys: [&str; 2], what: &str, name: &str, at: &str) -> Vec<Cause> {
    let [min, max] = keys.map(|key| schema.get(key).and_then(Value::as_u64));
    let mut causes = Vec::new();
    if let Some(limit) = min.filter(|limit| (size as u64) < *limit) {
        let text = format!("{name} in body should have at least {limit} {what}");
        causes.push(Cause::invalid(at, &size.to_string(), &text));
    }
    if let Some(limit) = max.filter(|limit| size as u64 > *limit) {
        causes.push(Cause::too_many(at, size, limit));
    }
    causes
}
