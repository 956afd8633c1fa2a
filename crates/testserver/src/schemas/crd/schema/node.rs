//! Accessors for the nodes of a structural schema.

use serde_json::Value;

/// The schema of fields that are not in `properties`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Additional<'a> {
    Unknown,
    /// `additionalProperties` is `true` or `false`. The server stores the fields with any content.
    Unspecified,
    Schema(&'a Value),
}

/// Returns the schema of a field in `properties`.
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

pub(crate) fn items(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| items.is_object())
}

/// Returns the schema of a field, from `properties` or `additionalProperties`.
pub(crate) fn field<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    property(schema, name).or(match additional(schema) {
        Additional::Schema(schema) => Some(schema),
        Additional::Unknown | Additional::Unspecified => None,
    })
}

pub(crate) fn flag(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns a text of the node, or an empty text.
pub(crate) fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or("")
}

/// Returns the default. A null default counts as absent.
pub(crate) fn default(schema: &Value) -> Option<&Value> {
    schema.get("default").filter(|value| !value.is_null())
}

/// Returns a list such as `enum`, or an empty list.
pub(crate) fn list<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the texts of a list such as `required`.
pub(crate) fn texts<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    list(schema, key).iter().filter_map(Value::as_str)
}

pub(crate) fn is_embedded(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-embedded-resource")
}

pub(crate) fn preserves(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-preserve-unknown-fields")
}

/// Returns whether the node has rules (`x-kubernetes-validations`).
pub(crate) fn has_rules(schema: &Value) -> bool {
    !list(schema, "x-kubernetes-validations").is_empty()
}

/// Returns whether `predicate` returns true for any node of the schema.
pub(crate) fn any(schema: &Value, predicate: &impl Fn(&Value) -> bool) -> bool {
    predicate(schema) || below(schema).any(|(_, child)| any(child, predicate))
}

/// Returns the nodes directly below a node, with their places such as `.items`.
pub(crate) fn below(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    structure(schema).chain(alternatives(schema))
}

/// Returns the schemas of the items and fields.
pub(crate) fn structure(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    let single = ["items", "additionalProperties"].into_iter();
    let single = single.filter_map(|key| Some((format!(".{key}"), schema.get(key)?)));
    let properties = properties(schema).map(|(name, child)| (format!(".properties[{name}]"), child));
    single.chain(properties).filter(|(_, child)| child.is_object())
}

/// Returns the schemas in `not`, `allOf`, `anyOf` and `oneOf`.
pub(crate) fn alternatives(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    let not = schema.get("not").filter(|not| not.is_object()).map(|not| (".not".to_owned(), not));
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| {
        let parts = list(schema, key).iter().enumerate();
        parts.map(move |(index, part)| (format!(".{key}[{index}]"), part))
    });
    not.into_iter().chain(lists)
}
