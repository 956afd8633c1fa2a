//! The schemas of built-in types, from the table of types.

use serde_json::{Map, Value, json};

use crate::schemas::kinds::kind::Kind;
use crate::schemas::types::{Base, Field, Form, Message, Shape, Types};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V2,
    V3,
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// The schemas of a document by their names. A reference adds the schema that it refers to.
#[derive(Debug)]
pub(super) struct Models {
    pub version: Version,
    schemas: Map<String, Value>,
}

impl Models {
    pub(super) fn new(version: Version) -> Self {
        Self { version, schemas: Map::new() }
    }

    pub(super) fn into_schemas(self) -> Map<String, Value> {
        self.schemas
    }

    /// Returns a reference to a schema. If the schema is missing, `make` creates it.
    pub(super) fn reference(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.schemas.contains_key(name) {
            // Ends the recursion of a schema that refers to itself.
            self.schemas.insert(name.to_owned(), Value::Null);
            let schema = make(self);
            self.schemas.insert(name.to_owned(), schema);
        }
        let folder = if self.version == Version::V2 { "definitions" } else { "components/schemas" };
        json!({"$ref": format!("#/{folder}/{name}")})
    }

    /// Returns a reference to a type of the package `meta/v1`.
    pub(super) fn meta(&mut self, name: &str) -> Value {
        match Types::get().find(META, name) {
            Some(place) => self.message(place),
            None => {
                let scalar = if name.ends_with("Time") {
                    json!({"type": "string", "format": "date-time"})
                } else {
                    json!({"type": "object"})
                };
                self.reference(&format!("{META}.{name}"), |_| scalar)
            }
        }
    }

    pub(super) fn built_in(&mut self, api_version: &str, kind: &str) -> Value {
        match Types::get().kind(api_version, kind) {
            Some(place) => self.message(place),
            None => json!({"type": "object"}),
        }
    }

    pub(super) fn list(&mut self, kind: &Kind, item: &Value) -> Value {
        let name = item["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let package = name.rsplit_once('.').unwrap_or_default().0;
        self.reference(&format!("{package}.{}", kind.list_kind), |models| {
            let (mut item, mut metadata) = (item.clone(), models.meta("ListMeta"));
            if !kind.rules.custom {
                let empty = || Some(json!({}));
                (item, metadata) = (models.with_default(item, empty()), models.with_default(metadata, empty()));
            }
            let mut schema = json!({"type": "object", "required": ["items"], "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": models.wrapped(metadata),
                "items": {"type": "array", "items": item}}});
            schema[GROUP_VERSION_KIND] = json!([group_version_kind(&kind.group, &kind.version, &kind.list_kind)]);
            schema
        })
    }

    fn message(&mut self, place: usize) -> Value {
        let Some(message) = Types::get().message(place) else { return json!({}) };
        let name = format!("{}.{}", message.package, message.name);
        self.reference(&name, |models| models.object(place, message))
    }

    fn object(&mut self, place: usize, message: &'static Message) -> Value {
        if message.form != Form::Object {
            return json!({});
        }
        let mut properties: Map<String, Value> = Map::new();
        if message.facts.kind {
            properties
                .extend(["apiVersion", "kind"].map(|name| (name.to_owned(), json!({"type": "string"}))));
        }
        let fields = declared(message);
        for field in &fields {
            properties.insert(field.name.to_owned(), self.property(field));
        }
        let required = fields.iter().filter(|field| field.facts.required);
        let required: Vec<&str> = required.map(|field| field.name).collect();
        let mut schema = json!({"type": "object"});
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if let Some(map) = message.facts.map {
            schema["x-kubernetes-map-type"] = map.into();
        }
        let mut kinds: Vec<_> = Types::get().kinds().filter(|(_, _, own)| *own == place).collect();
        if (message.package, message.name) == (META, "Status") {
            kinds.push(("v1", "Status", place));
        }
        if !kinds.is_empty() {
            let all = kinds.into_iter().map(|(api_version, kind, _)| {
                let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
                group_version_kind(group, version, kind)
            });
            schema[GROUP_VERSION_KIND] = all.collect();
        }
        schema
    }

