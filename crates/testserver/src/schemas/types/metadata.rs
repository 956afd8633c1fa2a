//! Decodes `metadata` alone, for objects whose other parts are decoded later or by another type.

use serde_json::{Map, Number, Value};

use crate::schemas::kinds::kind::Kind;
use crate::schemas::types::read::{Path, Reader, mismatch};
use crate::schemas::types::table::{Base, Message, Types};

type Object = Map<String, Value>;

/// Decodes the metadata of an object of `kind` in place. Fields that `ObjectMeta` does not define remain;
/// the decoder of the object reports them.
pub(crate) fn read_metadata(object: &mut Object, kind: &Kind) -> Result<(), String> {
    let Some(metadata) = object.get_mut("metadata") else { return Ok(()) };
    let Some(message) = Types::of(kind) else {
        return read(metadata, Reader::keeping_unknown()).map(drop);
    };
    let Some(known) = message.known("metadata") else { return Ok(()) };
    let path = Path::Field(&Path::Root, known.name);
    Reader::keeping_unknown().field(metadata, known, path).map(drop)
}

/// Decodes metadata on its own, as for custom resources. Removes the fields that `ObjectMeta` does not
/// define and returns their paths, such as `metadata.x`.
pub(crate) fn take_metadata(metadata: &mut Value) -> Result<Vec<String>, String> {
    read(metadata, Reader::default())
}

fn read(metadata: &mut Value, mut reader: Reader) -> Result<Vec<String>, String> {
    if metadata.is_null() {
        *metadata = Map::new().into();
    }
    let Some(fields) = metadata.as_object_mut() else {
        return Err(mismatch(metadata, "object", Path::Metadata));
    };
    fields.values_mut().for_each(use_integer);
    if let Some(message) = object_meta() {
        reader.fields(fields, message, Path::Metadata)?;
    }
    Ok(reader.unknown)
}

fn object_meta() -> Option<&'static Message> {
    let types = Types::get();
    let config_map = types.message(types.kind("v1", "ConfigMap")?)?;
    match config_map.known("metadata")?.base {
        Base::Message(place) => types.message(place),
        _ => None,
    }
}

/// Converts a number without a fraction to an integer, as Go does when it decodes JSON without a type.
pub(crate) fn use_integer(value: &mut Value) {
    let whole = value.as_f64().filter(|float| value.is_f64() && float.fract() == 0.0);
    if let Some(float) = whole.filter(|float| float.abs() < 9_007_199_254_740_992.0) {
        // The conversion is exact within the bound above.
        *value = Value::Number(Number::from(float as i64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn builtin(metadata: &Value) -> Result<Value, String> {
        let kind =
            crate::schemas::kinds::builtin::kinds().into_iter().find(|k| k.plural == "configmaps").unwrap();
        let mut object = json!({"metadata": metadata}).as_object().unwrap().clone();
        read_metadata(&mut object, &kind).map(|()| object["metadata"].clone())
    }

    #[test]
    fn nulls_are_dropped_and_times_are_in_utc() {
        let sent = json!({
            "name": "a", "generateName": null, "labels": {"x": null}, "finalizers": [null],
            "creationTimestamp": "2020-01-01T02:00:00.5+02:00", "managedFields": [],
            "ownerReferences": [null, {"uid": "u", "controller": null}], "annotations": {},
        });
        let read = json!({
            "name": "a", "labels": {"x": ""}, "finalizers": [""], "creationTimestamp": "2020-01-01T00:00:00Z",
            "managedFields": [], "ownerReferences": [
                {"apiVersion": "", "kind": "", "name": "", "uid": ""},
                {"apiVersion": "", "kind": "", "name": "", "uid": "u"},
            ],
        });
        assert_eq!(builtin(&sent).unwrap(), read);
        let mut alone = sent;
        assert!(take_metadata(&mut alone).unwrap().is_empty());
        // Only the decoder of the object handles an empty list of managed fields.
        let mut expected = read;
        expected.as_object_mut().unwrap().remove("managedFields");
        assert_eq!(alone, expected);
    }

    #[test]
    fn metadata_type_errors_name_the_field() {
        for (metadata, found, place, wanted) in [
            (json!({"finalizers": [5]}), "number", "metadata.finalizers[0]", "string"),
            (json!({"labels": []}), "array", "metadata.labels", "object"),
            (json!({"generation": 1.5}), "number", "metadata.generation", "int64"),
            (json!({"deletionTimestamp": true}), "bool", "metadata.deletionTimestamp", "string"),
            (json!("x"), "string", "metadata", "object"),
        ] {
            let words = format!("json: cannot unmarshal {found} into {place} of type {wanted}");
            assert_eq!(builtin(&metadata).unwrap_err(), words);
            assert_eq!(take_metadata(&mut metadata.clone()).unwrap_err(), words);
        }
    }

    #[test]
    fn integral_float_is_integer_only_in_separate_metadata() {
        let mut alone = json!({"generation": 1000.0});
        take_metadata(&mut alone).unwrap();
        assert_eq!(alone, json!({"generation": 1000}));
        assert!(builtin(&json!({"generation": 1000.0})).is_err());
    }

    #[test]
    fn unknown_metadata_fields_are_retained_or_reported() {
        let owner = json!({"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u"});
        let mut sent = json!({"name": "x", "foo": 1, "kind": "x", "ownerReferences": [owner]});
        sent["ownerReferences"][0]["bar"] = 1.into();
        assert_eq!(builtin(&sent).unwrap(), sent);
        let unknown = take_metadata(&mut sent).unwrap();
        assert_eq!(unknown, ["metadata.foo", "metadata.kind", "metadata.ownerReferences[0].bar"]);
        assert_eq!(sent, json!({"name": "x", "ownerReferences": [owner]}));
    }
}
