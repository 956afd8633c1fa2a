//! Merges an applied object into the stored one. Leaves are replaced, and maps and keyed lists are
//! merged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use crate::schema::{ListType, Schema};
use crate::step;

/// Returns `live` with the values of `applied`.
pub(crate) fn merge(
    schema: &Schema,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Map<String, Value> {
    let mut out = live.clone();
    for (name, new) in applied {
        out.insert(name.clone(), value(schema.field(name), live.get(name), new));
    }
    out
}

fn value(schema: &Schema, live: Option<&Value>, applied: &Value) -> Value {
    match (live, applied) {
        // For a map or list, null means empty.
        (Some(live), Value::Null) if schema.is_owned_in_parts(live) => live.clone(),
        (Some(Value::Object(old)), Value::Object(new)) if !schema.atomic => {
            Value::Object(merge(schema, old, new))
        }
        (Some(Value::Array(old)), Value::Array(new)) if schema.list != ListType::Atomic => {
            Value::Array(lists(schema, old, new))
        }
        _ => applied.clone(),
    }
}

/// Merges two lists. Items in both lists have the order of the applied list. An item that
/// exists only in the stored list stays before the next item of the stored list.
fn lists(schema: &Schema, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let steps = |list: &[Value]| -> Vec<String> {
        list.iter().map(|item| step::item_step(schema, item).unwrap_or_default()).collect()
    };
    let (old, new) = (steps(live), steps(applied));
    let in_new: BTreeSet<&str> = new.iter().map(String::as_str).collect();
    let in_old: BTreeSet<&str> = old.iter().map(String::as_str).collect();
    let old_items = unique_items(&old, live);
    let mut shared: VecDeque<&str> =
        new.iter().map(String::as_str).filter(|step| in_old.contains(step)).collect();
    let mut next = shared.pop_front();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let (mut i, mut j) = (0, 0);
    loop {
        let (left, right) = (old.get(i).map(String::as_str), new.get(j).map(String::as_str));
        if let (Some(step), Some(_)) = (left, right)
            && left != right
            && in_new.contains(step)
            && next.is_some_and(|next| next != step)
        {
            // The applied list contains this item at a later position.
            i += 1;
            continue;
        }
        if let Some(step) = left
            && left != right
        {
            if !in_new.contains(step) {
                out.extend(live.get(i).cloned());
                i += 1;
                continue;
            }
            if done.contains(step) {
                i += 1;
            }
        }
        let Some(step) = right else {
            if left.is_none() {
                break;
            }
            continue;
        };
        let Some(item) = applied.get(j) else { break };
        done.insert(step);
        out.push(value(schema.item(), old_items.get(step).copied(), item));
        j += 1;
        if left == right {
            i += 1;
        }
        if left == right || next == Some(step) {
            next = shared.pop_front();
        }
    }
    out
}

/// Returns the items by step. Repeated items are omitted, because they are not merged.
fn unique_items<'a>(steps: &'a [String], items: &'a [Value]) -> BTreeMap<&'a str, &'a Value> {
    let mut found = BTreeMap::new();
    let mut repeated = BTreeSet::new();
    for (step, item) in steps.iter().zip(items) {
        if found.insert(step.as_str(), item).is_some() {
            repeated.insert(step.as_str());
        }
    }
    found.retain(|step, _| !repeated.contains(step));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;

    fn finalizers(live: &[&str], applied: &[&str]) -> Vec<String> {
        let object = |list: &[&str]| json!({"metadata": {"finalizers": list}}).as_object().unwrap().clone();
        let merged = merge(&testing::pod(), &object(live), &object(applied));
        serde_json::from_value(merged["metadata"]["finalizers"].clone()).unwrap()
    }

    #[test]
    fn items_of_both_lists_have_the_applied_order() {
        assert_eq!(finalizers(&["a", "b", "c"], &["c", "a"]), ["b", "c", "a"]);
        assert_eq!(finalizers(&["a", "x", "b"], &["a", "n", "b"]), ["a", "x", "n", "b"]);
        assert_eq!(finalizers(&[], &["a", "b"]), ["a", "b"]);
        assert_eq!(finalizers(&["a", "b"], &[]), ["a", "b"]);
    }

    #[test]
    fn maps_are_merged_and_leaves_replaced() {
        let live = json!({"spec": {"nodeSelector": {"a": "1"}, "containers": [{"name": "c", "image": "1", "tty": true}]}});
        let applied =
            json!({"spec": {"nodeSelector": {"b": "1"}, "containers": [{"name": "c", "image": "2"}]}});
        let schema = testing::pod();
        let merged = merge(&schema, live.as_object().unwrap(), applied.as_object().unwrap());
        let spec =
            json!({"nodeSelector": {"b": "1"}, "containers": [{"name": "c", "image": "2", "tty": true}]});
        assert_eq!(merged["spec"], spec);
    }
}