    fn property(&mut self, field: &Field) -> Value {
        let (types, facts) = (Types::get(), &field.facts);
        let mut element = self.element(field);
        if let Some(permitted) = facts.permitted {
            element["enum"] = permitted.split(',').collect();
        }
        let each = types.implied_default(field.base);
        let mut schema = match field.shape {
            Shape::List => json!({"type": "array", "items": self.with_default(element, each)}),
            Shape::Map => json!({"type": "object", "additionalProperties": self.with_default(element, each)}),
            Shape::Value | Shape::Pointer | Shape::Inline => {
                let element = self.with_default(element, types.default_of(field));
                self.wrapped(element)
            }
        };
        if let Some(map) = facts.map {
            schema["x-kubernetes-map-type"] = map.into();
        }
        if let Some((list, keys)) = facts.list {
            schema["x-kubernetes-list-type"] = list.into();
            if !keys.is_empty() {
                schema["x-kubernetes-list-map-keys"] = keys.split(',').collect();
            }
        }
        if let Some((strategy, key)) = facts.patch {
            schema["x-kubernetes-patch-strategy"] = strategy.into();
            if !key.is_empty() {
                schema["x-kubernetes-patch-merge-key"] = key.into();
            }
        }
        schema
    }

    fn element(&mut self, field: &Field) -> Value {
        let union = |models: &Self, v3: Value| {
            if models.version == Version::V3 { json!({"oneOf": v3}) } else { json!({"type": "string"}) }
        };
        match field.base {
            Base::Bool => json!({"type": "boolean"}),
            Base::Int32 => json!({"type": "integer", "format": "int32"}),
            Base::Int64 => json!({"type": "integer", "format": "int64"}),
            Base::Double => json!({"type": "number", "format": "double"}),
            Base::String => json!({"type": "string"}),
            Base::Bytes => json!({"type": "string", "format": "byte"}),
            Base::Time => self.meta("Time"),
            Base::MicroTime => self.meta("MicroTime"),
            Base::Quantity => self.reference("io.k8s.apimachinery.pkg.api.resource.Quantity", |models| {
                union(models, json!([{"type": "string"}, {"type": "number"}]))
            }),
            Base::IntOrString => {
                self.reference("io.k8s.apimachinery.pkg.util.intstr.IntOrString", |models| {
                    let mut schema = union(models, json!([{"type": "integer"}, {"type": "string"}]));
                    schema["format"] = "int-or-string".into();
                    schema
                })
            }
            Base::Json => match field.go_base {
                Some("v1.FieldsV1") => self.meta("FieldsV1"),
                Some(_) => self.reference(&format!("{EXTENSIONS}.JSON"), |_| json!({})),
                None => self
                    .reference("io.k8s.apimachinery.pkg.runtime.RawExtension", |_| json!({"type": "object"})),
            },
            Base::Message(place) => match Types::get().message(place) {
                // Such a list has no model.
                Some(Message { form: Form::List, fields, .. }) => {
                    fields.first().map_or_else(|| json!({}), |items| self.property(items))
                }
                _ => self.message(place),
            },
        }
    }

    /// Adds a default. Documents of version 2 contain no defaults.
    fn with_default(&self, schema: Value, default: Option<Value>) -> Value {
        let Some(default) = default.filter(|_| self.version == Version::V3) else { return schema };
        let mut schema = self.wrapped(schema);
        schema["default"] = default;
        schema
    }

    /// Wraps a reference, because it has no siblings in version 3.
    pub(super) fn wrapped(&self, schema: Value) -> Value {
        let is_reference = schema.get("$ref").is_some();
        if is_reference && self.version == Version::V3 { json!({"allOf": [schema]}) } else { schema }
    }
}

/// Returns the JSON fields of a message in the order of the Go type.
fn declared(message: &'static Message) -> Vec<&'static Field> {
    let fields = message.fields.iter().map(|field| match (field.shape, field.base) {
        (Shape::Inline, Base::Message(inner)) => {
            Types::get().message(inner).map(declared).unwrap_or_default()
        }
        _ => vec![field],
    });
    fields.flatten().collect()
}

pub(super) const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

pub(super) fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "kind": kind, "version": version})
}
