//! `metadata` as Go's type `ObjectMeta` takes it: every field of its type, nothing null, no fields that it does not know.

use serde_json::{Map, Number, Value};

use crate::kinds::kind::Kind;
use crate::kinds::times;
use crate::write::Object;
use crate::write::decode::type_name;

/// What a field holds.
#[derive(Clone, Copy, Debug)]
enum Holds {
    /// A text; Go's name of its type.
    Text(&'static str),
    Time,
    Number,
    Flag,
    Texts,
    TextMap,
    /// A list of objects: Go's name of their type, and their fields.
    Objects(&'static str, Fields),
    Anything,
}

type Fields = &'static [(&'static str, Holds)];

const TEXT: Holds = Holds::Text("string");

const META: Fields = &[
    ("name", TEXT),
    ("generateName", TEXT),
    ("namespace", TEXT),
    ("selfLink", TEXT),
    ("uid", Holds::Text("types.UID")),
    ("resourceVersion", TEXT),
    ("generation", Holds::Number),
    ("creationTimestamp", Holds::Time),
    ("deletionTimestamp", Holds::Time),
    ("deletionGracePeriodSeconds", Holds::Number),
    ("labels", Holds::TextMap),
    ("annotations", Holds::TextMap),
    ("ownerReferences", Holds::Objects("OwnerReference", OWNER)),
    ("finalizers", Holds::Texts),
    ("managedFields", Holds::Objects("ManagedFieldsEntry", MANAGED)),
];

const OWNER: Fields = &[
    ("apiVersion", TEXT),
    ("kind", TEXT),
    ("name", TEXT),
    ("uid", Holds::Text("types.UID")),
    ("controller", Holds::Flag),
    ("blockOwnerDeletion", Holds::Flag),
];

const MANAGED: Fields = &[
    ("manager", TEXT),
    ("operation", Holds::Text("v1.ManagedFieldsOperationType")),
    ("apiVersion", TEXT),
    ("time", Holds::Time),
    ("fieldsType", TEXT),
    ("fieldsV1", Holds::Anything),
    ("subresource", TEXT),
];

/// Reads the metadata of an object of `kind`: times take the form in which they are stored, nulls go.
///
/// # Errors
/// The words of Go's decoder for what is of another type.
pub(crate) fn read(object: &mut Object, kind: &Kind) -> Result<(), String> {
    let Some(metadata) = object.get_mut("metadata") else { return Ok(()) };
    if kind.rules.custom {
        return read_alone(metadata);
    }
    match metadata {
        Value::Null => Ok(()),
        Value::Object(metadata) => read_fields(metadata, META, "ObjectMeta", "metadata."),
        other => {
            let (found, kind) = (type_name(other), &kind.kind);
            let field = format!("{kind}.metadata of type v1.ObjectMeta");
            Err(format!("json: cannot unmarshal {found} into Go struct field {field}"))
        }
    }
}

