//! The JSON patch of a mutating webhook.

use std::collections::{HashMap, VecDeque};

use json_patch_of_kube::Patch;
use serde_json::{Map, Value};

/// Returns the patch that applies the changes of a handler to the object of the request.
///
/// `before` and `after` are the object before and after the handler, written by the type of the handler.
/// The type may not contain each field of `object`, and may write defaults that `object` lacks. The patch
/// contains only the difference between `before` and `after`.
pub(super) fn patch(object: &Value, before: &Value, after: &Value) -> Patch {
    let mut changed = object.clone();
    transfer(before, after, &mut changed);
    json_patch_of_kube::diff(object, &changed)
}

/// Changes `target` as `after` differs from `before`.
fn transfer(before: &Value, after: &Value, target: &mut Value) {
    match (before, after, target) {
        _ if before == after => {}
        (Value::Object(before), Value::Object(after), Value::Object(target)) => fields(before, after, target),
        (Value::Array(before), Value::Array(after), Value::Array(target)) if before.len() == target.len() => {
            items(before, after, target);
        }
        (_, after, target) => *target = after.clone(),
    }
}

fn fields(before: &Map<String, Value>, after: &Map<String, Value>, target: &mut Map<String, Value>) {
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        target.remove(key);
    }
    for (key, after) in after {
        let before = before.get(key).unwrap_or(&Value::Null);
        if before == after {
            continue;
        }
        transfer(before, after, target.entry(key).or_insert(Value::Null));
    }
}

