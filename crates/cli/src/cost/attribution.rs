//! Returns the writer of an event, and the fields that it changed. Does no I/O.

use serde_json::Value;

use crate::changes::{FieldPath, Step, update};

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

/// Finds the writer of the version `after`, which follows `before`. Without `before`, the writer created the
/// object.
pub(super) fn attribute(before: Option<&Value>, after: &Value) -> Attribution {
    let update = update(before, after);
    let is_deletion = update.paths.iter().any(|path| names(path).eq(["metadata", "deletionTimestamp"]));
    let unknown = if is_deletion { DELETION } else { UNKNOWN_MANAGER };
    let mut fields = Vec::new();
    for path in update.paths.iter().filter(|path| !names(path).eq(["metadata", "generation"])) {
        let field = text(path);
        if fields.len() < MAX_FIELDS && !fields.contains(&field) {
            fields.push(field);
        }
    }
    Attribution { manager: update.writer.unwrap_or_else(|| unknown.to_owned()), fields }
}

/// Returns the names of a path up to its first list.
fn names(path: &FieldPath) -> impl Iterator<Item = &str> {
    path.steps().iter().map_while(|step| match step {
        Step::Field(name) => Some(name.as_str()),
        Step::Item { .. } | Step::Index(_) => None,
    })
}

/// Formats a path up to its first list, with few names. Names with other characters than letters and digits
/// are in brackets.
fn text(path: &FieldPath) -> String {
    let step = |name: &str| {
        let is_plain =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if is_plain { format!(".{name}") } else { format!("[{name:?}]") }
    };
    names(path).take(MAX_DEPTH).map(step).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

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
    fn event_belongs_to_the_manager_with_a_new_time() {
        let before = object("True", &[("ctl", "", "1", spec()), ("kubelet", "status", "1", status())]);
        let after = object("False", &[("ctl", "", "1", spec()), ("kubelet", "status", "2", status())]);
        let expected =
            Attribution { manager: "kubelet (status)".into(), fields: vec![".status.conditions".into()] };
        assert_eq!(attribute(Some(&before), &after), expected);
    }

    #[test]
    fn in_the_same_second_event_belongs_to_the_owner_of_the_field() {
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
