//! Comparison of JSON values: equality, and containment of requested fields. Pure functions.

use serde_json::{Map, Number, Value};

/// Returns whether both values mean the same. A null field equals an absent field, and 1 equals
/// 1.0. An empty list or object differs from an absent field, because it can be a value (`emptyDir:
/// {}`).
pub(crate) fn json_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            // Each pair of values is compared once. Otherwise, the time would be exponential in the depth.
            left.iter().all(|(key, left)| json_equal(left, field(right, key)))
                && right.iter().all(|(key, right)| right.is_null() || left.contains_key(key))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| json_equal(left, right))
        }
        (Value::Number(left), Value::Number(right)) => number_equal(left, right),
        _ => left == right,
    }
}

/// Returns whether `actual` contains all fields of `requested` with the same values. Lists must
/// have the same number of elements in the same order, and each element must contain the requested
/// fields.
pub(crate) fn json_contains(actual: &Value, requested: &Value) -> bool {
    match (actual, requested) {
        (Value::Object(actual), Value::Object(requested)) => {
            requested.iter().all(|(key, requested)| json_contains(field(actual, key), requested))
        }
        (Value::Array(actual), Value::Array(requested)) => {
            actual.len() == requested.len()
                && actual.iter().zip(requested).all(|(actual, requested)| json_contains(actual, requested))
        }
        (Value::Number(actual), Value::Number(requested)) => number_equal(actual, requested),
        _ => actual == requested,
    }
}

