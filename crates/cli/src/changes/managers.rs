//! `Authors`: finds the field manager of a change in the managedFields of both states.
//!
//! If a write of a manager changes the object, the server updates the entry of this manager and the time of
//! the entry. The manager of a change therefore has an entry with a new time, and owns the field. An entry
//! with its old time can also change: it loses a field that another manager takes or removes.
//!
//! A manager that never owned a field can remove the field. If only one entry has a new time, its manager has
//! removed the field. The time of an entry has a resolution of one second, so two writes can have equal
//! times. If no entry has a new time, the owner of the field probably wrote its value. The manager of a
//! removal is then unknown.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use serde_json::Value;

use super::{
    path::{FieldPath, Step},
    work,
};

/// An entry of managedFields.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    value: &'a Value,
    /// The state of the object, in which keys of list items are resolved.
    object: &'a Value,
}

impl<'a> Entry<'a> {
    fn name(self) -> &'a str {
        self.value["manager"].as_str().unwrap_or_default()
    }

    fn name_with_subresource(self) -> String {
        match self.value["subresource"].as_str() {
            None | Some("") => self.name().to_owned(),
            Some(subresource) => format!("{} ({subresource})", self.name()),
        }
    }

    fn time(self) -> &'a str {
        self.value["time"].as_str().unwrap_or_default()
    }

    /// Returns the fields that identify the manager. A manager has an entry for each of their values.
    fn manager(self) -> [&'a str; 4] {
        ["manager", "operation", "apiVersion", "subresource"]
            .map(|field| self.value[field].as_str().unwrap_or_default())
    }

    /// Returns whether a write of this entry can change the field. A write of a subresource such as `status`
    /// changes only the field with this name.
    fn can_write(self, path: &FieldPath) -> bool {
        let subresource = self.value["subresource"].as_str().unwrap_or_default();
        subresource.is_empty() || path.steps().first() == Some(&Step::Field(subresource.to_owned()))
    }

    /// Returns whether the manager owns the field, or the value that contains the field.
    fn owns(self, path: &FieldPath) -> bool {
        owns(&self.value["fieldsV1"], path.steps(), Some(self.object))
    }
}

/// Compares the managedFields of two states.
#[derive(Debug)]
pub(super) struct Authors<'a> {
    before: Vec<Entry<'a>>,
    after: Vec<Entry<'a>>,
    /// The entries of the new state whose manager is new, or whose time is new.
    changed: Vec<Entry<'a>>,
}

impl<'a> Authors<'a> {
    pub(super) fn new(before: &'a Value, after: &'a Value) -> Self {
        let entries = |object: &'a Value| -> Vec<Entry<'a>> {
            let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
            let entries = entries.map(|value| Entry { value, object });
            entries.filter(|entry| !entry.name().is_empty()).collect()
        };
        let (before, after) = (entries(before), entries(after));
        let old: HashSet<_> = before.iter().map(|entry| (entry.manager(), entry.time())).collect();
        let is_new = |entry: &&Entry<'_>| !old.contains(&(entry.manager(), entry.time()));
        let changed = after.iter().filter(is_new).copied().collect();
        Self { before, after, changed }
    }

    /// Returns the managers of a change, sorted. Returns an empty list if managedFields do not contain the
    /// manager.
    pub(super) fn of(&self, path: &FieldPath, is_removed: bool) -> Vec<String> {
        let found = self.entries_of(path, is_removed);
        let mut names: Vec<String> = found.into_iter().map(|entry| entry.name().to_owned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the manager of an update with these changes, and its subresource: `kubelet (status)`. This is
    /// the latest manager of a change. If several managers are the latest, it is the manager of the most
    /// changes.
    pub(super) fn writer<'b>(&self, changes: impl Iterator<Item = (&'b FieldPath, bool)>) -> Option<String> {
        let mut counts = BTreeMap::new();
        for (path, is_removed) in changes {
            for entry in self.entries_of(path, is_removed) {
                *counts.entry((entry.time(), Reverse(entry.name_with_subresource()))).or_insert(0_usize) += 1;
            }
        }
        if counts.is_empty() {
            // A write that changes only managedFields, or the creation of the object.
            let names = latest(self.changed.clone()).into_iter().map(Entry::name_with_subresource);
            return names.min();
        }
        let latest = counts.into_iter().max_by_key(|((time, name), count)| (*time, *count, name.clone()));
        latest.map(|((_, Reverse(name)), _)| name)
    }

    fn entries_of(&self, path: &FieldPath, is_removed: bool) -> Vec<Entry<'a>> {
        let writers = self.changed.iter().copied();
        let candidates: Vec<Entry<'_>> = if is_removed {
            let owners = self.before.iter().filter(|entry| entry.owns(path));
            let owners: HashSet<_> = owners.map(|entry| entry.manager()).collect();
            writers.filter(|entry| owners.contains(&entry.manager())).collect()
        } else {
            writers.filter(|entry| entry.owns(path)).collect()
        };
        if !candidates.is_empty() {
            latest(candidates)
        } else if is_removed {
            latest(self.changed.iter().filter(|entry| entry.can_write(path)).copied().collect())
        } else if !self.changed.is_empty() {
            // No manager owns the field: the server changed it because of a write.
            latest(self.changed.clone())
        } else {
            latest(self.after.iter().filter(|entry| entry.owns(path)).copied().collect())
        }
    }
}

