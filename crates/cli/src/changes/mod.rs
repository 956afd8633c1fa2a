//! The changes between two states of an object, with the field managers that made them.

mod diff;
mod managers;
mod path;
mod secrets;
mod work;

use serde_json::Value;

pub(crate) use path::{FieldPath, Pattern, Step, text_of};
pub(crate) use secrets::{is_hidden, visit_scalars};

/// The maximum number of changes of one update. An object of 1 MiB can contain far more fields.
const MAX_CHANGES: usize = 200;

/// The changes of one update.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    pub(crate) list: Vec<Change>,
    /// The number of further changes, which the list does not contain.
    pub(crate) omitted: usize,
}

/// A field that differs between two states of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) path: FieldPath,
    pub(crate) before: FieldValue,
    pub(crate) after: FieldValue,
    /// The field managers that made the change, sorted. Empty if managedFields do not contain the manager.
    pub(crate) managers: Vec<String>,
}

/// The value of a field in one state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldValue {
    /// The state does not contain the field.
    Absent,
    /// The value is not secret.
    Shown(Value),
    /// The value is a part of a Secret, or a copy of an object. It must not be printed.
    Hidden,
}

/// One update of an object, without the values of fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Update {
    /// The field manager, with its subresource: `kubelet (status)`. `None` if it is unknown.
    pub(crate) writer: Option<String>,
    /// The first 200 fields that differ. Empty for the creation of the object.
    pub(crate) paths: Vec<FieldPath>,
}

/// Returns the writer of the version `after`, and the fields that differ. Without `before`, the writer
/// created the object.
pub(crate) fn update(before: Option<&Value>, after: &Value) -> Update {
    let Some(before) = before else {
        let writer = managers::Authors::new(&Value::Null, after).writer(std::iter::empty());
        return Update { writer, paths: Vec::new() };
    };
    let mut differences = diff::differences(false, before, after);
    differences.truncate(MAX_CHANGES);
    let changes = differences.iter().map(|difference| (&difference.path, difference.after.is_none()));
    let writer = managers::Authors::new(before, after).writer(changes);
    Update { writer, paths: differences.into_iter().map(|difference| difference.path).collect() }
}

