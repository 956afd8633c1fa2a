//! The merge rules of custom resources, from the schema of their CRD.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::apply::builtin::metadata;
use crate::apply::schema::{Key, List, Others, Scalar, Schema};

/// Parses the `openAPIV3Schema` of a version of a CRD. Without a schema, objects may have any content.
pub(crate) fn schema(open_api: Option<&Value>) -> Arc<Schema> {
    let mut root = open_api.map_or_else(anything, |open_api| read(open_api, false));
    root.atomic = false;
    root.fields.insert("metadata".into(), metadata());
    for name in ["apiVersion", "kind"] {
        root.fields.insert(name.into(), Arc::new(Schema { scalar: Some(Scalar::Text), ..Schema::default() }));
    }
    Arc::new(root)
}

fn anything() -> Schema {
    Schema { others: Others::Anything, ..Schema::default() }
}

fn flag(of: &Value, name: &str) -> bool {
    of.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// Parses a node. `open` is true if an enclosing schema preserves unknown fields.
fn read(of: &Value, open: bool) -> Schema {
    let open = open || flag(of, "x-kubernetes-preserve-unknown-fields");
    let text = |name: &str| of.get(name).and_then(Value::as_str).unwrap_or("");
    let properties = of.get("properties").and_then(Value::as_object);
    let fields: BTreeMap<Box<str>, Arc<Schema>> = properties
        .into_iter()
        .flatten()
        .map(|(name, of)| (name.as_str().into(), Arc::new(read(of, open))))
        .collect();
    let items = of.get("items").map(|items| Arc::new(read(items, open)));
    Schema {
        atomic: text("x-kubernetes-map-type") == "atomic",
        list: list(of, items.as_deref()),
        scalar: scalar(text("type")),
        others: if flag(of, "x-kubernetes-embedded-resource") { Others::Anything } else { others(of, open) },
        fields,
        items,
        ..Schema::default()
    }
}

fn scalar(name: &str) -> Option<Scalar> {
    match name {
        "string" => Some(Scalar::Text),
        "integer" | "number" => Some(Scalar::Number),
        "boolean" => Some(Scalar::Bool),
        "" => Some(Scalar::Any),
        _ => None,
    }
}

fn others(of: &Value, open: bool) -> Others {
    match of.get("additionalProperties") {
        Some(Value::Object(_)) => Others::Entries(Arc::new(read(&of["additionalProperties"], open))),
        Some(Value::Bool(true)) => Others::Anything,
        Some(Value::Bool(false)) => Others::Unknown,
        _ if open || of.get("properties").is_none() => Others::Anything,
        _ => Others::Unknown,
    }
}

fn list(of: &Value, items: Option<&Schema>) -> List {
    let default = |name: &str| {
        let properties = of.get("items").and_then(|items| items.get("properties"));
        items?;
        properties?.get(name)?.get("default").cloned()
    };
    match of.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => List::Set,
        Some("map") => {
            let keys = of.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let names = keys.into_iter().flatten().filter_map(Value::as_str);
            List::Keyed(names.map(|name| Key { name: name.into(), default: default(name) }).collect())
        }
        _ => List::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn list_and_map_types_come_from_the_schema() {
        let item = json!({"type": "object", "properties": {
            "name": {"type": "string"}, "protocol": {"type": "string", "default": "TCP"}}});
        let schema =
            schema(Some(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                      "x-kubernetes-list-map-keys": ["name", "protocol"], "items": item},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic",
                         "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}})));
        let spec = schema.field("spec");
        let keys = vec![
            Key { name: "name".into(), default: None },
            Key { name: "protocol".into(), default: Some(json!("TCP")) },
        ];
        assert_eq!(spec.field("ports").list, List::Keyed(keys));
        assert_eq!(spec.field("tags").list, List::Set);
        assert_eq!(spec.field("plain").list, List::Atomic);
        assert!(spec.field("selector").atomic && !spec.field("selector").is_field("a"));
        assert!(!spec.declares("unknown") && spec.field("free").declares("unknown"));
        assert_eq!(schema.field("metadata").field("finalizers").list, List::Set);
    }

    #[test]
    fn untyped_objects_are_maps_and_lists_are_atomic() {
        let schema = schema(None);
        assert!(!schema.is_field("spec") && schema.field("spec").declares("x"));
        assert_eq!(schema.field("spec").field("list").list, List::Atomic);
    }
}
