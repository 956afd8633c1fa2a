//! Finds the field manager that wrote a version of an object, and the fields that it changed. Does no I/O.

use serde_json::{Map, Value};

/// The name of the writer of a deletion, which is not in managedFields.
pub(super) const DELETION: &str = "(delete)";
/// The name of a writer that is not in managedFields.
pub(super) const UNKNOWN_MANAGER: &str = "(unknown)";
/// The maximum number of names in the path of a changed field. Deeper changes are reported for this path.
const MAX_DEPTH: usize = 5;
/// The maximum number of changed fields of a version.
const MAX_FIELDS: usize = 20;

/// A field manager and the fields that it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attribution {
    /// The manager, with its subresource: `kubelet (status)`.
    pub(super) manager: String,
    /// The paths of the changed fields. Lists are one field.
    pub(super) fields: Vec<String>,
}

/// A path of field names.
type Path = Vec<String>;

/// Finds the writer of the version `after`, which follows `before`. Without `before`, the writer created the
/// object.
pub(super) fn attribute(before: Option<&Value>, after: &Value) -> Attribution {
    let mut changed = Vec::new();
    if let Some(before) = before {
        diff(before, after, &mut Vec::new(), &mut changed);
    }
    let is_deletion =
        changed.iter().any(|path| matches!(&path[..], [_, field] if field == "deletionTimestamp"));
    let unknown = if is_deletion { DELETION } else { UNKNOWN_MANAGER };
    let manager = writer(before, after, &changed).map_or_else(|| unknown.to_owned(), name);
    Attribution { manager, fields: changed.iter().map(text).collect() }
}

/// Returns the entry of the writer. A server sets the time of the entry at each write, in seconds.
///
/// If not exactly one manager has a new time, the writer is the latest manager that owns a changed field.
fn writer<'a>(before: Option<&Value>, after: &'a Value, changed: &[Path]) -> Option<&'a Value> {
    let entries = || managers(after);
    let is_new = |entry: &&Value| {
        let same = before.and_then(|before| managers(before).find(|old| identity(old) == identity(entry)));
        same.is_none_or(|old| old.get("time") != entry.get("time"))
    };
    let mut new = entries().filter(is_new);
    if let (Some(only), None) = (new.next(), new.next()) {
        return Some(only);
    }
    let owns = |entry: &&Value| changed.iter().any(|path| owns(entry, path));
    let latest = |entries: &mut dyn Iterator<Item = &'a Value>| entries.max_by_key(|entry| time(entry));
    let owner =
        latest(&mut entries().filter(is_new).filter(owns)).or_else(|| latest(&mut entries().filter(owns)));
    owner.or_else(|| if before.is_none() { latest(&mut entries()) } else { None })
}

fn managers(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
}

fn identity(entry: &Value) -> [Option<&Value>; 4] {
    ["manager", "operation", "subresource", "apiVersion"].map(|name| entry.get(name))
}

fn time(entry: &Value) -> &str {
    entry.get("time").and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether the entry owns the field or a part of the field.
fn owns(entry: &Value, path: &Path) -> bool {
    let mut fields = entry.get("fieldsV1");
    for name in path {
        fields = match fields {
            // The manager owns the value around the field, and not its parts.
            Some(Value::Object(map)) if map.is_empty() => return true,
            Some(Value::Object(map)) => map.get(&format!("f:{name}")),
            _ => return false,
        };
    }
    fields.is_some()
}

fn name(entry: &Value) -> String {
    let text = |name| entry.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let manager = text("manager").unwrap_or(UNKNOWN_MANAGER);
    match text("subresource") {
        Some(subresource) => format!("{manager} ({subresource})"),
        None => manager.to_owned(),
    }
}

/// Collects the paths of the fields that differ, except for the fields that each write changes. `kind` and
/// `apiVersion` are absent in lists and present in events, so they are not changes.
fn diff(before: &Value, after: &Value, path: &mut Path, changed: &mut Vec<Path>) {
    if before == after || changed.len() == MAX_FIELDS || is_bookkeeping(path) {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) if path.len() < MAX_DEPTH => {
            diff_maps(before, after, path, changed);
        }
        _ => changed.push(path.clone()),
    }
}

