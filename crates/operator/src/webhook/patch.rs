//! The JSON patch of a mutating webhook.

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
        // Without a key, only the position identifies the item of `target` that equals an item of `after`.
        (Value::Array(before), Value::Array(after), Value::Array(target))
            if before.len() == after.len() && before.len() == target.len() =>
        {
            for ((before, after), target) in before.iter().zip(after).zip(target) {
                transfer(before, after, target);
            }
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
            if before.items.len() == after.items.len() {
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
}
