//! `x-kubernetes-embedded-resource`: the server validates type and metadata of embedded objects.

use serde_json::{Map, Value};

use crate::schemas::crd::schema::node::{self, Additional};
use crate::schemas::crd::schema::path::{Path, visit};
use crate::schemas::kinds::labels::labels;
use crate::status::Cause;
use crate::wire::names::is_label_1035;

/// Removes unknown metadata fields of all embedded objects. Returns their paths in sorted order.
///
/// # Errors
/// Returns the message for an invalid type or invalid metadata.
pub(crate) fn tidy(object: &mut Map<String, Value>, schema: &Value) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    tidy_map(object, schema, &mut Path::default(), &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

fn tidy_map(
    map: &mut Map<String, Value>,
    schema: &Value,
    path: &mut Path,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    for (key, value) in map {
        if node::is_embedded(schema) {
            tidy_own(key, value, path, unknown)?;
        }
        match (node::property(schema, key), node::additional(schema)) {
            (Some(property), _) => path.enter(key, |path| tidy_any(value, property, path, unknown))?,
            (None, Additional::Schema(schema)) => {
                path.enter_key(key, |path| tidy_any(value, schema, path, unknown))?;
            }
            (None, Additional::Unknown | Additional::Unspecified) => {}
        }
    }
    Ok(())
}

fn tidy_any(
    value: &mut Value,
    schema: &Value,
    path: &mut Path,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match (value, node::items(schema)) {
        (Value::Object(map), _) => tidy_map(map, schema, path, unknown),
        (Value::Array(list), Some(items)) => {
            for (index, item) in list.iter_mut().enumerate() {
                path.enter_item(index, |path| tidy_any(item, items, path, unknown))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn tidy_own(key: &str, value: &mut Value, path: &Path, unknown: &mut Vec<String>) -> Result<(), String> {
    let invalid =
        |value: &Value, cause: &str| format!("{}: Invalid value: {value}: {cause}", path.child(key));
    match key {
        "apiVersion" | "kind" if !value.is_string() => Err(invalid(value, "must be a string")),
        "metadata" => {
            let sent = value.clone();
            let found =
                crate::schemas::types::take_metadata(value).map_err(|cause| invalid(&sent, &cause))?;
            unknown.extend(found.into_iter().map(|field| path.child(&field)));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Validates type and metadata of all embedded objects.
pub(crate) fn check(object: &Value, schema: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    visit(object, schema, &mut Path::default(), &mut |value, schema, path| {
        if let (Value::Object(map), true) = (value, node::is_embedded(schema)) {
            check_own(map, path, &mut causes);
        }
    });
    causes
}

fn check_own(map: &Map<String, Value>, path: &Path, causes: &mut Vec<Cause>) {
    for key in ["apiVersion", "kind"] {
        if !map.contains_key(key) {
            causes.push(Cause::required(&path.child(key), ""));
        }
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let is_kind = |kind: &str| is_label_1035(&kind.to_lowercase());
    for (key, is_wrong) in [
        (
            "apiVersion",
            text("apiVersion").is_some_and(|text| text.is_empty() || text.matches('/').count() > 1),
        ),
        ("kind", text("kind").is_some_and(|kind| !is_kind(kind))),
    ] {
        if is_wrong {
            let shown = map.get(key).map(Value::to_string).unwrap_or_default();
            causes.push(Cause::invalid(&path.child(key), &shown, "must be a valid type"));
        }
    }
    let mut wrong = Vec::new();
    if let Some(Value::Object(metadata)) = map.get("metadata") {
        labels(metadata, &mut wrong);
    }
    causes
        .extend(wrong.into_iter().map(|cause| if path.is_root() { cause } else { cause.under(path.text()) }));
}
