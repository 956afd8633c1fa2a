//! The merge rules of custom resources, from the schema of their CRD.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::schema::{ListType, MapKey, OtherKeys, PatchStrategy, Scalar, Schema};

impl Schema {
    /// Reads the `openAPIV3Schema` of a version of a CRD, with its `x-kubernetes-*` extensions.
    pub fn from_crd(open_api: &Value) -> Self {
        resource(read(open_api, false))
    }

    /// Creates the rules of a custom resource without a schema, which may have any content.
    pub fn any_resource() -> Self {
        resource(Self { others: OtherKeys::Anything, ..Self::default() })
    }
}

/// Adds the rules of the fields that each custom resource contains.
fn resource(mut root: Schema) -> Schema {
    root.atomic = false;
    root.fields.insert("metadata".into(), Arc::new(metadata()));
    for name in ["apiVersion", "kind"] {
        root.fields.insert(name.into(), Arc::new(text()));
    }
    root
}

fn text() -> Schema {
    Schema { scalar: Some(Scalar::String), ..Schema::default() }
}

/// Returns the rules of `ObjectMeta`, which equal the `x-kubernetes-*` extensions of its OpenAPI schema.
fn metadata() -> Schema {
    let key = MapKey { name: "uid".into(), default: Some("".into()) };
    let owner = Schema { atomic: true, ..Schema::default() };
    let owners = Schema {
        list: ListType::Map(vec![key]),
        patch: PatchStrategy::MergeByKey("uid".into()),
        items: Some(Arc::new(owner)),
        ..Schema::default()
    };
    let finalizers = Schema { list: ListType::Set, patch: PatchStrategy::Merge, ..Schema::default() };
    let fields = [("ownerReferences", owners), ("finalizers", finalizers)];
    Schema { fields: fields.map(|(name, rules)| (name.into(), Arc::new(rules))).into(), ..Schema::default() }
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
        others: if flag(of, "x-kubernetes-embedded-resource") {
            OtherKeys::Anything
        } else {
            others(of, open)
        },
        fields,
        items,
        ..Schema::default()
    }
}

fn scalar(name: &str) -> Option<Scalar> {
    match name {
        "string" => Some(Scalar::String),
        "integer" | "number" => Some(Scalar::Number),
        "boolean" => Some(Scalar::Boolean),
        "" => Some(Scalar::Any),
        _ => None,
    }
}

fn others(of: &Value, open: bool) -> OtherKeys {
    match of.get("additionalProperties") {
        Some(Value::Object(_)) => OtherKeys::Entries(Arc::new(read(&of["additionalProperties"], open))),
        Some(Value::Bool(true)) => OtherKeys::Anything,
        Some(Value::Bool(false)) => OtherKeys::Unknown,
        _ if open || of.get("properties").is_none() => OtherKeys::Anything,
        _ => OtherKeys::Unknown,
    }
}

fn list(of: &Value, items: Option<&Schema>) -> ListType {
    let default = |name: &str| {
        let properties = of.get("items").and_then(|items| items.get("properties"));
        items?;
        properties?.get(name)?.get("default").cloned()
    };
    match of.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = of.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let names = keys.into_iter().flatten().filter_map(Value::as_str);
            ListType::Map(names.map(|name| MapKey { name: name.into(), default: default(name) }).collect())
        }
        _ => ListType::Atomic,
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
        let schema = Schema::from_crd(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                      "x-kubernetes-list-map-keys": ["name", "protocol"], "items": item},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "plain": {"type": "array", "items": {"type": "string"}},
            "selector": {"type": "object", "x-kubernetes-map-type": "atomic",
                         "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}),
        );
        let spec = schema.field("spec");
        let keys = vec![
            MapKey { name: "name".into(), default: None },
            MapKey { name: "protocol".into(), default: Some(json!("TCP")) },
        ];
        assert_eq!(spec.field("ports").list, ListType::Map(keys));
        assert_eq!(spec.field("tags").list, ListType::Set);
        assert_eq!(spec.field("plain").list, ListType::Atomic);
        assert!(spec.field("selector").atomic && !spec.field("selector").is_field("a"));
        assert!(!spec.declares("unknown") && spec.field("free").declares("unknown"));
        assert_eq!(schema.field("metadata").field("finalizers").list, ListType::Set);
    }

    #[test]
    fn untyped_objects_are_maps_and_lists_are_atomic() {
        let schema = Schema::any_resource();
        assert!(!schema.is_field("spec") && schema.field("spec").declares("x"));
        assert_eq!(schema.field("spec").field("list").list, ListType::Atomic);
    }
}
