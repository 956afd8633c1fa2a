//! How a structural schema is read: the few questions that pruning, defaulting and validation ask of a node.

use serde_json::Value;

/// What a schema says of fields that it does not name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Additional<'a> {
    /// Nothing: they are unknown.
    Unknown,
    /// `true` or `false`: they stay, and nothing is known about their content.
    Unspecified,
    Schema(&'a Value),
}

/// The schema of a named field.
pub(crate) fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

pub(crate) fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

pub(crate) fn additional(schema: &Value) -> Additional<'_> {
    match schema.get("additionalProperties") {
        None | Some(Value::Null) => Additional::Unknown,
        Some(Value::Bool(_)) => Additional::Unspecified,
        Some(schema) => Additional::Schema(schema),
    }
}

/// The schema of a list's items.
pub(crate) fn items(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| items.is_object())
}

/// The schema of a field, named or not.
pub(crate) fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    property(schema, name).or(match additional(schema) {
        Additional::Schema(schema) => Some(schema),
        Additional::Unknown | Additional::Unspecified => None,
    })
}

pub(crate) fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// A text of the node; empty if absent.
pub(crate) fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or("")
}

/// The default, which is never null.
pub(crate) fn default(schema: &Value) -> Option<&Value> {
    schema.get("default").filter(|value| !value.is_null())
}

/// The texts of a list such as `required`.
pub(crate) fn texts<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

pub(crate) fn is_embedded(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-embedded-resource")
}

pub(crate) fn preserves(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-preserve-unknown-fields")
}

/// Whether any node of the schema is one that `picks` picks.
pub(crate) fn any(schema: &Value, picks: &impl Fn(&Value) -> bool) -> bool {
    picks(schema) || children(schema).any(|child| any(child, picks))
}

fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists =
        ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
    let single = ["not", "items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key));
    properties(schema).map(|(_, child)| child).chain(lists).chain(single)
}
