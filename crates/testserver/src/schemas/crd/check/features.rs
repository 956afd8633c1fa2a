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
    let mut causes = Vec::new();
    for (index, column) in node::list(version, "additionalPrinterColumns").iter().enumerate() {
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

const MAX_SELECTABLE_FIELDS: u64 = 8;

pub(super) fn selectable_fields(version: &Value, at: &str) -> Vec<Cause> {
    let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
    let (mut causes, mut seen) = (Vec::new(), Vec::new());
    for (index, entry) in node::list(version, "selectableFields").iter().enumerate() {
        let (field, path) = (format!("{at}[{index}].jsonPath"), text(entry, "jsonPath"));
        let mut names = path.trim_start_matches('.').split('.');
        let found = names.try_fold(schema, |at, name| node::property(at, name));
        let kind = found.map_or("", |found| text(found, "type"));
        let is_simple = matches!(kind, "string" | "boolean" | "integer") && !path.starts_with(".metadata");
        if path.is_empty() {
            causes.push(Cause::required(&field, ""));
        } else if !is_simple {
            let detail = "must point to a field of type string, boolean or integer outside of metadata";
            causes.push(Cause::invalid_text(&field, path, detail));
        } else if seen.contains(&path) {
            causes.push(Cause::duplicate(&field, &format!("{path:?}")));
        } else {
            seen.push(path);
        }
    }
    if seen.len() as u64 > MAX_SELECTABLE_FIELDS {
        causes.push(Cause::too_many(at, seen.len(), MAX_SELECTABLE_FIELDS));
    }
    causes
}
