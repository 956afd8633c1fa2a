//! `x-kubernetes-embedded-resource`: the server validates type and metadata of embedded objects.

use serde_json::{Map, Value};

use crate::schemas::crd::schema::node::{self, Additional};
use crate::schemas::crd::schema::path::Path;
use crate::schemas::kinds::labels::labels;
use crate::status::Cause;
use crate::wire::names::{LABEL_1035, is_label_1035};

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
pub(crate) fn check(object: &Map<String, Value>, schema: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    check_map(object, schema, &mut Path::default(), &mut causes);
    causes
}

fn check_map(map: &Map<String, Value>, schema: &Value, path: &mut Path, causes: &mut Vec<Cause>) {
    if node::is_embedded(schema) {
        check_own(map, path, causes);
    }
    for (key, value) in map {
        match (node::property(schema, key), node::additional(schema)) {
            (Some(property), _) => path.enter(key, |path| check_any(value, property, path, causes)),
            (None, Additional::Schema(schema)) => {
                path.enter_key(key, |path| check_any(value, schema, path, causes));
            }
            (None, Additional::Unknown | Additional::Unspecified) => {}
        }
    }
}

fn check_any(value: &Value, schema: &Value, path: &mut Path, causes: &mut Vec<Cause>) {
    match (value, node::items(schema)) {
        (Value::Object(map), _) => check_map(map, schema, path, causes),
        (Value::Array(list), Some(items)) => {
            for (index, item) in list.iter().enumerate() {
                path.enter_item(index, |path| check_any(item, items, path, causes));
            }
        }
        _ => {}
    }
}

fn check_own(map: &Map<String, Value>, path: &Path, causes: &mut Vec<Cause>) {
    for key in ["apiVersion", "kind"] {
        if !map.contains_key(key) {
            causes.push(Cause::required(&path.child(key), ""));
        }
    }
    if let Some(version) = map.get("apiVersion").and_then(Value::as_str) {
        let detail = match version.matches('/').count() {
            _ if version.is_empty() => Some("must not be empty".to_owned()),
            0 | 1 => None,
            _ => Some(format!("unexpected GroupVersion string: {version}")),
        };
        causes.extend(
            detail.map(|detail| Cause::invalid(&path.child("apiVersion"), &format!("{version:?}"), &detail)),
        );
    }
    if let Some(kind) = map.get("kind").and_then(Value::as_str) {
        let good = is_label_1035(&kind.to_lowercase());
        let detail = match kind {
            "" => Some("must not be empty".to_owned()),
            _ if good => None,
            _ => Some(format!("may have mixed case, but should otherwise match: {LABEL_1035}")),
        };
        causes
            .extend(detail.map(|detail| Cause::invalid(&path.child("kind"), &format!("{kind:?}"), &detail)));
    }
    let mut wrong = Vec::new();
    if let Some(Value::Object(metadata)) = map.get("metadata") {
        labels(metadata, &mut wrong);
    }
    causes
        .extend(wrong.into_iter().map(|cause| if path.is_root() { cause } else { cause.under(path.text()) }));
}