fn diff_maps(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &mut Path,
    changed: &mut Vec<Path>,
) {
    let removed = before.iter().filter(|(name, _)| !after.contains_key(*name));
    let removed = removed.map(|(name, value)| (name, value, &Value::Null));
    let kept = after.iter().map(|(name, value)| (name, before.get(name).unwrap_or(&Value::Null), value));
    for (name, before, after) in kept.chain(removed) {
        path.push(name.clone());
        diff(before, after, path, changed);
        path.pop();
    }
}

fn is_bookkeeping(path: &[String]) -> bool {
    match path {
        [metadata, field] if metadata == "metadata" => {
            matches!(field.as_str(), "managedFields" | "resourceVersion" | "generation")
        }
        [field] => matches!(field.as_str(), "kind" | "apiVersion"),
        _ => false,
    }
}

/// Formats a path. Names with other characters than letters and digits are in brackets.
fn text(path: &Path) -> String {
    let step = |name: &String| {
        let is_plain =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if is_plain { format!(".{name}") } else { format!("[{name:?}]") }
    };
    path.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(ready: &str, managers: &[(&str, &str, &str, Value)]) -> Value {
        let entries: Vec<_> = managers
            .iter()
            .map(|(manager, subresource, time, fields)| {
                json!({"manager": manager, "operation": "Update", "subresource": subresource, "time": time, "fieldsV1": fields})
            })
            .collect();
        json!({
            "metadata": {"name": "a", "managedFields": entries, "resourceVersion": ready},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    fn status() -> Value {
        json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {"f:status": {}}}}})
    }

    fn spec() -> Value {
        json!({"f:spec": {"f:replicas": {}}})
    }

    #[test]
    fn writer_has_a_new_time() {
        let before = object("True", &[("ctl", "", "1", spec()), ("kubelet", "status", "1", status())]);
        let after = object("False", &[("ctl", "", "1", spec()), ("kubelet", "status", "2", status())]);
        let expected =
            Attribution { manager: "kubelet (status)".into(), fields: vec![".status.conditions".into()] };
        assert_eq!(attribute(Some(&before), &after), expected);
    }

    #[test]
    fn writer_in_the_same_second_owns_the_changed_field() {
        let managers = [("ctl", "", "9", spec()), ("kubelet", "status", "9", status())];
        let (before, after) = (object("True", &managers), object("False", &managers));
        assert_eq!(attribute(Some(&before), &after).manager, "kubelet (status)");
    }

    #[test]
    fn creator_is_the_latest_manager() {
        let created = object("True", &[("ctl", "", "1", spec()), ("kubelet", "status", "2", status())]);
        assert_eq!(
            attribute(None, &created),
            Attribution { manager: "kubelet (status)".into(), fields: vec![] }
        );
        let created = object("True", &[("ctl", "", "1", spec())]);
        assert_eq!(attribute(None, &created).manager, "ctl");
    }

    #[test]
    fn object_without_managers_has_unknown_writer() {
        let (before, after) = (object("True", &[]), object("False", &[]));
        assert_eq!(attribute(Some(&before), &after).manager, UNKNOWN_MANAGER);
        for hostile in
            [json!([]), json!({"metadata": {"managedFields": [7, {"manager": 1, "fieldsV1": []}]}})]
        {
            assert_eq!(attribute(Some(&before), &hostile).manager, UNKNOWN_MANAGER, "{hostile}");
        }
    }

    #[test]
    fn start_of_deletion_has_no_manager() {
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(attribute(Some(&json!({"metadata": {}})), &deleted).manager, DELETION);
    }

    #[test]
    fn kind_in_event_is_not_a_change() {
        let event = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"generation": 2}});
        assert!(attribute(Some(&json!({"metadata": {"generation": 1}})), &event).fields.is_empty());
    }

    #[test]
    fn changed_paths_are_limited() {
        let many = |value: &str| {
            let data: Map<String, Value> = (0..500).map(|key| (format!("key.{key}"), json!(value))).collect();
            json!({"data": data})
        };
        let attribution = attribute(Some(&many("a")), &many("b"));
        assert_eq!(attribution.fields.len(), MAX_FIELDS);
        assert_eq!(attribution.fields[0], r#".data["key.0"]"#);
        let deep = |value: &str| json!({"a": {"b": {"c": {"d": {"e": {"f": value}}}}}});
        assert_eq!(attribute(Some(&deep("x")), &deep("y")).fields, [".a.b.c.d.e"]);
    }
}
