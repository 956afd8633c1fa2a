//! Events: one resource that two groups serve with different field names. It is stored in the form of the
//! core group.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::schemas::kinds::kind::{Field, Kind};

type Object = Map<String, Value>;

/// The fields whose names differ: core group, then events.k8s.io.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Returns whether events of this kind are converted, which is the case for events.k8s.io.
pub(crate) fn is_converted(kind: &Kind) -> bool {
    kind.is_event() && !kind.group.is_empty()
}

/// Returns the selectable fields. The order is the same in both groups, because both read the stored
/// form.
pub(crate) fn fields(group: &str) -> Vec<Field> {
    let core = group.is_empty();
    let named = |path: &str, name: &str| {
        let name = if core { path } else { name };
        Field { name: name.into(), ..Field::at_path(path) }
    };
    let mut fields = vec![Field::at_path("metadata.name"), Field::at_path("metadata.namespace")];
    let parts = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
    let named_part = |part| named(&format!("involvedObject.{part}"), &format!("regarding.{part}"));
    fields.extend(parts.map(named_part));
    fields.push(Field::at_path("reason"));
    fields.push(named("reportingComponent", "reportingController"));
    fields.push(Field::at_path("type"));
    let component = Field { pointer: "/source/component".into(), ..Field::at_path("source") };
    fields.push(Field { otherwise: "/reportingComponent", selectable: core, ..component });
    fields
}

/// Converts an object that a client of `kind` sent to its stored form.
pub(crate) fn inside(kind: &Kind, mut object: Object) -> Object {
    if is_converted(kind) {
        // Field names of the other group are unknown in this one.
        for (core, _) in RENAMED {
            object.remove(core);
        }
        for (core, name) in RENAMED {
            if let Some(value) = object.remove(name) {
                object.insert(core.into(), value);
            }
        }
    }
    object
}

/// Converts a stored object to the form of `kind`.
pub(crate) fn outside<'a>(kind: &Kind, object: &'a Object) -> Cow<'a, Object> {
    if is_converted(kind) { Cow::Owned(renamed(object)) } else { Cow::Borrowed(object) }
}

fn renamed(object: &Object) -> Object {
    let mut shown = object.clone();
    for (core, name) in RENAMED {
        if let Some(value) = shown.remove(core) {
            shown.insert(name.into(), value);
        }
    }
    for key in ["reportingController", "reportingInstance"] {
        if shown.get(key).and_then(Value::as_str) == Some("") {
            shown.remove(key);
        }
    }
    shown
}

/// Returns the JSON of a stored event for events.k8s.io, from its metadata to the closing brace.
pub(crate) fn rest(object: &Object, metadata: &[u8]) -> Vec<u8> {
    let mut shown = renamed(object);
    for key in ["kind", "apiVersion", "metadata"] {
        shown.remove(key);
    }
    let fields = Value::Object(shown).to_string();
    let fields = fields.strip_prefix('{').unwrap_or("}");
    let comma: &[u8] = if fields == "}" { b"" } else { b"," };
    [b"\"metadata\":", metadata, comma, fields.as_bytes()].concat()
}

/// Adds the fields that an event always contains.
pub(crate) fn complete(object: &mut Object) {
    for key in ["involvedObject", "source"] {
        if !object.get(key).is_some_and(Value::is_object) {
            object.insert(key.into(), json!({}));
        }
    }
    for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        object.entry(key).or_insert(Value::Null);
    }
    for key in ["reportingComponent", "reportingInstance"] {
        if !object.get(key).is_some_and(Value::is_string) {
            object.insert(key.into(), "".into());
        }
    }
    for (key, nothing) in
        [("count", json!(0)), ("reason", json!("")), ("message", json!("")), ("type", json!(""))]
    {
        if object.get(key) == Some(&nothing) || object.get(key).is_some_and(Value::is_null) {
            object.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(group: &str) -> Kind {
        crate::schemas::kinds::builtin::kinds()
            .into_iter()
            .find(|kind| kind.is_event() && kind.group == group)
            .unwrap()
    }

    fn event(value: &Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn event_conversion_round_trips() {
        let new = kind("events.k8s.io");
        let sent =
            event(&json!({"regarding": {"name": "p"}, "note": "n", "deprecatedCount": 2, "message": "lost"}));
        let stored = inside(&new, sent);
        assert_eq!(
            Value::Object(stored.clone()),
            json!({"involvedObject": {"name": "p"}, "message": "n", "count": 2})
        );
        let shown = outside(&new, &stored).into_owned();
        assert_eq!(
            Value::Object(shown),
            json!({"regarding": {"name": "p"}, "note": "n", "deprecatedCount": 2})
        );
        assert_eq!(outside(&kind(""), &stored).into_owned(), stored);
    }

    #[test]
    fn both_groups_have_same_field_order() {
        let (core, new) = (fields(""), fields("events.k8s.io"));
        assert!(core.iter().zip(&new).all(|(a, b)| a.pointer == b.pointer) && core.len() == new.len());
        assert!(kind("events.k8s.io").field_place("source").is_err());
        assert_eq!(
            kind("").field_place("reportingComponent").ok(),
            kind("events.k8s.io").field_place("reportingController").ok()
        );
        let reported = event(&json!({"reportingComponent": "c", "source": {}}));
        assert_eq!(kind("").read_fields(&reported).last().map(AsRef::as_ref), Some("c"));
    }
}
