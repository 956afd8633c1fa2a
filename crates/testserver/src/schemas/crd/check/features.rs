//! The features of a version: subresources, printer columns and selectable fields.

use serde_json::Value;

use crate::schemas::crd::schema::node::{self, text};
use crate::status::Cause;

pub(super) fn subresources(version: &Value, at: &str) -> Vec<Cause> {
    let Some(scale) = version.pointer("/subresources/scale").filter(|scale| scale.is_object()) else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    for (key, parts) in [
        ("specReplicasPath", [".spec."].as_slice()),
        ("statusReplicasPath", &[".status."]),
        ("labelSelectorPath", &[".spec.", ".status."]),
    ] {
        let (field, path) = (format!("{at}.scale.{key}"), text(scale, key));
        if path.is_empty() {
            causes.extend((key != "labelSelectorPath").then(|| Cause::required(&field, "")));
        } else if !parts.iter().any(|part| path.starts_with(part)) {
            let detail = format!("should be a json path under {}", parts.join(" or "));
            causes.push(Cause::invalid_text(&field, path, &detail));
        }
    }
    causes
}

pub(super) fn columns(version: &Value, at: &str) -> Vec<Cause> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let mut causes = Vec::new();
    for (index, column) in columns.into_iter().flatten().enumerate() {
        let field = |key: &str| format!("{at}[{index}].{key}");
        if text(column, "name").is_empty() {
            causes.push(Cause::required(&field("name"), ""));
        }
        let types = format!("must be one of {}", TYPES.join(","));
        if !TYPES.contains(&text(column, "type")) {
            causes.push(Cause::wrong_text(&field("type"), text(column, "type"), &types));
        }
        if !text(column, "jsonPath").starts_with('.') {
            let detail = "must be a simple json path starting with .";
            causes.push(Cause::wrong_text(&field("JSONPath"), text(column, "jsonPath"), detail));
        }
    }
    causes
}

/// The maximum number of selectable fields.
const MAX_SELECTABLE_FIELDS: u64 = 8;

pub(super) fn selectable_fields(version: &Value, at: &str) -> Vec<Cause> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
    let (mut causes, mut seen) = (Vec::new(), Vec::new());
    for (index, entry) in fields.into_iter().flatten().enumerate() {
        let (field, path) = (format!("{at}[{index}].jsonPath"), text(entry, "jsonPath"));
        let names = path.trim_start_matches('.').split('.');
        let found = names.into_iter().try_fold(schema, |at, name| node::property(at, name));
        let kind = found.map_or("", |found| text(found, "type"));
        let detail = match path {
            "" => {
                causes.push(Cause::required(&field, ""));
                continue;
            }
            _ if found.is_none() => "is an invalid path: does not refer to a valid field",
            path if path.starts_with(".metadata") => "must not point to fields in metadata",
            _ if !["string", "boolean", "integer"].contains(&kind) => {
                "must point to a field of type string, boolean or integer"
            }
            path if seen.contains(&path) => {
                causes.push(Cause::duplicate(&field, &format!("{path:?}")));
                continue;
            }
            path => {
                seen.push(path);
                continue;
            }
        };
        causes.push(Cause::invalid_text(&field, path, detail));
    }
    if seen.len() as u64 > MAX_SELECTABLE_FIELDS {
        causes.push(Cause::too_many(at, seen.len(), MAX_SELECTABLE_FIELDS));
    }
    causes
}
