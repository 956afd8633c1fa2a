//! Selectors of labels and nodes.

use serde_json::Value;

use crate::schemas::rules::walk::{At, Walk, keys, list};
use crate::wire::qualified::{name_complaints, value_complaints};

const NO_OPERATOR: &str = "not a valid selector operator";

/// Checks a selector of labels.
pub(super) fn labels(walk: &mut Walk, at: &At<'_>) {
    walk.labels(&at.at("matchLabels"), at.get("matchLabels"));
    for (index, requirement) in at.list("matchExpressions").iter().enumerate() {
        let path = at.at(format!("matchExpressions[{index}]"));
        operator(walk, &path, requirement, false);
        key(walk, &path, requirement);
        values(walk, &path, requirement);
    }
}

/// Checks that the operator exists, and that it has values if it needs them.
fn operator(walk: &mut Walk, path: &str, requirement: &Value, is_of_node: bool) {
    let values = format!("{path}.values");
    match (requirement["operator"].as_str().unwrap_or(""), list(&requirement["values"]).len()) {
        ("In" | "NotIn", 0) => walk.required(values),
        ("In" | "NotIn", _) | ("Exists" | "DoesNotExist", 0) => {}
        ("Exists" | "DoesNotExist", _) => walk.forbidden(values, "may not be specified with this `operator`"),
        ("Gt" | "Lt", 1) if is_of_node => {}
        ("Gt" | "Lt", _) if is_of_node => walk.required(values),
        _ => walk.invalid(format!("{path}.operator"), &requirement["operator"], NO_OPERATOR),
    }
}

fn values(walk: &mut Walk, path: &str, requirement: &Value) {
    for (index, value) in list(&requirement["values"]).iter().enumerate() {
        let complaints = value_complaints(value.as_str().unwrap_or(""));
        complaints.iter().for_each(|text| walk.invalid(format!("{path}.values[{index}]"), value, text));
    }
}

fn key(walk: &mut Walk, path: &str, requirement: &Value) {
    let complaints = name_complaints(requirement["key"].as_str().unwrap_or(""));
    complaints.iter().for_each(|text| walk.invalid(format!("{path}.key"), &requirement["key"], text));
}

/// Checks the selectors of node labels and node fields in a term. Preferences may have invalid values.
pub(super) fn node(walk: &mut Walk, at: &At<'_>) {
    for (index, requirement) in at.list("matchExpressions").iter().enumerate() {
        let path = at.at(format!("matchExpressions[{index}]"));
        operator(walk, &path, requirement, true);
        key(walk, &path, requirement);
        if !path.contains(".preferred") {
            values(walk, &path, requirement);
        }
    }
    for (index, requirement) in at.list("matchFields").iter().enumerate() {
        let path = at.at(format!("matchFields[{index}]"));
        match requirement["operator"].as_str().unwrap_or("") {
            "In" | "NotIn" if list(&requirement["values"]).len() == 1 => {}
            "In" | "NotIn" => walk.required(format!("{path}.values")),
            _ => walk.invalid(format!("{path}.operator"), &requirement["operator"], NO_OPERATOR),
        }
        if requirement["key"] != "metadata.name" {
            walk.invalid(format!("{path}.key"), &requirement["key"], "not a valid field selector key");
            continue;
        }
        for (index, value) in list(&requirement["values"]).iter().enumerate() {
            if !crate::wire::names::is_subdomain(value.as_str().unwrap_or("")) {
                walk.invalid(format!("{path}.values[{index}]"), value, "must be the name of a node");
            }
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
