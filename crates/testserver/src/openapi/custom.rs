//! The schemas of custom resources, from their CRD.

use serde_json::{Map, Value, json};

use super::models::{GROUP_VERSION_KIND, Models, Version, group_version_kind};
use crate::crd::schema::node::{flag, is_embedded, preserves};
use crate::kinds::kind::{Kind, NAMES};

/// Returns a reference to the schema of a custom resource.
pub(super) fn reference(models: &mut Models, kind: &Kind) -> Value {
    let group: Vec<&str> = kind.group.rsplit('.').collect();
    let name = format!("{}.{}.{}", group.join("."), kind.version, kind.kind);
    models.reference(&name, |models| object(models, kind))
}

fn object(models: &mut Models, kind: &Kind) -> Value {
    let root = kind.schemas.as_ref().map(|schemas| schemas.own.root());
    let mut schema = match root {
        Some(root) if models.version == Version::V3 || !preserves(root) => {
            let mut schema = converted(models, root);
            add_metadata(models, &mut schema);
            schema
        }
        // kubectl would reject all other fields if the schema had properties.
        _ => json!({"type": "object"}),
    };
    schema[GROUP_VERSION_KIND] = json!([group_version_kind(&kind.group, &kind.version, &kind.kind)]);
    add_selectable_fields(&mut schema, kind);
    schema
}

/// Adds the selectable fields of a kind.
pub(super) fn add_selectable_fields(schema: &mut Value, kind: &Kind) {
    let fields = kind.fields.iter().filter(|field| field.selectable && !NAMES.contains(&&*field.name));
    let fields: Vec<Value> = fields.map(|field| json!({"fieldPath": field.name})).collect();
    if !fields.is_empty() {
        schema["x-kubernetes-selectable-fields"] = fields.into();
    }
}

fn add_metadata(models: &mut Models, schema: &mut Value) {
    let metadata = models.meta("ObjectMeta");
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] = models.wrapped(metadata);
}

/// Converts a node. Version 2 has no defaults, alternatives and nulls. kubectl cannot validate a value of
/// any type in version 2, so the schema of such a value has no type.
fn converted(models: &mut Models, node: &Value) -> Value {
    let Some(node) = node.as_object() else { return node.clone() };
    let mut schema = Map::new();
    for (key, value) in node {
        let value = match key.as_str() {
            "properties" => each(models, value),
            "items" | "additionalProperties" => converted(models, value),
            _ => value.clone(),
        };
        schema.insert(key.clone(), value);
    }
    let mut schema = Value::Object(schema);
    if models.version == Version::V2 {
        restrict(&mut schema, node);
    }
    let is_open = models.version == Version::V2 && preserves(&schema);
    if is_embedded(&schema) && !is_open {
        add_metadata(models, &mut schema);
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        let missing =
            ["kind", "apiVersion"].map(Value::from).into_iter().filter(|name| !required.contains(name));
        let missing: Vec<Value> = missing.collect();
        required.extend(missing);
        schema["required"] = required.into();
    }
    schema
}

fn each(models: &mut Models, properties: &Value) -> Value {
    let properties = properties.as_object().into_iter().flatten();
    properties.map(|(name, node)| (name.clone(), converted(models, node))).collect::<Map<_, _>>().into()
}

/// Removes the parts of a schema that version 2 cannot express.
fn restrict(schema: &mut Value, node: &Map<String, Value>) {
    let Some(object) = schema.as_object_mut() else { return };
    let nullable = |node: &Value| flag(node, "nullable");
    let (is_nullable, is_open) =
        (flag_of(node, "nullable"), flag_of(node, "x-kubernetes-preserve-unknown-fields"));
    for key in ["default", "allOf", "oneOf", "anyOf", "not", "nullable"] {
        object.remove(key);
    }
    if is_nullable || is_open {
        object.remove("items");
        object.remove("properties");
    }
    let has_no_items =
        object.get("type").is_some_and(|name| name == "array") && !object.contains_key("items");
    let is_open_object = is_open && object.get("type").is_some_and(|name| name == "object");
    if is_nullable || has_no_items || is_open_object {
        object.remove("type");
    }
    if node.get("additionalProperties").is_some_and(nullable) {
        object.remove("required");
    }
    if let Some(Value::Array(required)) = object.get_mut("required") {
        let properties = node.get("properties");
        required.retain(|name| {
            let property = name.as_str().and_then(|name| properties?.get(name));
            !property.is_some_and(nullable)
        });
    }
}

fn flag_of(node: &Map<String, Value>, key: &str) -> bool {
    node.get(key).and_then(Value::as_bool).unwrap_or(false)
}
