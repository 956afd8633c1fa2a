//! The features of a version: subresources, printer columns and selectable fields.

use serde_json::Value;

use crate::schemas::crd::schema::node::{self, text};
use crate::status::Cause;

pub(super) fn subresources(version: &Value, at: &str) -> Vec<Cause> {
    let Some(scale) = version.pointer("/subresources/scale").filter(|scale| scale.is_object()) else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    for (key, part) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (field, path) = (format!("{at}.scale.{key}"), text(scale, key));
        if path.is_empty() {
            causes.push(Cause::required(&field, ""));
        } else if let Some(cause) = simple_path(&field, path) {
            causes.push(cause);
        } else if !path.starts_with(&format!("{part}.")) {
            let detail = format!("should be a json path under {part}");
            causes.push(Cause::invalid(&field, &format!("{path:?}"), &detail));
        }
    }
    let (field, path) = (format!("{at}.scale.labelSelectorPath"), text(scale, "labelSelectorPath"));
    if let Some(cause) = simple_path(&field, path) {
        causes.push(cause);
    } else if !path.is_empty() && !path.starts_with(".spec.") && !path.starts_with(".status.") {
        let detail = "should be a json path under either .spec or .status";
        causes.push(Cause::invalid(&field, &format!("{path:?}"), detail));
    }
    causes
}

/// Checks that a path starts with a dot. An empty path is permitted.
fn simple_path(field: &str, path: &str) -> Option<Cause> {
    let good = path.is_empty() || path.starts_with('.');
    (!good).then(|| Cause::invalid(field, &format!("{path:?}"), "must be a simple json path starting with ."))
}

pub(super) fn columns(version: &Value, at: &str) -> Vec<Cause> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    let mut causes = Vec::new();
    for (index, column) in columns.into_iter().flatten().enumerate() {
        let field = |key: &str| format!("{at}[{index}].{key}");
        if text(column, "name").is_empty() {
            causes.push(Cause::required(&field("name"), ""));
        }
        let types = format!("must be one of {}", TYPES.join(","));
        match text(column, "type") {
            "" => causes.push(Cause::required(&field("type"), &types)),
            known if TYPES.contains(&known) => {}
            other => causes.push(Cause::invalid(&field("type"), &format!("{other:?}"), &types)),
        }
        let format = text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            causes.push(Cause::invalid(&field("format"), &format!("{format:?}"), &detail));
        }
        match text(column, "jsonPath") {
            "" => causes.push(Cause::required(&field("JSONPath"), "")),
            path => causes.extend(simple_path(&field("JSONPath"), path)),
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
        let shown = format!("{path:?}");
        if path.is_empty() {
            causes.push(Cause::required(&field, ""));
            continue;
        }
        let found = match find(schema, path) {
            Ok(found) => found,
            Err(detail) => {
                causes.push(Cause::invalid(&field, &shown, &format!("is an invalid path: {detail}")));
                continue;
            }
        };
        if path.starts_with(".metadata") {
            causes.push(Cause::invalid(&field, &shown, "must not point to fields in metadata"));
        }
        if !["string", "boolean", "integer"].contains(&text(found, "type")) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                       formats are allowed.";
            causes.push(Cause::invalid(&field, &shown, detail));
        }
        if seen.contains(&path) {
            causes.push(Cause::duplicate(&field, &shown));
        } else {
            seen.push(path);
        }
    }
    if seen.len() as u64 > MAX_SELECTABLE_FIELDS {
        causes.push(Cause::too_many(at, seen.len(), MAX_SELECTABLE_FIELDS));
    }
    causes
}

/// Returns the schema of the field at a path such as `.spec.color`.
fn find<'a>(schema: &'a Value, path: &str) -> Result<&'a Value, &'static str> {
    if path.contains(['[', ']']) {
        return Err("array notation is not allowed");
    }
    let mut at = schema;
    for name in path.trim_start_matches('.').split('.') {
        at = node::property(at, name).ok_or("does not refer to a valid field")?;
    }
    Ok(at)
}