/// Changes the items of a list, which the handler may add, remove and move. `name` identifies an item. An
/// item without a name is the equal item at the same position from the start or from the end, or the item at
/// the same position of a list of the same length.
fn items(before: &[Value], after: &[Value], target: &mut Vec<Value>) {
    let mut named: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (index, item) in before.iter().enumerate() {
        if let Some(name) = item["name"].as_str() {
            named.entry(name).or_default().push_back(index);
        }
    }
    let mut old: Vec<Option<Value>> = std::mem::take(target).into_iter().map(Some).collect();
    for (index, item) in after.iter().enumerate() {
        let origin = match item["name"].as_str() {
            Some(name) => named.get_mut(name).and_then(VecDeque::pop_front),
            None => {
                let from_end = (index + before.len()).checked_sub(after.len());
                let is_equal = |origin: &usize| before.get(*origin) == Some(item) && old[*origin].is_some();
                let same_position =
                    || before.len() == after.len() && before[index]["name"].as_str().is_none();
                let equal = [Some(index), from_end].into_iter().flatten().find(is_equal);
                equal.or_else(|| same_position().then_some(index))
            }
        };
        let kept = origin.and_then(|origin| Some((&before[origin], old[origin].take()?)));
        target.push(kept.map_or_else(
            || item.clone(),
            |(before, mut kept)| {
                transfer(before, item, &mut kept);
                kept
            },
        ));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Item {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u8>,
    }

    /// A type that contains only some fields, and writes defaults that objects lack.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Typed {
        #[serde(default)]
        count: u8,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default)]
        items: Vec<Item>,
    }

    fn item() -> impl Strategy<Value = Item> {
        ("[a-c]", proptest::option::of(0_u8..3)).prop_map(|(name, size)| Item { name, size })
    }

    fn typed() -> impl Strategy<Value = Typed> {
        (0_u8..3, proptest::option::of("[a-c]"), proptest::collection::vec(item(), 0..4))
            .prop_map(|(count, text, items)| Typed { count, text, items })
    }

    /// An object of a client. The object may lack defaults, contain `null`, and contain fields that
    /// `Typed` lacks.
    fn object() -> impl Strategy<Value = Value> {
        (typed(), any::<[bool; 4]>()).prop_map(|(typed, [unknown, lacks_count, lacks_items, null])| {
            let mut object = serde_json::to_value(typed).unwrap();
            let fields = object.as_object_mut().unwrap();
            if unknown {
                fields.insert("unknown".into(), json!({"a": [1, {"b": null}]}));
                for item in fields["items"].as_array_mut().unwrap() {
                    item["unknown"] = json!("kept");
                }
            }
            if lacks_count {
                fields.remove("count");
            }
            if lacks_items {
                fields.remove("items");
            }
            if null && !fields.contains_key("text") {
                fields.insert("text".into(), Value::Null);
            }
            object
        })
    }

    proptest! {
        #[test]
        fn patched_object_is_the_result_of_the_handler(object in object(), after in typed()) {
            let before: Typed = serde_json::from_value(object.clone()).unwrap();
            let [old, new] = [&before, &after].map(|typed| serde_json::to_value(typed).unwrap());
            let mut patched = object.clone();
            json_patch_of_kube::patch(&mut patched, &patch(&object, &old, &new)).unwrap();
            prop_assert_eq!(serde_json::from_value::<Typed>(patched.clone()).unwrap(), after.clone());
            prop_assert_eq!(patched.get("unknown"), object.get("unknown"));
            let names = |typed: &Typed| typed.items.iter().map(|item| item.name.clone()).collect::<Vec<_>>();
            if names(&before) == names(&after) {
                let unknown = |value: &Value| -> Vec<_> {
                    let items = value["items"].as_array().into_iter().flatten();
                    items.map(|item| item.get("unknown").cloned()).collect()
                };
                prop_assert_eq!(unknown(&patched), unknown(&object));
            }
        }

        #[test]
        fn unchanged_object_needs_no_patch(object in object()) {
            let typed: Typed = serde_json::from_value(object.clone()).unwrap();
            let value = serde_json::to_value(typed).unwrap();
            prop_assert!(patch(&object, &value, &value).0.is_empty());
        }
    }
    /// Returns the object after the patch.
    fn patched(object: &Value, before: &Value, after: &Value) -> Value {
        let mut patched = object.clone();
        json_patch_of_kube::patch(&mut patched, &patch(object, before, after)).unwrap();
        patched
    }

    #[test]
    fn item_keeps_unknown_fields_when_handler_adds_moves_or_removes_items() {
        let object = json!({"items": [{"name": "a", "new": 1}, {"name": "b", "new": 2}]});
        let before = json!({"items": [{"name": "a"}, {"name": "b"}]});
        for (after, expected) in [
            (json!(["x", "a", "b"]), json!([null, 1, 2])),
            (json!(["a", "b", "x"]), json!([1, 2, null])),
            (json!(["b", "a"]), json!([2, 1])),
            (json!(["b"]), json!([2])),
            (json!(["a", "x"]), json!([1, null])),
            (json!(["a", "a"]), json!([1, null])),
        ] {
            let items = |names: &Value| -> Vec<_> {
                names.as_array().unwrap().iter().map(|name| json!({"name": name})).collect()
            };
            let patched = patched(&object, &before, &json!({"items": items(&after)}));
            let new: Vec<_> = patched["items"].as_array().unwrap().iter().map(|item| &item["new"]).collect();
            assert_eq!(json!(new), expected, "{after}");
        }
    }

    #[test]
    fn item_without_name_keeps_unknown_fields() {
        let object = json!({"items": [{"port": 1, "new": 1}, {"port": 2, "new": 2}]});
        let before = json!({"items": [{"port": 1}, {"port": 2}]});
        for (after, expected) in [
            (json!([0, 1, 2]), json!([null, 1, 2])),
            (json!([1, 0, 2]), json!([1, null, 2])),
            (json!([1]), json!([1])),
            (json!([2]), json!([2])),
            (json!([1, 3]), json!([1, 2])),
        ] {
            let ports = after.as_array().unwrap().iter().map(|port| json!({"port": port}));
            let patched = patched(&object, &before, &json!({"items": ports.collect::<Vec<_>>()}));
            let new: Vec<_> = patched["items"].as_array().unwrap().iter().map(|item| &item["new"]).collect();
            assert_eq!(json!(new), expected, "{after}");
        }
    }

    #[test]
    fn keys_with_slashes_and_tildes_are_escaped() {
        let object = json!({"a/b": {"~1": 1, "": [null]}, "~": null});
        let after = json!({"a/b": {"~1": 2, "~0/": {}}, "~": [null]});
        assert_eq!(patched(&object, &object, &after), after);
    }
}
