//! Validation of an applied object: declared fields, value types, and unique list items.

use std::collections::BTreeSet;

use kube_managed_fields::{ListType, OtherKeys, Scalar, Schema, go_format, item_step, step_path};
use serde_json::{Map, Value};

use crate::schemas::types::{ExpectedValue, Typed};
use crate::wire::object::go_type;

/// The rules for a value. The schema contains the rules of custom resources, and the type contains the
/// rules of built-in kinds.
#[derive(Clone, Copy)]
struct Known<'a> {
    schema: &'a Schema,
    typed: Typed,
}

impl Known<'_> {
    /// Returns the rules for the value of a key. Returns `None` for an unknown key.
    fn field(&self, name: &str, is_object: bool) -> Option<Self> {
        let typed = self.typed.field(name, is_object).filter(|_| self.schema.declares(name))?;
        Some(Self { schema: self.schema.field(name), typed })
    }

    fn item(&self) -> Self {
        Self { schema: self.schema.item(), typed: self.typed.item() }
    }

    fn wanted(&self) -> ExpectedValue {
        let schema = self.schema;
        let is_map = !schema.fields.is_empty() || matches!(schema.others, OtherKeys::Entries(_));
        let is_list = schema.list != ListType::Atomic || schema.items.is_some();
        match (self.typed.wanted(), schema.scalar) {
            (ExpectedValue::Anything, Some(Scalar::String)) => ExpectedValue::Text,
            (ExpectedValue::Anything, Some(Scalar::Number)) => ExpectedValue::Number,
            (ExpectedValue::Anything, Some(Scalar::Boolean)) => ExpectedValue::Bool,
            (ExpectedValue::Anything, None) if is_map && !is_list => ExpectedValue::Map,
            (ExpectedValue::Anything, None) if is_list && !is_map => ExpectedValue::List,
            (wanted, _) => wanted,
        }
    }
}

/// Returns the errors of an applied object, with the messages of the real server.
pub(crate) fn errors(schema: &Schema, typed: Typed, object: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    map(Known { schema, typed }, object, "", &mut found);
    found
}

fn map(known: Known<'_>, map: &Map<String, Value>, path: &str, found: &mut Vec<String>) {
    for (name, of) in map {
        let is_object = path.is_empty();
        let path = format!("{path}.{name}");
        let Some(inner) = known.field(name, is_object) else {
            found.push(format!("{path}: field not declared in schema"));
            // The real server stops the validation of this object here.
            return;
        };
        value(inner, of, &path, found);
    }
}

fn value(known: Known<'_>, of: &Value, path: &str, found: &mut Vec<String>) {
    if of.is_null() {
        return;
    }
    if let Some(wanted) = unexpected(known.wanted(), of) {
        found.push(format!("{path}: expected {wanted}"));
        return;
    }
    match of {
        Value::Object(object) => map(known, object, path, found),
        Value::Array(items) => list(known, items, path, found),
        _ => {}
    }
}

/// Returns the message for a value of an unexpected type.
fn unexpected(wanted: ExpectedValue, of: &Value) -> Option<String> {
    match wanted {
        ExpectedValue::Text if !of.is_string() => {
            Some(format!("string, got &value.valueUnstructured{{Value:{}}}", literal(of)))
        }
        ExpectedValue::Number if !of.is_number() => {
            Some(format!("numeric (int or float), got {}", go_type(of)))
        }
        ExpectedValue::Bool if !of.is_boolean() => Some(format!("boolean, got &{{{}}}", go_format(of))),
        ExpectedValue::Map if !of.is_object() => Some(format!("map, got &{{{}}}", go_format(of))),
        ExpectedValue::List if !of.is_array() => Some(format!("list, got &{{{}}}", go_format(of))),
        ExpectedValue::Scalar if of.is_object() || of.is_array() => {
            Some(format!("any scalar, got &{{{}}}", go_format(of)))
        }
        _ => None,
    }
}

/// Formats a value as a Go literal.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null => "interface {}(nil)".into(),
        Value::Array(list) => {
            let all: Vec<String> = list.iter().map(literal).collect();
            format!("[]interface {{}}{{{}}}", all.join(", "))
        }
        Value::Object(map) => {
            let all: Vec<String> =
                map.iter().map(|(key, value)| format!("{key:?}:{}", literal(value))).collect();
            format!("map[string]interface {{}}{{{}}}", all.join(", "))
        }
    }
}

fn list(known: Known<'_>, items: &[Value], path: &str, found: &mut Vec<String>) {
    let schema = known.schema;
    let mut seen = BTreeSet::new();
    for (place, item) in items.iter().enumerate() {
        if schema.list == ListType::Atomic {
            value(known.item(), item, &format!("{path}[{place}]"), found);
            continue;
        }
        let Some(step) = item_step(schema, item) else {
            found.push(format!("{path}: element {place}: {}", missing_key(schema, item)));
            return;
        };
        let shown = step_path(&step);
        if !seen.insert(step) {
            found.push(format!("{path}: duplicate entries for key {shown}"));
        }
        value(known.item(), item, &format!("{path}{shown}"), found);
    }
}

/// Returns the message for an item without a valid key.
fn missing_key(schema: &Schema, item: &Value) -> String {
    match (&schema.list, item) {
        (ListType::Map(_), Value::Null) => "associative list with keys may not have a null element".into(),
        (ListType::Map(keys), Value::Object(_)) => {
            let names: Vec<String> = keys.iter().map(|key| format!("{:?}", key.name)).collect();
            format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                names.join(" ")
            )
        }
        (ListType::Map(_), _) => "associative list with keys may not have non-map elements".into(),
        (_, Value::Null) => "associative list without keys has an element that's an explicit null".into(),
        (_, Value::Array(_)) => "not supported: associative list with lists as elements".into(),
        _ => "associative list without keys has an element that's a map type".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemas::types::merging;
    use serde_json::json;

    #[test]
    fn items_must_be_unique_and_fields_declared() {
        let pod =
            json!({"spec": {"containers": [{"name": "c"}, {"name": "c"}]}, "metadata": {"finalizers": [{}]}});
        let found = errors(&merging::schema("v1", "Pod"), Typed::Open, pod.as_object().unwrap());
        assert_eq!(
            found,
            [
                ".metadata.finalizers: element 0: associative list without keys has an element that's a map type",
                ".spec.containers: duplicate entries for key [name=\"c\"]",
            ]
        );
        let open_api = json!({"type": "object", "properties": {"spec": {"type": "object", "properties":
            {"n": {"type": "integer"}}}}});
        let schema = Schema::from_crd(&open_api);
        let wrong = json!({"spec": {"n": "x", "other": 1}});
        assert_eq!(
            errors(&schema, Typed::Open, wrong.as_object().unwrap()),
            [
                ".spec.n: expected numeric (int or float), got string",
                ".spec.other: field not declared in schema",
            ]
        );
    }
}
