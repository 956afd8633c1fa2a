//! Converts objects to lines without the values that differ between any two clusters.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::objects::{Objects, named};

/// The masked values: uids, times and addresses.
static MASKS: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
    [
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(Z| ?[+-][0-9:]+( UTC)?)", "TIME"),
        (r"\b10(\.[0-9]+){3}\b", "ADDRESS"),
        (r"^[0-9]{10}$", "SECONDS"),
    ]
    .map(|(pattern, mask)| (Regex::new(pattern).expect("the pattern is valid"), mask))
});

/// The fields that are not compared: kind, end of the path, reason.
const IGNORED: [(&str, &str, &str); 11] = [
    ("", "/metadata/resourceVersion", "each server counts its writes"),
    ("", "/metadata/managedFields", "the conformance suite compares them, and they contain times"),
    (
        "EndpointSlice",
        "/metadata/generation",
        "it counts the writes of the controller, which depend on timing",
    ),
    ("Pod", "/spec/priority", "an admission plugin sets it"),
    ("Pod", "/spec/preemptionPolicy", "an admission plugin sets it"),
    ("Pod", "/spec/tolerations", "an admission plugin sets it"),
    ("ConfigMap", "/data/ca.crt", "each server has its own authority"),
    ("ReplicaSet", "/metadata/generation", "it counts the steps of a rollout, which depend on timing"),
    ("ReplicaSet", "/status/observedGeneration", "it counts the steps of a rollout, which depend on timing"),
    ("Secret", "/data/release", "the server writes times into it"),
    ("Secret", "/metadata/labels/modifiedAt", "it is a time"),
];

/// Returns the fields of all objects in `namespace` as sorted lines, and the history of Pods.
pub(crate) fn lines(objects: &Objects, namespace: &str) -> Vec<String> {
    let all = objects
        .current
        .iter()
        .filter(|((kind, space, name), _)| space == namespace || (*kind == "Namespace" && name == namespace));
    let names: HashMap<&str, String> = all.clone().filter_map(|(_, object)| generated(object)).collect();
    let mut lines = Vec::new();
    for ((kind, _, _), object) in all {
        let name = names.get(named(object)).map_or(named(object), String::as_str);
        let mut fields = Vec::new();
        flatten(kind, "", object, &names, &mut fields);
        lines.extend(fields.iter().map(|field| format!("{kind} {name}: {field}")));
    }
    lines.sort();
    lines.extend(objects.history.iter().enumerate().map(|(at, event)| format!("history {at}: {event}")));
    lines
}

fn generated(object: &Value) -> Option<(&str, String)> {
    object["metadata"]["generateName"].as_str().map(|base| (named(object), format!("{base}*")))
}

/// Appends a line for each value inside `value`. The items of a list are in the order of their lines.
fn flatten(kind: &str, path: &str, value: &Value, names: &HashMap<&str, String>, lines: &mut Vec<String>) {
    if IGNORED.iter().any(|(of, end, _)| (of.is_empty() || *of == kind) && path.ends_with(end)) {
        return;
    }
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                flatten(kind, &format!("{path}/{key}"), value, names, lines);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let mut sorted: Vec<Vec<String>> = Vec::new();
            for item in items {
                let mut fields = Vec::new();
                flatten(kind, "", item, names, &mut fields);
                sorted.push(fields);
            }
            sorted.sort();
            let items = sorted.iter().enumerate();
            lines.extend(
                items.flat_map(|(at, item)| item.iter().map(move |line| format!("{path}/{at}{line}"))),
            );
        }
        Value::String(text) => {
            let text = names.get(text.as_str()).map_or(text.as_str(), String::as_str);
            lines.push(format!("{path} = {:?}", masked(text)));
        }
        other => lines.push(format!("{path} = {other}")),
    }
}

fn masked(text: &str) -> String {
    MASKS.iter().fold(text.to_owned(), |text, (pattern, mask)| pattern.replace_all(&text, *mask).into_owned())
}

/// Returns the lines of a program's output. The fields of JSON are separate lines.
pub(crate) fn output(text: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str(text) else { return text.lines().map(masked).collect() };
    let mut lines = Vec::new();
    flatten("", "", &value, &HashMap::new(), &mut lines);
    lines
}

/// Returns the lines that only one of both servers printed.
pub(crate) fn difference(embedded: &[String], real: &[String]) -> String {
    let mut counts: BTreeMap<&str, i32> = BTreeMap::new();
    embedded.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    real.iter().for_each(|line| *counts.entry(line).or_default() -= 1);
    let differing = counts.into_iter().filter(|(_, count)| *count != 0);
    let lines = differing.map(|(line, count)| {
        let side = if count > 0 { "kube-testserver" } else { "kube-apiserver" };
        format!("only {side}: {line}\n")
    });
    lines.collect()
}
