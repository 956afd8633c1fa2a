//! `metadata.managedFields` as kube-apiserver writes them, for objects that no server has written.

use serde_json::{Map, Value, json};

/// The managers of a generated object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManagedFields {
    /// No field.
    Missing,
    /// A manager owns the spec.
    Few,
    /// A manager owns the spec, and the kubelet owns the status.
    Usual,
    /// Also, a manager applies the spec, and two managers own metadata.
    Many,
}

/// Returns the managedFields of an object.
pub(super) fn managed_fields(managers: ManagedFields, object: &Value) -> Option<Value> {
    let of = |parts: &[&str]| {
        let named = parts.iter().filter_map(|part| Some((format!("f:{part}"), fields(object.get(*part)?))));
        Value::Object(named.collect())
    };
    let metadata = of(&["metadata"]);
    let spec = || entry("kube-controller-manager", "Update", None, &of(&["metadata", "spec", "data"]));
    let status = || entry("kubelet", "Update", Some("status"), &of(&["status"]));
    let entries = match managers {
        ManagedFields::Missing => return None,
        ManagedFields::Few => vec![spec()],
        ManagedFields::Usual => vec![spec(), status()],
        ManagedFields::Many => vec![
            entry("gitops-controller", "Apply", None, &of(&["spec"])),
            spec(),
            status(),
            entry("policy-webhook", "Update", None, &metadata),
            entry("cost-labels", "Update", None, &metadata),
        ],
    };
    Some(entries.into())
}

fn entry(manager: &str, operation: &str, subresource: Option<&str>, fields: &Value) -> Value {
    let mut entry = json!({
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    });
    if let Some(subresource) = subresource {
        entry["subresource"] = subresource.into();
    }
    entry
}

/// Returns the fields of a value in FieldsV1. Items of a list with a name or a type have keys.
fn fields(value: &Value) -> Value {
    let mut set = Map::new();
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                set.insert(format!("f:{name}"), fields(value));
            }
        }
        Value::Array(items) => {
            for item in items {
                let key = ["name", "type", "ip", "key"].iter().find_map(|key| Some((key, item.get(key)?)));
                let Some((key, value)) = key else { return json!({}) };
                let mut inner = fields(item);
                inner[format!("f:{key}")] = json!({});
                inner["."] = json!({});
                set.insert(format!("k:{{\"{key}\":{value}}}"), inner);
            }
        }
        _ => {}
    }
    Value::Object(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_lists_have_keys() {
        let object = json!({"spec": {"containers": [{"name": "app", "image": "i"}], "args": ["a"]}});
        let written = managed_fields(ManagedFields::Few, &object).unwrap();
        let app = json!({".": {}, "f:name": {}, "f:image": {}});
        let spec = json!({"f:args": {}, "f:containers": {"k:{\"name\":\"app\"}": app}});
        assert_eq!(written[0]["fieldsV1"], json!({"f:spec": spec}));
        assert_eq!(managed_fields(ManagedFields::Missing, &object), None);
        assert_eq!(managed_fields(ManagedFields::Many, &object).unwrap().as_array().map(Vec::len), Some(5));
    }
}
