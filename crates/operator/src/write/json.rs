//! When two JSON values mean the same, and when one holds all that another one asks for. Pure.

use serde_json::{Map, Number, Value};

/// Whether both mean the same: a field that is null is as good as absent, and 1 is 1.0. An empty list or object is not
/// absent: of some fields (`emptyDir: {}`) it is all that is said.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.keys().chain(other.keys()).all(|key| same(field(one, key), field(other, key)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Number(one), Value::Number(other)) => same_number(one, other),
        _ => one == other,
    }
}

/// Whether `there` holds all of `asked`, with the same values. A list is asked for as a whole: its elements hold what is
/// asked for of each, in this order, and there are no others.
pub(crate) fn holds(there: &Value, asked: &Value) -> bool {
    match (there, asked) {
        (Value::Object(there), Value::Object(asked)) => {
            asked.iter().all(|(key, asked)| holds(field(there, key), asked))
        }
        (Value::Array(there), Value::Array(asked)) => {
            there.len() == asked.len() && there.iter().zip(asked).all(|(there, asked)| holds(there, asked))
        }
        (Value::Number(there), Value::Number(asked)) => same_number(there, asked),
        _ => there == asked,
    }
}

fn field<'a>(object: &'a Map<String, Value>, key: &str) -> &'a Value {
    object.get(key).unwrap_or(&Value::Null)
}

fn same_number(one: &Number, other: &Number) -> bool {
    // Large integers are not compared as floats, which can't tell them apart.
    one == other || ((one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equivalent_values_are_equal() {
        let object = json!({"a": 1, "b": [{"c": "x"}], "d": {}});
        for alike in [
            json!({"d": {}, "b": [{"c": "x"}], "a": 1}),
            json!({"a": 1.0, "b": [{"c": "x", "e": null}], "d": {"f": null}, "g": null}),
        ] {
            assert!(same(&object, &alike) && same(&alike, &object), "{alike}");
        }
        for other in [
            json!({"a": 2, "b": [{"c": "x"}], "d": {}}),
            json!({"a": 1, "b": [{"c": "y"}], "d": {}}),
            json!({"a": 1, "b": [{"c": "x"}, {}], "d": {}}),
            json!({"a": 1, "b": [], "d": {}}),
            json!({"a": 1, "b": [{"c": "x"}]}),
            json!({"a": "1", "b": [{"c": "x"}], "d": {}}),
            json!({"a": 1, "b": [{"c": "x"}], "d": {}, "e": []}),
            json!(null),
        ] {
            assert!(!same(&object, &other) && !same(&other, &object), "{other}");
        }
        assert!(!same(&json!(u64::MAX), &json!(u64::MAX - 1)));
    }

    #[test]
    fn json_contains_requires_every_requested_value() {
        let there =
            json!({"a": 1, "b": [{"c": "x", "default": 1}, {"c": "y"}], "d": {"e": 1, "f": 2}, "g": {}});
        for asked in [
            json!({}),
            json!({"a": 1.0}),
            json!({"b": [{"c": "x"}, {}]}),
            json!({"d": {"e": 1}, "g": {}}),
            json!({"h": null}),
            there.clone(),
        ] {
            assert!(holds(&there, &asked), "{asked}");
        }
        for asked in [
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
            assert!(!holds(&there, &asked), "{asked}");
        }
    }
}
