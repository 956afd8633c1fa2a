//! Values of objects: fields, conditions, labels and selectors as text.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the text at a pointer, or an empty text.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// Returns the integer at a pointer, or 0.
pub(super) fn int(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns the items of the list at a pointer.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions").iter().find(|condition| condition["type"] == kind)
}

/// Returns a text without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns labels in the form `a=b,c=d`.
pub(super) fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten().map(|(key, value)| (key, plain(value)));
    let sorted: BTreeSet<_> = pairs.collect();
    sorted.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

pub(super) fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

/// Joins the texts that are not empty.
pub(super) fn joined<const N: usize>(parts: [&str; N], separator: &str) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(separator)
}

/// Returns a name, marked if an annotation declares the object as the default.
pub(super) fn default_name(object: &Value, annotation: &str) -> String {
    let name = text(object, "/metadata/name");
    let is_default = object["metadata"]["annotations"][annotation] == "true";
    if is_default { format!("{name} (default)") } else { name.to_owned() }
}

/// Returns the first three items, and the number of the others.
pub(super) fn first_three(all: &[String]) -> String {
    let shown: Vec<&str> = all.iter().take(3).map(String::as_str).collect();
    match all.len().saturating_sub(3) {
        0 => shown.join(","),
        more => format!("{} + {more} more...", shown.join(",")),
    }
}
