//! The fields that differ between two JSON objects.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    path::{FieldPath, Step},
    secrets::is_hidden,
    work,
};

/// The fields that identify the items of a list, in the order of preference.
const ITEM_KEYS: [&str; 10] =
    ["name", "type", "uid", "ip", "key", "containerPort", "port", "mountPath", "devicePath", "topologyKey"];

/// A field that differs. `None` means that the state does not contain the field.
#[derive(Debug)]
pub(super) struct Difference<'a> {
    pub(super) path: FieldPath,
    pub(super) before: Option<&'a Value>,
    pub(super) after: Option<&'a Value>,
}

/// Returns the fields that differ, without `metadata.resourceVersion` and `metadata.managedFields`.
///
/// Maps are compared field by field, also if one state does not contain the map. Items of lists are compared
/// by their name, type or another key, and otherwise by their position. Items of a hidden list are compared
/// by their position, because a key would be a part of the path.
pub(super) fn differences<'a>(
    is_sensitive: bool,
    before: &'a Value,
    after: &'a Value,
) -> Vec<Difference<'a>> {
    let mut out = Differences { is_sensitive, found: Vec::new() };
    compare(&FieldPath::default(), Some(before), Some(after), &mut out);
    out.found
}

/// The fields that were found so far.
struct Differences<'a> {
    /// Whether the contents of the object are hidden.
    is_sensitive: bool,
    found: Vec<Difference<'a>>,
}

impl<'a> Differences<'a> {
    fn push(&mut self, path: FieldPath, before: Option<&'a Value>, after: Option<&'a Value>) {
        self.found.push(Difference { path, before, after });
    }
}

fn compare<'a>(
    path: &FieldPath,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
    out: &mut Differences<'a>,
) {
    work::add(1);
    if before == after || is_ignored(path) {
        return;
    }
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            maps(path, Some(before), Some(after), out);
        }
        (None, Some(Value::Object(after))) if !after.is_empty() => maps(path, None, Some(after), out),
        (Some(Value::Object(before)), None) if !before.is_empty() => maps(path, Some(before), None, out),
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            let count = out.found.len();
            lists(path, old, new, out);
            // Only the order of the items differs.
            if out.found.len() == count {
                out.push(path.clone(), before, after);
            }
        }
        _ => out.push(path.clone(), before, after),
    }
}

/// Returns whether each write changes the field, or lists omit it.
fn is_ignored(path: &FieldPath) -> bool {
    match path.steps() {
        [Step::Field(name)] => matches!(name.as_str(), "apiVersion" | "kind"),
        [Step::Field(parent), Step::Field(name)] => {
            parent == "metadata" && matches!(name.as_str(), "resourceVersion" | "managedFields")
        }
        _ => false,
    }
}

fn maps<'a>(
    path: &FieldPath,
    before: Option<&'a Map<String, Value>>,
    after: Option<&'a Map<String, Value>>,
    out: &mut Differences<'a>,
) {
    for (name, new) in after.into_iter().flatten() {
        work::add(1);
        let old = before.and_then(|before| before.get(name));
        if old == Some(new) {
            continue;
        }
        compare(&path.join(Step::Field(name.clone())), old, Some(new), out);
    }
    for (name, old) in before.into_iter().flatten() {
        if after.is_none_or(|after| !after.contains_key(name)) {
            compare(&path.join(Step::Field(name.clone())), Some(old), None, out);
        }
    }
}

fn lists<'a>(path: &FieldPath, before: &'a [Value], after: &'a [Value], out: &mut Differences<'a>) {
    let is_hidden = is_hidden(out.is_sensitive, path);
    let key =
        ITEM_KEYS.into_iter().find(|key| !is_hidden && identifies(key, before) && identifies(key, after));
    if let Some(key) = key {
        return items(path, key, before, after, out);
    }
    let has_objects = before.iter().chain(after).all(Value::is_object);
    if has_objects && before.len() == after.len() {
        for (index, (old, new)) in before.iter().zip(after).enumerate() {
            compare(&path.join(Step::Index(index)), Some(old), Some(new), out);
        }
    }
}

/// Returns whether each item has this field, with another value.
fn identifies(key: &str, items: &[Value]) -> bool {
    let mut seen = Vec::with_capacity(items.len());
    for item in items {
        work::add(1);
        match item.get(key) {
            Some(value @ (Value::String(_) | Value::Number(_))) => seen.push(value.to_string()),
            _ => return false,
        }
    }
    seen.sort_unstable();
    seen.windows(2).all(|pair| pair[0] != pair[1])
}

fn items<'a>(
    path: &FieldPath,
    key: &'static str,
    before: &'a [Value],
    after: &'a [Value],
    out: &mut Differences<'a>,
) {
    let by_key = |items: &'a [Value]| -> HashMap<String, &'a Value> {
        items.iter().map(|item| (item[key].to_string(), item)).collect()
    };
    let (old_items, new_items) = (by_key(before), by_key(after));
    let step = |item: &Value| path.join(Step::Item { key, value: item[key].clone() });
    work::add(before.len() + after.len());
    for new in after {
        match old_items.get(&new[key].to_string()) {
            Some(old) if *old == new => {}
            Some(old) => compare(&step(new), Some(old), Some(new), out),
            None => out.push(step(new), None, Some(new)),
        }
    }
    for old in before.iter().filter(|old| !new_items.contains_key(&old[key].to_string())) {
        out.push(step(old), Some(old), None);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(before: &Value, after: &Value) -> Vec<String> {
        differences(false, before, after).iter().map(|difference| difference.path.to_string()).collect()
    }

    #[test]
    fn fields_of_each_write_and_type_are_ignored() {
        let object = |version: &str| json!({"metadata": {"resourceVersion": version, "managedFields": [{"time": version}]}, "spec": {}});
        assert!(paths(&object("1"), &object("2")).is_empty());
        assert!(paths(&json!({}), &json!({"apiVersion": "v1", "kind": "Pod"})).is_empty());
    }

    #[test]
    fn items_are_compared_by_key() {
        let object = |ready: &str| json!({"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "Ready", "status": ready}]}});
        assert_eq!(paths(&object("False"), &object("True")), ["status.conditions[type=Ready].status"]);
        let old = json!({"c": [{"name": "a"}, {"name": "b"}]});
        let new = json!({"c": [{"name": "c", "x": 1}, {"name": "b"}]});
        assert_eq!(paths(&old, &new), ["c[name=c]", "c[name=a]"]);
    }

    #[test]
    fn new_map_is_compared_by_field() {
        let new = json!({"status": {"phase": "Running", "podIP": "10.0.0.1"}});
        assert_eq!(paths(&json!({}), &new), ["status.phase", "status.podIP"]);
        assert_eq!(paths(&new, &json!({"status": {}})), ["status.phase", "status.podIP"]);
    }

    #[test]
    fn lists_without_keys_are_compared_as_one_value() {
        assert_eq!(paths(&json!({"args": ["a"]}), &json!({"args": ["a", "b"]})), ["args"]);
        assert_eq!(paths(&json!({"a": [{"x": 1}]}), &json!({"a": [{"x": 2}]})), ["a[0].x"]);
        let reordered = (json!({"a": [{"name": 1}, {"name": 2}]}), json!({"a": [{"name": 2}, {"name": 1}]}));
        assert_eq!(paths(&reordered.0, &reordered.1), ["a"]);
        let repeated = (json!({"a": [{"name": "x"}]}), json!({"a": [{"name": "x"}, {"name": "x"}]}));
        assert_eq!(paths(&repeated.0, &repeated.1), ["a"]);
    }
}
