//! `x-kubernetes-embedded-resource`: objects inside of objects, whose type and metadata the server itself checks.

use serde_json::{Map, Value};

use crate::crd::schema::path::Path;
use crate::crd::schema::shape::{self, Additional};
use crate::kinds::names::{LABEL_1035, is_label_1035};
use crate::status::Cause;
use crate::write::metadata::labels;

/// Tidies the metadata of all objects inside; gives the paths of unknown fields, sorted.
///
/// # Errors
/// The words for what is no type or metadata of an object.
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
        if shape::is_embedded(schema) {
            tidy_own(key, value, path, unknown)?;
        }
        match (shape::property(schema, key), shape::additional(schema)) {
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
    match (value, shape::items(schema)) {
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
    let wrong = |value: &Value, why: &str| format!("{}: Invalid value: {value}: {why}", path.child(key));
    match key {
        "apiVersion" | "kind" if !value.is_string() => Err(wrong(value, "must be a string")),
        "metadata" => {
            let sent = value.clone();
            let found = crate::types::take_metadata(value).map_err(|why| wrong(&sent, &why))?;
            unknown.extend(found.into_iter().map(|field| path.child(&field)));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// What is wrong with the type and metadata of the objects inside.
pub(crate) fn complaints(object: &Map<String, Value>, schema: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    check_map(object, schema, &mut Path::default(), &mut causes);
    causes
}

fn check_map(map: &Map<String, Value>, schema: &Value, path: &mut Path, causes: &mut Vec<Cause>) {
    if shape::is_embedded(schema) {
        check_own(map, path, causes);
    }
    for (key, value) in map {
        match (shape::property(schema, key), shape::additional(schema)) {
            (Some(property), _) => path.enter(key, |path| check_any(value, property, path, causes)),
            (None, Additional::Schema(schema)) => {
                path.enter_key(key, |path| check_any(value, schema, path, causes));
            }
            (None, Additional::Unknown | Additional::Unspecified) => {}
        }
    }
}

fn check_any(value: &Value, schema: &Value, path: &mut Path, causes: &mut Vec<Cause>) {
    match (value, shape::items(schema)) {
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
        let why = match version.matches('/').count() {
            _ if version.is_empty() => Some("must not be empty".to_owned()),
            0 | 1 => None,
            _ => Some(format!("unexpected GroupVersion string: {version}")),
        };
        causes
            .extend(why.map(|why| Cause::invalid(&path.child("apiVersion"), &format!("{version:?}"), &why)));
    }
    if let Some(kind) = map.get("kind").and_then(Value::as_str) {
        let good = is_label_1035(&kind.to_lowercase());
        let why = match kind {
            "" => Some("must not be empty".to_owned()),
            _ if good => None,
            _ => Some(format!("may have mixed case, but should otherwise match: {LABEL_1035}")),
        };
        causes.extend(why.map(|why| Cause::invalid(&path.child("kind"), &format!("{kind:?}"), &why)));
    }
    let mut wrong = Vec::new();
    if let Some(Value::Object(metadata)) = map.get("metadata") {
        labels(metadata, &mut wrong);
    }
    causes
        .extend(wrong.into_iter().map(|cause| if path.is_root() { cause } else { cause.under(path.text()) }));
}
