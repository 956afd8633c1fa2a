//! JSON objects and request bodies: access to their common parts.

use http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

/// Keeps an object until its dependents are removed.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until its dependents no longer have an owner reference to the object.
pub(crate) const ORPHAN: &str = "orphan";

/// Returns the media type of the body without parameters; empty if there is none.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    value.split(';').next().unwrap_or("").trim()
}

/// Parses JSON. The error is the message of serde_json, which differs from Go's.
pub(crate) fn parse_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    // A check of the whole text is faster than a check of each string.
    let parsed = match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(json),
    };
    parsed.map_err(|error| error.to_string())
}

/// Returns the start of a body as it appears in messages.
pub(crate) fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(30).collect()
}

/// Returns the type name of a value in messages of the real server.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    }
}

/// Returns the metadata of the object, which is created if it does not exist.
pub(crate) fn metadata_mut(object: &mut Map<String, Value>) -> &mut Map<String, Value> {
    section_mut(object, "metadata")
}

/// Returns a section of the object, which is created if it does not exist.
pub(crate) fn section_mut<'a>(object: &'a mut Object, key: &str) -> &'a mut Object {
    let slot = object.entry(key).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(section) => section,
        _ => unreachable!("the line above made it an object"),
    }
}

pub(crate) fn meta<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(key)).and_then(Value::as_str).unwrap_or("")
}

pub(crate) fn finalizers(object: &Map<String, Value>) -> Vec<&str> {
    let list = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
