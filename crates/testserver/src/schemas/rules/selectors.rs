//! Selectors of labels and nodes.

use serde_json::Value;

use crate::schemas::rules::walk::{At, Walk, keys, list};
use crate::wire::qualified::{name_complaints, value_complaints};

/// Checks that the operator of a requirement exists, and that it has values if it needs them.
pub(super) fn requirement(walk: &mut Walk, at: &At<'_>, is_of_node: bool) {
    let is_field = at.path.contains(".matchFields");
    match (at.text("operator"), at.list("values").len()) {
        ("In" | "NotIn", 2..) if is_field => walk.required(at.at("values")),
        ("In" | "NotIn", 0) => walk.required(at.at("values")),
        ("In" | "NotIn", _) => {}
        ("Exists" | "DoesNotExist", 0) if !is_field => {}
        ("Exists" | "DoesNotExist", _) if !is_field => {
            walk.forbid(at, "values", "may not be specified with this `operator`");
        }
        ("Gt" | "Lt", 1) if is_of_node && !is_field => {}
        ("Gt" | "Lt", _) if is_of_node && !is_field => walk.required(at.at("values")),
        _ => walk.bad(at, "operator", "not a valid selector operator"),
    }
    // The preferences of nodes may have invalid values.
    if is_of_node && at.path.contains(".preferred") {
        return;
    }
    for (index, value) in at.list("values").iter().enumerate() {
        for text in value_complaints(value.as_str().unwrap_or("")) {
            walk.bad(at, &format!("values[{index}]"), &text);
        }
    }
}

/// Returns whether the selector selects the labels; `None` if the selector is invalid.
pub(super) fn matches(selector: &Value, labels: &Value) -> Option<bool> {
    let mut all = !selector.is_null();
    for (key, value) in keys(&selector["matchLabels"]) {
        let is_valid = name_complaints(key).is_empty() && value_complaints(value.as_str()?).is_empty();
        if !is_valid {
            return None;
        }
        all &= labels.get(key) == Some(value);
    }
    for requirement in list(&selector["matchExpressions"]) {
        let (key, values) = (requirement["key"].as_str()?, list(&requirement["values"]));
        let label = labels.get(key);
        let is_in = label.is_some_and(|label| values.contains(label));
        let invalid = values.iter().any(|value| !value_complaints(value.as_str().unwrap_or("")).is_empty());
        if invalid || !name_complaints(key).is_empty() {
            return None;
        }
        all &= match (requirement["operator"].as_str()?, values.is_empty()) {
            ("In", false) => is_in,
            ("NotIn", false) => !is_in,
            ("Exists", true) => label.is_some(),
            ("DoesNotExist", true) => label.is_none(),
            _ => return None,
        };
    }
    Some(all)
}
