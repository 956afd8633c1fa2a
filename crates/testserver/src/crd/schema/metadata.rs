//! Metadata of objects in the schema of a CRD: known fields only, each of its type, and nothing empty.

use serde_json::{Map, Value};

use crate::write::decode::type_name;

/// What a field of the metadata holds.
#[derive(Clone, Copy, Debug)]
enum Holds {
    Text,
    Time,
    Number,
    Texts,
    TextMap,
    /// A list of objects with these fields.
    Objects(&'static [&'static str]),
}

const FIELDS: [(&str, Holds); 15] = [
    ("name", Holds::Text),
    ("generateName", Holds::Text),
    ("namespace", Holds::Text),
    ("selfLink", Holds::Text),
    ("uid", Holds::Text),
    ("resourceVersion", Holds::Text),
    ("generation", Holds::Number),
    ("creationTimestamp", Holds::Time),
    ("deletionTimestamp", Holds::Time),
    ("deletionGracePeriodSeconds", Holds::Number),
    ("labels", Holds::TextMap),
    ("annotations", Holds::TextMap),
    ("ownerReferences", Holds::Objects(&OWNER)),
    ("finalizers", Holds::Texts),
    ("managedFields", Holds::Objects(&MANAGED)),
];

const OWNER: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
const MANAGED: [&str; 7] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// Drops unknown and empty fields, and names the unknown ones, as in `metadata.x`.
///
/// # Errors
/// The words for a field of the wrong type.
pub(crate) fn tidy(metadata: &mut Value) -> Result<Vec<String>, String> {
    let found = type_name(metadata);
    let Value::Object(map) = metadata else {
        if metadata.is_null() {
            *metadata = Map::new().into();
            return Ok(Vec::new());
        }
        return Err(format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"));
    };
    let mut unknown = Vec::new();
    for (key, value) in map.iter_mut() {
        match FIELDS.iter().find(|(name, _)| name == key) {
            Some((name, holds)) => check(name, *holds, value, &mut unknown)?,
            None => {
                unknown.push(format!("metadata.{key}"));
                *value = Value::Null;
            }
        }
    }
    map.retain(|_, value| !is_empty(value));
    Ok(unknown)
}

fn check(name: &str, holds: Holds, value: &mut Value, unknown: &mut Vec<String>) -> Result<(), String> {
    let wrong = |value: &Value, wanted: &str| {
        let found = type_name(value);
        Err(format!("json: cannot unmarshal {found} into Go struct field ObjectMeta.{name} of type {wanted}"))
    };
    match (holds, value) {
        (_, Value::Null) => Ok(()),
        (Holds::Text | Holds::Time, Value::String(_)) => Ok(()),
        (Holds::Text | Holds::Time, value) => wrong(value, "string"),
        (Holds::Number, value) if value.is_i64() => Ok(()),
        (Holds::Number, value) => wrong(value, "int64"),
        (Holds::Texts, Value::Array(list)) => {
            list.iter().find(|item| !item.is_string()).map_or(Ok(()), |item| wrong(item, "string"))
        }
        (Holds::Texts, value) => wrong(value, "[]string"),
        (Holds::TextMap, Value::Object(map)) => {
            map.values().find(|item| !item.is_string()).map_or(Ok(()), |item| wrong(item, "string"))
        }
        (Holds::TextMap, value) => wrong(value, "map[string]string"),
        (Holds::Objects(fields), Value::Array(list)) => {
            for (index, item) in list.iter_mut().enumerate() {
                let Value::Object(item) = item else { return wrong(item, "v1.ObjectMeta") };
                item.retain(|key, _| {
                    let known = fields.contains(&key.as_str());
                    unknown.extend((!known).then(|| format!("metadata.{name}[{index}].{key}")));
                    known
                });
            }
            Ok(())
        }
        (Holds::Objects(_), value) => wrong(value, "[]v1.ObjectMeta"),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_and_empty_fields_go() {
        let mut metadata = json!({"name": "x", "labels": {}, "foo": 1, "creationTimestamp": null,
            "ownerReferences": [{"name": "o", "bar": 1}]});
        assert_eq!(tidy(&mut metadata).unwrap(), ["metadata.foo", "metadata.ownerReferences[0].bar"]);
        assert_eq!(metadata, json!({"name": "x", "ownerReferences": [{"name": "o"}]}));
    }

    #[test]
    fn a_field_of_the_wrong_type_is_named() {
        let text = "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string";
        assert_eq!(tidy(&mut json!({"labels": {"a": 1}})).unwrap_err(), text);
        let text = "json: cannot unmarshal string into Go value of type v1.ObjectMeta";
        assert_eq!(tidy(&mut json!("x")).unwrap_err(), text);
    }
}
