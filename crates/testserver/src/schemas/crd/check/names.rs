//! Validation of the names of a CRD.

use serde_json::Value;

use crate::schemas::crd::definition::text;
use crate::schemas::crd::schema::node::texts;
use crate::status::Cause;
use crate::wire::names::{LABEL_1035, is_label_1035};

pub(super) fn check(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(spec, &format!("/names/{key}")).is_empty() {
            causes.push(Cause::required(&format!("spec.names.{key}"), ""));
        }
    }
    let names = spec.get("names").unwrap_or(&Value::Null);
    let name = |key: &str| names.get(key).and_then(Value::as_str).unwrap_or("");
    for key in ["plural", "singular"] {
        causes.extend(label(&format!("spec.names.{key}"), name(key)));
    }
    for key in ["kind", "listKind"] {
        let value = name(key);
        if !value.is_empty() && !is_label_1035(&value.to_lowercase()) {
            let detail = format!("may have mixed case, but should otherwise match: {LABEL_1035}");
            causes.push(Cause::invalid_text(&format!("spec.names.{key}"), value, &detail));
        }
    }
    for (index, short) in texts(names, "shortNames").enumerate() {
        causes.extend(label(&format!("spec.names.shortNames[{index}]"), short));
    }
    let (kind, list_kind) = (name("kind"), name("listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid_text("spec.names.listKind", list_kind, detail));
    }
    for (index, category) in texts(names, "categories").enumerate() {
        causes.extend(label(&format!("spec.names.categories[{index}]"), category));
    }
    causes
}

/// Checks a label. An empty label is permitted.
pub(super) fn label(field: &str, value: &str) -> Option<Cause> {
    let good = value.is_empty() || is_label_1035(value);
    (!good).then(|| Cause::invalid_text(field, value, LABEL_1035))
}