/// Returns the JSON merge patch (RFC 7386) that changes `before` into `after`, or `None` if they are equal.
/// A null field equals an absent field.
pub(crate) fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return (!json_equal(before, after)).then(|| without_nulls(after));
    };
    let removed = before.iter().filter(|(key, value)| !value.is_null() && field(after, key).is_null());
    let mut patch: Map<String, Value> = removed.map(|(key, _)| (key.clone(), Value::Null)).collect();
    for (key, after) in after.iter().filter(|(_, value)| !value.is_null()) {
        patch.extend(merge_patch(field(before, key), after).map(|patch| (key.clone(), patch)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Removes null fields from the objects in a value. In a list, a merge patch does not remove them.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields.map(|(key, value)| (key.clone(), without_nulls(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Returns the path of the first requested value that `actual` does not contain, such as
/// `spec.containers[0].image`. The path contains no values.
pub(crate) fn first_difference(actual: &Value, requested: &Value) -> Option<String> {
    let (part, rest) = match (actual, requested) {
        (Value::Object(actual), Value::Object(requested)) => {
            requested.iter().find_map(|(key, requested)| {
                Some((key.clone(), first_difference(field(actual, key), requested)?))
            })?
        }
        (Value::Array(actual), Value::Array(requested)) if actual.len() == requested.len() => {
            let mut pairs = actual.iter().zip(requested).enumerate();
            pairs.find_map(|(index, (actual, requested))| {
                Some((format!("[{index}]"), first_difference(actual, requested)?))
            })?
        }
        _ => return (!json_contains(actual, requested)).then(String::new),
    };
    Some(if rest.is_empty() || rest.starts_with('[') { part + &rest } else { format!("{part}.{rest}") })
}

fn field<'a>(object: &'a Map<String, Value>, key: &str) -> &'a Value {
    object.get(key).unwrap_or(&Value::Null)
}

fn number_equal(left: &Number, right: &Number) -> bool {
    // As floats, different large integers could be equal.
    left == right || ((left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equivalent_values_are_equal() {
        let object = json!({"a": 1, "b": [{"c": "x"}], "d": {}});
        for equivalent in [
            json!({"d": {}, "b": [{"c": "x"}], "a": 1}),
            json!({"a": 1.0, "b": [{"c": "x", "e": null}], "d": {"f": null}, "g": null}),
        ] {
            assert!(json_equal(&object, &equivalent) && json_equal(&equivalent, &object), "{equivalent}");
        }
        for different in [
            json!({"a": 2, "b": [{"c": "x"}], "d": {}}),
            json!({"a": 1, "b": [{"c": "y"}], "d": {}}),
            json!({"a": 1, "b": [{"c": "x"}, {}], "d": {}}),
            json!({"a": 1, "b": [], "d": {}}),
            json!({"a": 1, "b": [{"c": "x"}]}),
            json!({"a": "1", "b": [{"c": "x"}], "d": {}}),
            json!({"a": 1, "b": [{"c": "x"}], "d": {}, "e": []}),
            json!(null),
        ] {
            assert!(!json_equal(&object, &different) && !json_equal(&different, &object), "{different}");
        }
        assert!(!json_equal(&json!(u64::MAX), &json!(u64::MAX - 1)));
    }

    #[test]
    fn json_contains_requires_every_requested_value() {
        let actual =
            json!({"a": 1, "b": [{"c": "x", "default": 1}, {"c": "y"}], "d": {"e": 1, "f": 2}, "g": {}});
        for requested in [
            json!({}),
            json!({"a": 1.0}),
            json!({"b": [{"c": "x"}, {}]}),
            json!({"d": {"e": 1}, "g": {}}),
            json!({"h": null}),
            actual.clone(),
        ] {
            assert!(json_contains(&actual, &requested), "{requested}");
        }
        for requested in [
            json!({"a": 2}),
            json!({"a": null}),
            json!({"b": [{"c": "x"}]}),
            json!({"b": [{"c": "y"}, {"c": "x"}]}),
            json!({"b": [{"c": "x"}, {"c": "y"}, {}]}),
            json!({"d": {"e": 1, "g": 1}}),
            json!({"h": {}}),
            json!({"h": []}),
            json!([]),
        ] {
            assert!(!json_contains(&actual, &requested), "{requested}");
        }
    }

    #[test]
    fn first_difference_is_a_path() {
        let actual =
            json!({"spec": {"replicas": 2, "containers": [{"name": "a", "image": "x"}]}, "data": {}});
        let path = |requested: Value| first_difference(&actual, &requested);
        assert_eq!(path(json!({"spec": {"replicas": 2}})), None);
        for (requested, expected) in [
            (json!({"spec": {"replicas": 3}}), "spec.replicas"),
            (json!({"spec": {"containers": [{"image": "y"}]}}), "spec.containers[0].image"),
            (json!({"spec": {"containers": []}}), "spec.containers"),
            (json!({"data": {"a.b": "c"}}), "data.a.b"),
            (json!({"status": null, "spec": 1}), "spec"),
        ] {
            assert_eq!(path(requested).as_deref(), Some(expected));
        }
    }

    #[test]
    fn merge_patch_contains_only_changes() {
        let before = json!({"a": 1, "b": {"c": 1, "d": [1]}, "e": "x", "f": null});
        let patch = |after: Value| merge_patch(&before, &after);
        assert_eq!(patch(json!({"a": 1, "b": {"c": 1, "d": [1]}, "e": "x", "g": null})), None);
        for (after, expected) in [
            (json!({"a": 2, "b": {"c": 1, "d": [1]}, "e": "x"}), json!({"a": 2})),
            (json!({"a": 1, "b": {"d": [1, 2]}, "e": "x"}), json!({"b": {"c": null, "d": [1, 2]}})),
            (json!({"a": 1, "b": {"c": 1, "d": [1]}, "f": 3}), json!({"e": null, "f": 3})),
            (json!({"a": 1, "b": "y", "e": "x"}), json!({"b": "y"})),
            (
                json!({"a": 1, "b": {"c": 1, "d": [{"x": null, "y": 1}]}, "e": "x"}),
                json!({"b": {"d": [{"y": 1}]}}),
            ),
            (Value::Null, Value::Null),
        ] {
            assert_eq!(patch(after), Some(expected));
        }
    }

    /// A comparison that visits each pair twice would take 2^64 steps.
    #[test]
    fn deep_values_are_compared_in_linear_time() {
        let nested = |leaf| (0..64).fold(json!(leaf), |inner, _| json!({"a": inner}));
        assert!(json_equal(&nested(1), &nested(1)));
        assert!(json_contains(&nested(1), &nested(1)));
        assert_eq!(merge_patch(&nested(1), &nested(1)), None);
        assert_eq!(merge_patch(&nested(1), &nested(2)), Some(nested(2)));
    }
}
