//! Metadata of objects in the schema of a CRD: known fields only, each of its type, and nothing empty.

use serde_json::{Map, Value};

use crate::write::object_meta;

/// Drops unknown and empty fields, and names the unknown ones, as in `metadata.x`.
///
/// # Errors
/// The words for a field of the wrong type.
pub(crate) fn tidy(metadata: &mut Value) -> Result<Vec<String>, String> {
    object_meta::read_alone(metadata)?;
    let Value::Object(map) = metadata else {
        *metadata = Map::new().into();
        return Ok(Vec::new());
    };
    let unknown = object_meta::drop_unknown(map);
    map.retain(|_, value| !is_empty(value));
    Ok(unknown)
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
        let mut none = Value::Null;
        assert!(tidy(&mut none).unwrap().is_empty());
        assert_eq!(none, json!({}));
    }
}
