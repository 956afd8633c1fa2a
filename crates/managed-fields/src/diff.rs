//! The changed fields of a write, in one walk over both states. Equal values are not visited further.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::field_set::FieldSet;
use crate::schema::{ListType, Schema};
use crate::step;

/// Contains the fields that differ between two states of an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The removed fields.
    pub removed: FieldSet,
    /// The fields that are new or have another value.
    pub written: FieldSet,
}

/// The change of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldChange {
    Same,
    Removed,
    Written,
}

/// Compares two states of an object.
pub fn changes(schema: &Schema, before: &Map<String, Value>, after: &Map<String, Value>) -> Changes {
    let mut changes = Changes::default();
    maps(schema, Some(before), Some(after), &mut changes);
    changes
}

/// Compares the value before with the value after.
fn value(schema: &Schema, before: Option<&Value>, after: Option<&Value>) -> (FieldChange, Changes) {
    let mut below = Changes::default();
    let is_leaf = !before.is_some_and(|value| schema.is_owned_in_parts(value))
        && !after.is_some_and(|value| schema.is_owned_in_parts(value));
    if is_leaf {
        return (leaf(before, after), below);
    }
    let before_map = before.and_then(Value::as_object);
    let after_map = after.and_then(Value::as_object);
    maps(schema, before_map, after_map, &mut below);
    lists(schema, list(before), list(after), &mut below);
    let change = match (before, after) {
        (None, _) => FieldChange::Written,
        (_, None) => FieldChange::Removed,
        // A scalar replaced a value with parts.
        (Some(_), Some(after)) if !after.is_object() && !after.is_array() && !after.is_null() => {
            FieldChange::Written
        }
        _ => FieldChange::Same,
    };
    (change, below)
}

fn leaf(before: Option<&Value>, after: Option<&Value>) -> FieldChange {
    match (before, after) {
        (None, None) => FieldChange::Same,
        (None, Some(_)) => FieldChange::Written,
        (Some(_), None) => FieldChange::Removed,
        (Some(before), Some(after)) if before == after => FieldChange::Same,
        (Some(_), Some(_)) => FieldChange::Written,
    }
}

fn list(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}

fn maps(
    schema: &Schema,
    before: Option<&Map<String, Value>>,
    after: Option<&Map<String, Value>>,
    changes: &mut Changes,
) {
    let record = |changes: &mut Changes, name: &str, old: Option<&Value>, new: Option<&Value>| {
        if old == new {
            return;
        }
        let schema = schema.field(name);
        let old = old.or_else(|| empty(schema, before.is_some()));
        let new = new.or_else(|| empty(schema, after.is_some()));
        let (change, below) = value(schema, old, new);
        enter(changes, || step::field(name), change, below);
    };
    for (name, old) in before.into_iter().flatten() {
        record(changes, name, Some(old), after.and_then(|after| after.get(name)));
    }
    // A separate set, because sets are faster if their steps arrive in order.
    let mut new = Changes::default();
    for (name, value) in after.into_iter().flatten() {
        if before.is_none_or(|before| !before.contains_key(name)) {
            record(&mut new, name, None, Some(value));
        }
    }
    changes.written.add(new.written);
    changes.removed.add(new.removed);
}

static EMPTY: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

/// Returns the empty value that the real server adds to the enclosing object, if any.
fn empty(schema: &Schema, inside: bool) -> Option<&'static Value> {
    (schema.defaults_to_empty && inside).then(|| &*EMPTY)
}

fn enter(changes: &mut Changes, step: impl Fn() -> String, change: FieldChange, below: Changes) {
    if change == FieldChange::Removed || !below.removed.is_empty() {
        changes.removed.put(step(), change == FieldChange::Removed, below.removed);
    }
    if change == FieldChange::Written || !below.written.is_empty() {
        changes.written.put(step(), change == FieldChange::Written, below.written);
    }
}

/// Compares the items of both lists by key. Repeated items are compared as one value.
fn lists(schema: &Schema, before: Option<&[Value]>, after: Option<&[Value]>, changes: &mut Changes) {
    if schema.list == ListType::Atomic {
        return;
    }
    let sides = before.into_iter().flatten().map(|item| (true, item));
    let sides = sides.chain(after.into_iter().flatten().map(|item| (false, item)));
    let mut items: Vec<(String, bool, &Value)> =
        sides.filter_map(|(is_old, item)| Some((step::item_step(schema, item)?, is_old, item))).collect();
    // Stable, so that the items of one step keep their order, the old items first.
    items.sort_by(|a, b| a.0.cmp(&b.0));
    let of = schema.item();
    for group in items.chunk_by(|a, b| a.0 == b.0) {
        let (old, new) = group.split_at(group.partition_point(|(_, is_old, _)| *is_old));
        let Some((step, ..)) = group.first() else { continue };
        let (change, below) = match (old, new) {
            ([] | [_], [] | [_]) => {
                let (old, new) = (old.first().map(|old| old.2), new.first().map(|new| new.2));
                if old == new {
                    continue;
                }
                value(of, old, new)
            }
            (old, new) => {
                let is_same = old.iter().map(|old| old.2).eq(new.iter().map(|new| new.2));
                let change = match new {
                    _ if is_same => FieldChange::Same,
                    [] => FieldChange::Removed,
                    _ => FieldChange::Written,
                };
                (change, Changes::default())
            }
        };
        enter(changes, || step.clone(), change, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;

    fn compare(schema: &Schema, before: &Value, after: &Value) -> Changes {
        changes(schema, before.as_object().unwrap(), after.as_object().unwrap())
    }

    #[test]
    fn new_map_and_entries_are_written_but_added_empty_values_are_not() {
        let after = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let changes = compare(&testing::pod(), &json!({}), &after);
        assert_eq!(
            changes.written.to_json(),
            json!({
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}},
            })
        );
        assert!(changes.removed.is_empty());
    }

    #[test]
    fn only_changed_fields_are_returned() {
        let before = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}],
            "nodeSelector": {"x": "1"}, "tolerations": [{"key": "k"}]}});
        let after = json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}],
            "nodeSelector": {"x": "2"}, "tolerations": [{"key": "k"}]}});
        let changes = compare(&testing::pod(), &before, &after);
        assert_eq!(
            changes.written.to_json(),
            json!({"f:spec": {"f:nodeSelector": {}, "f:containers": {
                "k:{\"name\":\"b\"}": {"f:image": {}}, "k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}}})
        );
        assert_eq!(
            changes.removed.to_json(),
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}}}}})
        );
    }

    #[test]
    fn repeated_items_are_one_field() {
        let schema = testing::pod();
        let env = |env: Value| json!({"spec": {"containers": [{"name": "c", "env": env}]}});
        let one = env(json!([{"name": "A", "value": "1"}]));
        let two = env(json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]));
        let added = compare(&schema, &one, &two);
        let step = json!({"k:{\"name\":\"A\"}": {}});
        let around =
            |below: &Value| json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:env": below}}}});
        assert_eq!(added.written.to_json(), around(&step));
        let back = compare(&schema, &two, &one);
        assert_eq!(back.written.to_json(), around(&step));
    }

    #[test]
    fn custom_resources_have_no_added_empty_values() {
        let schema = Schema::any_resource();
        let changes = compare(&schema, &json!({}), &json!({"spec": {"a": {"b": 1}, "list": [1]}}));
        assert_eq!(
            changes.written.to_json(),
            json!({"f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:list": {}}})
        );
    }
}