/// Reads metadata that is decoded by itself, as that of custom resources is.
///
/// # Errors
/// As for [`read`].
pub(crate) fn read_alone(metadata: &mut Value) -> Result<(), String> {
    match metadata {
        Value::Null => Ok(()),
        Value::Object(metadata) => {
            metadata.values_mut().for_each(use_integer);
            read_fields(metadata, META, "ObjectMeta", "")
        }
        other => {
            let found = type_name(other);
            Err(format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"))
        }
    }
}

/// Drops the fields that `ObjectMeta` does not know, and names them, as in `metadata.x`.
pub(crate) fn drop_unknown(metadata: &mut Map<String, Value>) -> Vec<String> {
    let mut unknown = Vec::new();
    drop_from(metadata, META, "metadata", &mut unknown);
    unknown
}

fn drop_from(map: &mut Map<String, Value>, fields: Fields, path: &str, unknown: &mut Vec<String>) {
    map.retain(|key, value| {
        let Some((_, holds)) = fields.iter().find(|(name, _)| name == key) else {
            unknown.push(format!("{path}.{key}"));
            return false;
        };
        if let (Holds::Objects(_, fields), Value::Array(list)) = (holds, value) {
            let objects =
                list.iter_mut().enumerate().filter_map(|(at, item)| Some((at, item.as_object_mut()?)));
            objects.for_each(|(at, item)| drop_from(item, fields, &format!("{path}.{key}[{at}]"), unknown));
        }
        true
    });
}

/// A number without a fraction is an integer where JSON was read before Go's types were known.
fn use_integer(value: &mut Value) {
    let whole = value.as_f64().filter(|float| value.is_f64() && float.fract() == 0.0);
    if let Some(float) = whole.filter(|float| float.abs() < 9_007_199_254_740_992.0) {
        // Exact within the bound above.
        *value = Value::Number(Number::from(float as i64));
    }
}

fn read_fields(map: &mut Map<String, Value>, fields: Fields, owner: &str, path: &str) -> Result<(), String> {
    for (key, value) in map.iter_mut() {
        if let Some((name, holds)) = fields.iter().find(|(name, _)| name == key) {
            read_field(*holds, value, &format!("{owner}.{path}{name}"), &format!("{path}{name}."))?;
        }
    }
    map.retain(|_, value| !value.is_null());
    Ok(())
}

/// `field` is what messages call it, `path` where its own fields are.
fn read_field(holds: Holds, value: &mut Value, field: &str, path: &str) -> Result<(), String> {
    match (holds, value) {
        (_, Value::Null) | (Holds::Anything, _) | (Holds::Text(_), Value::String(_)) => Ok(()),
        (Holds::Flag, Value::Bool(_)) => Ok(()),
        (Holds::Time, Value::String(time)) => {
            *time = times::time(time)?;
            Ok(())
        }
        (Holds::Number, value) if value.is_i64() => Ok(()),
        (Holds::Texts, Value::Array(list)) => list.iter_mut().try_for_each(|item| read_item(item, field)),
        (Holds::TextMap, Value::Object(map)) => map.values_mut().try_for_each(|item| read_item(item, field)),
        (Holds::Objects(name, fields), Value::Array(list)) => list.iter_mut().try_for_each(|item| {
            if item.is_null() {
                *item = Value::Object(Map::new());
            }
            match item {
                Value::Object(item) => read_fields(item, fields, name, path),
                other => Err(wrong(other, field, &format!("v1.{name}"))),
            }
        }),
        (Holds::Text(name), value) => Err(wrong(value, field, name)),
        (Holds::Time, value) => Err(wrong(value, field, "string")),
        (Holds::Flag, value) => Err(wrong(value, field, "bool")),
        (Holds::Number, Value::Number(number)) => {
            let text = "json: cannot unmarshal number";
            Err(format!("{text} {number} into Go struct field {field} of type int64"))
        }
        (Holds::Number, value) => Err(wrong(value, field, "int64")),
        (Holds::Texts, value) => Err(wrong(value, field, "[]string")),
        (Holds::TextMap, value) => Err(wrong(value, field, "map[string]string")),
        (Holds::Objects(name, _), value) => Err(wrong(value, field, &format!("[]v1.{name}"))),
    }
}

/// A text in a list or a map, where null is the empty one.
fn read_item(item: &mut Value, field: &str) -> Result<(), String> {
    match item {
        Value::String(_) => Ok(()),
        Value::Null => {
            *item = "".into();
            Ok(())
        }
        other => Err(wrong(other, field, "string")),
    }
}

fn wrong(value: &Value, field: &str, wanted: &str) -> String {
    let found = type_name(value);
    format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn builtin(metadata: &Value) -> Result<Value, String> {
        let kind = crate::kinds::builtin::kinds().into_iter().find(|k| k.plural == "configmaps").unwrap();
        let mut object = json!({"metadata": metadata}).as_object().unwrap().clone();
        read(&mut object, &kind).map(|()| object["metadata"].clone())
    }

    #[test]
    fn nulls_are_nothing_and_times_are_in_utc() {
        let sent = json!({
            "name": "a", "generateName": null, "labels": {"x": null}, "finalizers": [null],
            "creationTimestamp": "2020-01-01T02:00:00.5+02:00",
            "ownerReferences": [null, {"uid": "u", "controller": null}],
        });
        let read = json!({
            "name": "a", "labels": {"x": ""}, "finalizers": [""], "creationTimestamp": "2020-01-01T00:00:00Z",
            "ownerReferences": [{}, {"uid": "u"}],
        });
        assert_eq!(builtin(&sent).unwrap(), read);
        let mut alone = sent;
        read_alone(&mut alone).unwrap();
        assert_eq!(alone, read);
    }

    #[test]
    fn what_is_of_another_type_is_named_as_go_names_it() {
        for (metadata, found, place, wanted) in [
            (json!({"finalizers": [5]}), "number", "ObjectMeta.{}finalizers", "string"),
            (json!({"uid": 5}), "number", "ObjectMeta.{}uid", "types.UID"),
            (json!({"labels": []}), "array", "ObjectMeta.{}labels", "map[string]string"),
            (json!({"generation": 1.5}), "number 1.5", "ObjectMeta.{}generation", "int64"),
            (json!({"deletionTimestamp": true}), "bool", "ObjectMeta.{}deletionTimestamp", "string"),
            (
                json!({"ownerReferences": [{"controller": "x"}]}),
                "string",
                "OwnerReference.{}ownerReferences.controller",
                "bool",
            ),
            (json!({"managedFields": {}}), "object", "ObjectMeta.{}managedFields", "[]v1.ManagedFieldsEntry"),
        ] {
            let words = |path: &str| {
                let field = place.replace("{}", path);
                format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")
            };
            assert_eq!(builtin(&metadata).unwrap_err(), words("metadata."));
            assert_eq!(read_alone(&mut metadata.clone()).unwrap_err(), words(""));
        }
        let whole =
            "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta";
        assert_eq!(builtin(&json!("x")).unwrap_err(), whole);
        let alone = "json: cannot unmarshal string into Go value of type v1.ObjectMeta";
        assert_eq!(read_alone(&mut json!("x")).unwrap_err(), alone);
    }

    #[test]
    fn a_whole_number_is_an_integer_only_where_metadata_is_read_alone() {
        let mut alone = json!({"generation": 1000.0});
        read_alone(&mut alone).unwrap();
        assert_eq!(alone, json!({"generation": 1000}));
        assert!(builtin(&json!({"generation": 1000.0})).is_err());
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let mut metadata = json!({"name": "x", "foo": 1, "ownerReferences": [{"name": "o", "bar": 1}]});
        let unknown = drop_unknown(metadata.as_object_mut().unwrap());
        assert_eq!(unknown, ["metadata.foo", "metadata.ownerReferences[0].bar"]);
        assert_eq!(metadata, json!({"name": "x", "ownerReferences": [{"name": "o"}]}));
    }
}