/// Returns the entries with the latest time. Times in RFC 3339 with the same zone have the order of their
/// texts.
fn latest<'a>(mut entries: Vec<Entry<'a>>) -> Vec<Entry<'a>> {
    let last = entries.iter().map(|entry| entry.time()).max().unwrap_or_default();
    entries.retain(|entry| entry.time() == last);
    entries
}

/// Returns whether a set in the form FieldsV1 contains the field, a part of it, or a value that contains it.
fn owns(set: &Value, steps: &[Step], value: Option<&Value>) -> bool {
    work::add(1);
    let Some(children) = set.as_object() else { return false };
    let Some((step, rest)) = steps.split_first() else { return true };
    if children.is_empty() {
        // The manager owns the entire value.
        return true;
    }
    let inner = value.and_then(|value| inside(value, step));
    let owns_child = |name: &str| children.get(name).is_some_and(|below| owns(below, rest, inner));
    let owns_value = || inner.is_some_and(|inner| owns_child(&format!("v:{}", canonical(inner))));
    match step {
        Step::Field(name) => owns_child(&format!("f:{name}")),
        Step::Index(index) => owns_child(&format!("i:{index}")) || owns_value(),
        Step::Item { key, value } => {
            let pair = format!("{}:{}", canonical(&(*key).into()), canonical(value));
            if owns_child(&format!("k:{{{pair}}}")) || owns_value() {
                return true;
            }
            // The set can identify an item by several fields. Only sets with other fields are parsed.
            let prefix = format!("\"{key}\":");
            work::add(children.len());
            children
                .iter()
                .filter(|(name, _)| name.starts_with("k:"))
                .filter(|(name, _)| !name.contains(&prefix) || name.contains(&pair))
                .any(|(name, below)| is_item(&name[2..], key, value, inner) && owns(below, rest, inner))
        }
    }
}

/// Returns the JSON of a value with the escapes of the API server.
fn canonical(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    [('<', "003c"), ('>', "003e"), ('&', "0026"), ('\u{2028}', "2028"), ('\u{2029}', "2029")]
        .into_iter()
        .fold(text, |text, (from, to)| text.replace(from, &format!("\\u{to}")))
}

/// Returns the value after a step.
fn inside<'a>(value: &'a Value, step: &Step) -> Option<&'a Value> {
    match step {
        Step::Field(name) => value.get(name),
        Step::Index(index) => value.get(index),
        Step::Item { key, value: wanted } => {
            let is_wanted = |item: &&Value| {
                work::add(1);
                item.get(key) == Some(wanted)
            };
            value.as_array()?.iter().find(is_wanted)
        }
    }
}

