//! Validation of an applied object: declared fields, value types, and unique list items.

use std::collections::BTreeSet;

use kube_managed_fields::{ListType, OtherKeys, Scalar, Schema, item_step, step_path};
use serde_json::{Map, Value};

use crate::schemas::types::{ExpectedValue, Typed};

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

/// Returns the errors of an applied object, with paths like those of the real server.
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
    if let Some(wanted) = mismatch(known.wanted(), of) {
        found.push(format!("{path}: expected {wanted}, got {of}"));
        return;
    }
    match of {
        Value::Object(object) => map(known, object, path, found),
        Value::Array(items) => list(known, items, path, found),
        _ => {}
    }
}

/// Returns the name of the expected type if the value has another type.
fn mismatch(wanted: ExpectedValue, of: &Value) -> Option<&'static str> {
    let (fits, name) = match wanted {
        ExpectedValue::Anything => (true, ""),
        ExpectedValue::Text => (of.is_string(), "string"),
        ExpectedValue::Number => (of.is_number(), "numeric (int or float)"),
        ExpectedValue::Bool => (of.is_boolean(), "boolean"),
        ExpectedValue::Map => (of.is_object(), "map"),
        ExpectedValue::List => (of.is_array(), "list"),
        ExpectedValue::Scalar => (!of.is_object() && !of.is_array(), "any scalar"),
    };
    (!fits).then_some(name)
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
            found.push(format!("{path}: element {place}: the item has no valid key"));
            return;
        };
        let shown = step_path(&step);
        if !seen.insert(step) {
            found.push(format!("{path}: duplicate entries for key {shown}"));
        }
        value(known.item(), item, &format!("{path}{shown}"), found);
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
                ".metadata.finalizers: element 0: the item has no valid key",
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
                ".spec.n: expected numeric (int or float), got \"x\"",
                ".spec.other: field not declared in schema",
            ]
        );
    }
}
