//! Validation of the names of a CRD.

use serde_json::Value;

use crate::schemas::crd::schema::node::{text, texts};
use crate::status::Cause;
use crate::wire::names::{LABEL_1035, is_label_1035};

pub(super) fn check(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let names = spec.get("names").unwrap_or(&Value::Null);
    for key in ["plural", "singular", "kind", "listKind"] {
        let (field, name) = (format!("spec.names.{key}"), text(names, key));
        if name.is_empty() {
            causes.push(Cause::required(&field, ""));
        } else if ["plural", "singular"].contains(&key) {
            causes.extend(label(&field, name));
        } else if !is_label_1035(&name.to_lowercase()) {
            let detail = format!("may have mixed case, but should otherwise match: {LABEL_1035}");
            causes.push(Cause::invalid_text(&field, name, &detail));
        }
    }
    for key in ["shortNames", "categories"] {
        for (index, name) in texts(names, key).enumerate() {
            causes.extend(label(&format!("spec.names.{key}[{index}]"), name));
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid_text("spec.names.listKind", list_kind, detail));
    }
    causes
}

fn label(field: &str, value: &str) -> Option<Cause> {
    (!is_label_1035(value)).then(|| Cause::invalid_text(field, value, LABEL_1035))
}