/// Returns whether a key in FieldsV1 identifies this item of a list. `inner` is the item.
fn is_item(text: &str, key: &str, value: &Value, inner: Option<&Value>) -> bool {
    let Ok(Value::Object(keys)) = serde_json::from_str(text) else { return false };
    let own = |name: &str| inner.and_then(|item| item.get(name)).or((name == key).then_some(value));
    !keys.is_empty() && keys.iter().all(|(name, wanted)| own(name).is_none_or(|own| own == wanted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, second: u32, fields: &Value) -> Value {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1",
            "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    fn object(entries: &[Value]) -> Value {
        json!({
            "metadata": {"managedFields": entries},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn managers(before: &Value, after: &Value, path: &FieldPath, is_removed: bool) -> Vec<String> {
        Authors::new(before, after).of(path, is_removed)
    }

    fn replicas() -> FieldPath {
        FieldPath::of_fields(&["spec", "replicas"])
    }

    #[test]
    fn manager_whose_entry_changed_and_owns_the_field_is_found() {
        let spec = json!({"f:spec": {"f:replicas": {}}});
        let status = json!({"f:status": {"f:phase": {}}});
        let before = object(&[entry("hpa", 1, &spec), entry("kubelet", 1, &status)]);
        let after = object(&[entry("hpa", 5, &spec), entry("kubelet", 6, &status)]);
        assert_eq!(managers(&before, &after, &replicas(), false), ["hpa"]);
        let phase = FieldPath::of_fields(&["status", "phase"]);
        assert_eq!(managers(&before, &after, &phase, false), ["kubelet"]);
    }

    #[test]
    fn item_of_list_is_found_by_its_keys() {
        let ready =
            json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}}}}});
        let other =
            json!({"f:status": {"f:conditions": {"k:{\"type\":\"Other\"}": {".": {}, "f:status": {}}}}});
        let before = object(&[]);
        let after = object(&[entry("kubelet", 1, &ready), entry("other", 1, &other)]);
        let item = Step::Item { key: "type", value: json!("Ready") };
        let path = FieldPath::of_fields(&["status", "conditions"]).join(item);
        assert_eq!(managers(&before, &after, &path, false), ["kubelet"]);
        assert_eq!(managers(&before, &after, &path.join(Step::Field("status".into())), false), ["kubelet"]);
    }

    #[test]
    fn item_is_found_by_several_keys_and_escaped_texts() {
        let port = "k:{\"containerPort\":80,\"protocol\":\"TCP\"}";
        let fields = json!({"f:ports": {port: {"f:name": {}}}, "f:args": {"v:\"a\\u0026b\"": {}}});
        let mut after = object(&[entry("a", 1, &fields), entry("b", 1, &json!({"f:status": {}}))]);
        after["ports"] = json!([{"containerPort": 80, "protocol": "TCP", "name": "x"}]);
        after["args"] = json!(["a&b"]);
        let before = object(&[]);
        let item = Step::Item { key: "containerPort", value: json!(80) };
        let name = FieldPath::of_fields(&["ports"]).join(item).join(Step::Field("name".into()));
        assert_eq!(managers(&before, &after, &name, false), ["a"]);
        let argument = FieldPath::of_fields(&["args"]).join(Step::Index(0));
        assert_eq!(managers(&before, &after, &argument, false), ["a"]);
    }

    #[test]
    fn removal_is_attributed_to_the_writer_that_owned_the_field() {
        let both = json!({"f:spec": {"f:replicas": {}, "f:paused": {}}});
        let before = object(&[entry("a", 1, &both), entry("b", 1, &json!({"f:status": {}}))]);
        let paused = json!({"f:spec": {"f:paused": {}}});
        let after = object(&[entry("a", 2, &paused), entry("b", 2, &json!({"f:status": {}}))]);
        assert_eq!(managers(&before, &after, &replicas(), true), ["a"]);
    }

    #[test]
    fn manager_that_lost_a_field_did_not_remove_it() {
        let labels = |names: &[&str]| {
            let fields: serde_json::Map<_, _> =
                names.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
            json!({"f:metadata": {"f:labels": fields}})
        };
        let x = FieldPath::of_fields(&["metadata", "labels", "x"]);
        let before = object(&[entry("helm", 1, &labels(&["x", "y"]))]);
        let same_writer = object(&[entry("helm", 1, &labels(&["y"]))]);
        assert!(managers(&before, &same_writer, &x, true).is_empty(), "the manager is unknown");
        let alice = entry("alice", 3, &labels(&["z"]));
        let written = object(&[entry("helm", 1, &labels(&["y"])), alice.clone()]);
        assert_eq!(managers(&before, &written, &x, true), ["alice"]);
        let mut kubelet = entry("kubelet", 5, &json!({"f:status": {}}));
        kubelet["subresource"] = "status".into();
        let coalesced = object(&[entry("helm", 1, &labels(&["y"])), kubelet]);
        assert!(managers(&before, &coalesced, &x, true).is_empty(), "a write of the status keeps labels");
        // Another manager has taken the field.
        let taken = object(&[entry("helm", 1, &labels(&["y"])), entry("alice", 3, &labels(&["x"]))]);
        assert_eq!(managers(&before, &taken, &x, false), ["alice"]);
    }

    #[test]
    fn write_in_same_second_is_attributed_to_the_owner() {
        let same = object(&[
            entry("hpa", 1, &json!({"f:spec": {"f:replicas": {}}})),
            entry("kubelet", 1, &json!({"f:status": {}})),
        ]);
        assert_eq!(managers(&same, &same.clone(), &replicas(), false), ["hpa"]);
    }

    #[test]
    fn field_without_owner_is_attributed_to_the_writer() {
        let before = object(&[]);
        let after = object(&[entry("kubectl", 1, &json!({"f:spec": {"f:replicas": {}}}))]);
        let generation = FieldPath::of_fields(&["metadata", "generation"]);
        assert_eq!(managers(&before, &after, &generation, false), ["kubectl"]);
    }

    #[test]
    fn hostile_managed_fields_are_ignored() {
        let path = FieldPath::of_fields(&["spec", "replicas"]);
        for hostile in [
            json!("text"),
            json!([1, null, "x", [], {}]),
            json!([{"manager": 7, "fieldsV1": {"f:spec": {}}}]),
            json!([{"manager": "", "fieldsV1": {"f:spec": {}}}]),
        ] {
            let object = json!({"metadata": {"managedFields": hostile}});
            assert!(managers(&json!({}), &object, &path, false).is_empty(), "{hostile}");
        }
        let fields = json!({"": {}, ":": {}, "k:{": {}, "k:[]": {}, "v:": {}, "i:-1": {}, "f:spec": 3});
        let object = object(&[entry("a", 1, &fields)]);
        for step in
            [Step::Index(0), Step::Item { key: "name", value: json!("x") }, Step::Field("spec".into())]
        {
            // The only writer is named, because no manager owns the field.
            assert_eq!(managers(&json!({}), &object, &FieldPath::default().join(step), false), ["a"]);
        }
    }
}