/// Returns the selected fields that differ, ordered by their names. An empty selection selects all fields.
/// Ignores `metadata.resourceVersion` and `metadata.managedFields`.
///
/// `is_sensitive` hides the contents of the object.
pub(crate) fn changes(is_sensitive: bool, before: &Value, after: &Value, only: &[Pattern]) -> Changes {
    let mut differences = diff::differences(is_sensitive, before, after);
    differences.retain(|difference| {
        only.is_empty() || only.iter().any(|pattern| pattern.concerns(&difference.path))
    });
    let omitted = differences.len().saturating_sub(MAX_CHANGES);
    differences.truncate(MAX_CHANGES);
    if differences.is_empty() {
        return Changes::default();
    }
    // Finding the managers is the slow part.
    let authors = managers::Authors::new(before, after);
    let change = |difference: diff::Difference<'_>| {
        let value = |value: Option<&Value>| match value {
            None => FieldValue::Absent,
            Some(_) if secrets::is_hidden(is_sensitive, &difference.path) => FieldValue::Hidden,
            Some(value) => FieldValue::Shown(value.clone()),
        };
        Change {
            before: value(difference.before),
            after: value(difference.after),
            managers: authors.of(&difference.path, difference.after.is_none()),
            path: difference.path,
        }
    };
    Changes { list: differences.into_iter().map(change).collect(), omitted }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_secrets_are_omitted() {
        let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
        let secret = |text: &str| {
            json!({
                "metadata": {"annotations": {last_applied: text}, "labels": {"a": text}},
                "data": {"password": text}, "stringData": {"password": text}, "type": text,
            })
        };
        let changes = changes(true, &secret("old-1"), &secret("new-2"), &[]).list;
        let shown: Vec<_> = changes
            .iter()
            .filter(|change| change.after != FieldValue::Hidden)
            .map(|change| change.path.to_string())
            .collect();
        assert_eq!(shown, ["metadata.labels.a", "type"]);
        assert_eq!(changes.len(), 5);
    }

    #[test]
    fn copy_of_object_in_annotation_is_omitted() {
        let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
        let object = |text: &str| json!({"metadata": {"annotations": {last_applied: text}}, "spec": text});
        let changes = changes(false, &object("a"), &object("b"), &[]).list;
        assert_eq!(changes[0].after, FieldValue::Hidden);
        assert_eq!(changes[1].after, FieldValue::Shown(json!("b")));
    }

    #[test]
    fn path_in_secret_contains_no_key_of_list_item() {
        let secret = |value: &str| json!({"extra": {"arr": [{"name": "LEAK", "value": value}]}, "type": "x"});
        let changes = changes(true, &secret("a"), &secret("b"), &[]).list;
        let paths: Vec<_> = changes.iter().map(|change| change.path.to_string()).collect();
        assert_eq!(paths, ["extra.arr[0].value"]);
        assert_eq!(changes[0].after, FieldValue::Hidden);
    }

    /// Returns an object with a list and a map of this many entries, which a manager owns.
    fn large_object(entries: usize, value: &str, second: usize) -> Value {
        let items: Vec<Value> =
            (0..entries).map(|at| json!({"name": format!("port-{at}"), "value": value})).collect();
        let data = (0..entries).map(|at| (format!("key-{at}"), json!(value)));
        let owned_items = (0..entries).map(|at| {
            (format!("k:{{\"name\":\"port-{at}\"}}"), json!({".": {}, "f:name": {}, "f:value": {}}))
        });
        let owned_data = (0..entries).map(|at| (format!("f:key-{at}"), json!({})));
        let fields = json!({
            "f:spec": {"f:ports": owned_items.collect::<serde_json::Map<_, _>>()},
            "f:data": owned_data.collect::<serde_json::Map<_, _>>(),
        });
        json!({
            "metadata": {"managedFields": [{
                "manager": "m", "operation": "Update", "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsV1": fields,
            }]},
            "spec": {"ports": items},
            "data": data.collect::<serde_json::Map<_, _>>(),
        })
    }

    #[test]
    fn work_grows_linearly_with_the_object() {
        let steps = |entries: usize| {
            let (before, after) = (large_object(entries, "a", 1), large_object(entries, "b", 2));
            let of_update = work::steps_of(|| assert_eq!(update(Some(&before), &after).writer.unwrap(), "m"));
            let of_changes = work::steps_of(|| {
                assert_eq!(changes(false, &before, &after, &[]).omitted, 2 * entries - 200);
            });
            let of_removal = work::steps_of(|| update(Some(&after), &json!({"metadata": after["metadata"]})));
            [of_update, of_changes, of_removal]
        };
        let all = [1000, 2000, 4000].map(|entries| (entries, steps(entries)));
        for (entries, steps) in all {
            // Each change is compared with few entries. An attribution of each of the 200 changes can read
            // all list items once.
            assert!(steps.iter().all(|steps| (entries..300 * entries).contains(steps)), "{all:?}");
        }
        for (small, large) in all[0].1.iter().zip(all[2].1) {
            assert!(
                large <= 5 * small,
                "four times the entries need more than five times the steps: {all:?}"
            );
        }
    }

    #[test]
    fn changes_beyond_the_limit_are_counted() {
        let object = |value: i64| {
            let fields = (0..300).map(|index| (format!("f{index:03}"), json!(value)));
            json!({"data": fields.collect::<serde_json::Map<_, _>>()})
        };
        let all = changes(false, &object(1), &object(2), &[]);
        assert_eq!((all.list.len(), all.omitted), (MAX_CHANGES, 100));
        let one = changes(false, &object(1), &object(2), &["data.f299".parse().unwrap()]);
        assert_eq!((one.list.len(), one.omitted), (1, 0), "the selection precedes the limit");
    }
}
