//! The schemas of custom resources, from their CRD.

use serde_json::{Map, Value, json};

use super::models::{GROUP_VERSION_KIND, Models, Version, group_version_kind};
use crate::schemas::crd::schema::node::{flag, is_embedded, preserves, property, text};
use crate::schemas::kinds::kind::Kind;

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
    schema
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
    let Some(object) = node.as_object() else { return node.clone() };
    let mut schema = Map::new();
    for (key, value) in object {
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
    let is_open = models.version == Version::V2 && preserves(node);
    if is_embedded(&schema) && !is_open {
        add_metadata(models, &mut schema);
        let mut required = schema["required"].as_array().cloned().unwrap_or_default();
        for name in ["kind", "apiVersion"].map(Value::from) {
            if !required.contains(&name) {
                required.push(name);
            }
        }
        schema["required"] = required.into();
    }
    schema
}

fn each(models: &mut Models, properties: &Value) -> Value {
    let properties = properties.as_object().into_iter().flatten();
    properties.map(|(name, node)| (name.clone(), converted(models, node))).collect::<Map<_, _>>().into()
}

/// Removes the parts of a schema that version 2 cannot express. `node` is the schema in the CRD.
fn restrict(schema: &mut Value, node: &Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for key in ["default", "allOf", "oneOf", "anyOf", "not", "nullable"] {
        object.remove(key);
    }
    if is_nullable(node) || preserves(node) {
        object.remove("items");
        object.remove("properties");
    }
    let has_no_type = match text(node, "type") {
        "array" => !object.contains_key("items"),
        "object" => preserves(node),
        _ => false,
    };
    if is_nullable(node) || has_no_type {
        object.remove("type");
    }
    if node.get("additionalProperties").is_some_and(is_nullable) {
        object.remove("required");
    }
    if let Some(Value::Array(required)) = object.get_mut("required") {
        required.retain(|name| !name.as_str().and_then(|name| property(node, name)).is_some_and(is_nullable));
    }
}

fn is_nullable(node: &Value) -> bool {
    flag(node, "nullable")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_version(version: Version, schema: &Value) -> Value {
        converted(&mut Models::new(version), schema)
    }

    #[test]
    fn version_2_has_no_defaults_alternatives_and_open_types() {
        let port =
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
        let schema = json!({"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "object", "nullable": true, "properties": {"c": {"type": "string"}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "default": port}});
        assert_eq!(in_version(Version::V3, &schema), schema);
        let expected = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string"}, "b": {}, "free": {"x-kubernetes-preserve-unknown-fields": true},
            "default": {"x-kubernetes-int-or-string": true}}});
        assert_eq!(in_version(Version::V2, &schema), expected);
    }

    #[test]
    fn embedded_object_has_kind_and_metadata() {
        let schema = json!({"type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"]});
        for (version, metadata) in [(Version::V2, "/$ref"), (Version::V3, "/allOf/0/$ref")] {
            let schema = in_version(version, &schema);
            assert_eq!(schema["required"], json!(["kind", "apiVersion"]));
            assert!(schema["properties"]["metadata"].pointer(metadata).is_some(), "{schema}");
        }
    }
}
