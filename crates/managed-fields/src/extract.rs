//! Returns the fields of an object, and removes fields from an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::field_set::FieldSet;
use crate::schema::{ListType, Schema};
use crate::step;

/// Returns the fields of an applied object.
pub fn fields(schema: &Schema, object: &Map<String, Value>) -> FieldSet {
    let mut set = FieldSet::default();
    for (name, value) in object {
        let below = schema.field(name);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        let member = empty || !schema.is_field(name) || is_leaf(below, value);
        set.put(step::field(name), member, parts(below, value));
    }
    set
}

/// Returns whether one manager owns the entire value. An empty set or list with keys has no owner.
fn is_leaf(schema: &Schema, value: &Value) -> bool {
    match value {
        Value::Object(_) => schema.atomic,
        Value::Array(_) => schema.list == ListType::Atomic,
        _ => true,
    }
}

fn parts(schema: &Schema, value: &Value) -> FieldSet {
    match value {
        Value::Object(map) if !schema.atomic => fields(schema, map),
        Value::Array(list) if schema.list != ListType::Atomic => items(schema, list),
        _ => FieldSet::default(),
    }
}

/// Returns the fields of list items. A repeated item has no nested fields.
fn items(schema: &Schema, list: &[Value]) -> FieldSet {
    let mut known: BTreeMap<String, Option<FieldSet>> = BTreeMap::new();
    for item in list {
        let Some(step) = step::item_step(schema, item) else { continue };
        let seen = known.contains_key(&step);
        known.insert(step, if seen { None } else { Some(parts(schema.item(), item)) });
    }
    let mut set = FieldSet::default();
    for (step, below) in known {
        set.put(step, true, below.unwrap_or_default());
    }
    set
}

/// Adds the enclosing fields of all members to the set.
pub(crate) fn with_enclosing_fields(schema: &Schema, set: &FieldSet) -> FieldSet {
    let mut out = FieldSet::default();
    for (step, member, below) in set.steps() {
        let name = step::field_name(step);
        let named = name.is_some_and(|name| schema.is_field(name));
        let at = match name {
            Some(name) => schema.field(name),
            None if step::is_key(step) => schema.item(),
            None => &crate::schema::PLAIN,
        };
        let leads = !below.is_empty();
        let below = with_enclosing_fields(at, below);
        out.put(step, member || (named && leads), below);
    }
    out
}

/// Removes fields from an object. A value that loses all its parts becomes null, like on the real server.
pub(crate) fn without(
    schema: &Schema,
    object: &Map<String, Value>,
    removed: &FieldSet,
) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, value) in object {
        let step = step::field(name);
        if removed.has(&step) {
            continue;
        }
        let kept = match removed.below(&step) {
            Some(below) => reduced(schema.field(name), value, below),
            None => value.clone(),
        };
        out.insert(name.clone(), kept);
    }
    out
}

fn reduced(schema: &Schema, value: &Value, removed: &FieldSet) -> Value {
    match value {
        Value::Object(map) if !schema.atomic => {
            let kept = without(schema, map, removed);
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        Value::Array(list) if schema.list != ListType::Atomic => {
            let kept: Vec<Value> = list.iter().filter_map(|item| kept_item(schema, item, removed)).collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        Value::Object(_) | Value::Array(_) => Value::Null,
        scalar => scalar.clone(),
    }
}

fn kept_item(schema: &Schema, item: &Value, removed: &FieldSet) -> Option<Value> {
    let Some(step) = step::item_step(schema, item) else { return Some(item.clone()) };
    if removed.has(&step) {
        return None;
    }
    Some(match removed.below(&step) {
        Some(below) => reduced(schema.item(), item, below),
        None => item.clone(),
    })
}

/// Removes nulls, because fields of built-in kinds cannot be null.
pub(crate) fn drop_nulls(map: &mut Map<String, Value>) {
    map.retain(|_, value| !value.is_null());
    map.values_mut().for_each(drop_nulls_below);
}

fn drop_nulls_below(value: &mut Value) {
    match value {
        Value::Object(map) => drop_nulls(map),
        Value::Array(list) => list.iter_mut().for_each(drop_nulls_below),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diff, testing};
    use proptest::prelude::*;
    use serde_json::json;

    fn pod() -> Map<String, Value> {
        let pod = json!({
            "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x.test/1", "x.test/2"]},
            "spec": {"nodeSelector": {"n": "1"}, "securityContext": {}, "containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]},
                {"name": "d", "args": ["1", "2"], "env": []},
            ]},
        });
        pod.as_object().unwrap().clone()
    }

    #[test]
    fn fields_of_an_applied_object_are_its_leaves_and_items() {
        let set = fields(&testing::pod(), &pod());
        assert_eq!(
            set.to_json(),
            json!({
                "f:metadata": {"f:labels": {"f:a": {}, "f:b": {}},
                               "f:finalizers": {"v:\"x.test/1\"": {}, "v:\"x.test/2\"": {}}},
                "f:spec": {"f:nodeSelector": {}, "f:securityContext": {}, "f:containers": {
                    "k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:ports": {
                        "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
                        "k:{\"containerPort\":80,\"protocol\":\"UDP\"}":
                            {".": {}, "f:containerPort": {}, "f:protocol": {}}}},
                    "k:{\"name\":\"d\"}": {".": {}, "f:name": {}, "f:args": {}}}},
            })
        );
    }

    #[test]
    fn object_without_its_fields_contains_only_unowned_values() {
        let schema = testing::pod();
        let all = with_enclosing_fields(&schema, &fields(&schema, &pod()));
        assert!(without(&schema, &pod(), &all).is_empty());
    }

    proptest! {
        /// For any subset of the fields, the removed fields equal the difference.
        #[test]
        fn only_the_given_fields_are_removed(picked in proptest::collection::vec(any::<bool>(), 8)) {
            let schema = testing::pod();
            let leaves = [
                json!({"f:metadata": {"f:labels": {"f:a": {}}}}),
                json!({"f:metadata": {"f:labels": {"f:b": {}}}}),
                json!({"f:metadata": {"f:finalizers": {"v:\"x.test/1\"": {}}}}),
                json!({"f:spec": {"f:nodeSelector": {}}}),
                json!({"f:spec": {"f:securityContext": {}}}),
                json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}}}}),
                json!({"f:spec": {"f:containers": {"k:{\"name\":\"d\"}": {"f:args": {}}}}}),
                json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:ports":
                    {"k:{\"containerPort\":80,\"protocol\":\"UDP\"}":
                        {".": {}, "f:containerPort": {}, "f:protocol": {}}}}}}}),
            ];
            let mut chosen = FieldSet::default();
            for (leaf, _) in leaves.iter().zip(&picked).filter(|(_, picked)| **picked) {
                chosen.add(FieldSet::from_json(leaf).unwrap());
            }
            let mut left = without(&schema, &pod(), &chosen);
            drop_nulls(&mut left);
            let changes = diff::changes(&schema, &pod(), &left);
            prop_assert!(changes.written.is_empty());
            let mut removed = changes.removed;
            // A map without entries is also removed.
            removed.subtract(&FieldSet::from_paths(&[&["metadata", "labels"]]));
            prop_assert_eq!(removed, chosen);
        }
    }
}
