//! The defaults of a CRD, and the status of a new CRD.

use serde_json::{Map, Value, json};

use crate::schemas::crd::definition::{storage_version, text};
use crate::wire::object::Object;

/// Adds missing names and the conversion.
pub(crate) fn fill(crd: &mut Object) {
    let spec = crd.entry("spec").or_insert_with(|| Value::Object(Map::new()));
    let Some(spec) = spec.as_object_mut() else { return };
    let names = spec.entry("names").or_insert_with(|| Value::Object(Map::new()));
    if let Some(names) = names.as_object_mut() {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or("").to_owned();
        for (key, default) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            let is_absent = names.get(key).and_then(Value::as_str).unwrap_or("").is_empty();
            if is_absent && !kind.is_empty() {
                names.insert(key.into(), default.into());
            }
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".into(), json!({"strategy": "None"}));
    }
}

/// Returns the status of a new CRD.
pub(crate) fn status(crd: &Object) -> Value {
    let stored: Vec<&str> = storage_version(crd).into_iter().map(|version| text(version, "/name")).collect();
    json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored})
}

/// Adds a new storage version to the stored versions.
pub(crate) fn add_stored_version(crd: &mut Object) {
    let Some(name) = storage_version(crd).map(|version| text(version, "/name").to_owned()) else { return };
    let stored = crd.get_mut("status").and_then(|status| status.get_mut("storedVersions"));
    if let Some(stored) = stored.and_then(Value::as_array_mut).filter(|stored| !stored.contains(&json!(name)))
    {
        stored.push(name.into());
    }
}
