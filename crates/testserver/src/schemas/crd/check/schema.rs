//! Validation of the schema of a version: structure, defaults and supported keywords.

use serde_json::Value;

use crate::schemas::crd::check::{default_values, rules, structural};
use crate::schemas::crd::schema::node::{self, Additional, flag, properties, text, texts};
use crate::status::Cause;

/// The keywords that are permitted at the root if the status subresource is enabled, as in the message
/// of the real server.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Validates the schema at the field `at`. `status` is true if the status subresource is enabled.
pub(super) fn check(schema: Option<&Value>, at: &str, status: bool) -> Vec<Cause> {
    let Some(schema) = schema.filter(|schema| schema.is_object()) else { return Vec::new() };
    let mut causes: Vec<Cause> = Vec::new();
    if status {
        causes.extend(root_of_status(schema, at));
    }
    if flag(schema, "nullable") {
        causes.push(Cause::forbidden(&format!("{at}.nullable"), "nullable cannot be true at the root"));
    }
    let structure = structural::check(schema, at);
    if structure.is_empty() {
        causes.extend(default_values::check(schema, at));
    }
    causes.extend(structure);
    walk(schema, at, NodeContext { root: true, ..NodeContext::default() }, &mut causes);
    if causes.is_empty() {
        causes.extend(expressions(schema, at));
    }
    causes
}

/// Validates the expressions of the rules. Their types require a valid schema.
#[cfg(feature = "cel")]
fn expressions(schema: &Value, at: &str) -> Vec<Cause> {
    crate::schemas::crd::cel::compile(schema, at).1
}

/// Rejects rules, because the server cannot evaluate them.
#[cfg(not(feature = "cel"))]
fn expressions(schema: &Value, at: &str) -> Option<Cause> {
    let detail = "kube-testserver was built without its feature `cel`, so it cannot evaluate \
                  x-kubernetes-validations; enable the feature, or remove the rules";
    node::any(schema, &node::has_rules).then(|| Cause::forbidden(at, detail))
}

/// Rejects keywords at the root that would be lost when the server validates only the status.
fn root_of_status(schema: &Value, at: &str) -> Option<Cause> {
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(Cause::invalid(&format!("{at}.type"), &format!("{kind:?}"), detail));
    }
    let lost = |key: &String| {
        let plain = key.replace("x-kubernetes-", "x-").replace('-', "");
        !AT_ROOT.iter().any(|allowed| allowed.eq_ignore_ascii_case(&plain))
    };
    let lost = schema.as_object().into_iter().flatten().any(|(key, value)| !value.is_null() && lost(key));
    let list = AT_ROOT.join(" ");
    let detail = format!(
        "only [{list}] fields are allowed at the root of the schema if the status subresource is enabled"
    );
    lost.then(|| Cause::invalid(at, &schema.to_string(), &detail))
}

/// The context of a node in the schema.
#[derive(Clone, Copy, Debug, Default)]
struct NodeContext {
    root: bool,
    /// True if the node is in the metadata, kind or apiVersion of an object.
    meta: bool,
    /// The reason why defaults are forbidden. Empty if defaults are permitted.
    no_defaults: &'static str,
}

fn walk(schema: &Value, at: &str, context: NodeContext, causes: &mut Vec<Cause>) {
    unsupported(schema, at, context, causes);
    let below = NodeContext { root: false, ..context };
    if let Additional::Schema(additional) = node::additional(schema) {
        let no_defaults = if context.meta {
            " inside additionalProperties applying to object metadata"
        } else {
            context.no_defaults
        };
        walk(additional, &format!("{at}.additionalProperties"), NodeContext { no_defaults, ..below }, causes);
    }
    for (name, property) in properties(schema) {
        let of_object = context.root || node::is_embedded(schema);
        let below = match name.as_str() {
            "metadata" | "kind" | "apiVersion" if of_object => NodeContext {
                meta: true,
                no_defaults: if context.root { in_top_level(name) } else { context.no_defaults },
                ..below
            },
            _ => below,
        };
        walk(property, &format!("{at}.properties[{name}]"), below, causes);
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        walk(not, &format!("{at}.not"), below, causes);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, part) in schema.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
            walk(part, &format!("{at}.{key}[{index}]"), below, causes);
        }
    }
    if let Some(items) = node::items(schema) {
        walk(items, &format!("{at}.items"), below, causes);
    }
    list_and_map_types(schema, at, causes);
    causes.extend(rules::check(schema, at));
}

fn in_top_level(name: &str) -> &'static str {
    match name {
        "metadata" => " in top-level metadata",
        "kind" => " in top-level kind",
        _ => " in top-level apiVersion",
    }
}

/// Rejects keywords of OpenAPI that CRDs do not support.
fn unsupported(schema: &Value, at: &str, context: NodeContext, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        causes.push(Cause::unsupported(&format!("{at}.type"), kind, &TYPES));
    }
    if node::default(schema).is_some() && !context.no_defaults.is_empty() {
        causes.push(Cause::forbidden(
            &format!("{at}.default"),
            &format!("must not be set{}", context.no_defaults),
        ));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.get(key).is_some_and(|value| !value.is_null()) {
            causes.push(Cause::forbidden(&format!("{at}.{key}"), &format!("{key} is not supported")));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        causes.push(Cause::forbidden(&format!("{at}.type"), detail));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        causes
            .push(Cause::forbidden(&format!("{at}.items"), "items must be a schema object and not an array"));
    }
    if context.meta && node::is_embedded(schema) {
        let field = format!("{at}.x-kubernetes-embedded-resource");
        causes.push(Cause::forbidden(&field, "must not be used inside of resource meta"));
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(&format!("{at}.uniqueItems"), detail));
    }
    let additional = schema.get("additionalProperties").filter(|value| !value.is_null());
    if additional.is_some_and(|value| *value != true) && properties(schema).next().is_some() {
        let detail = "additionalProperties and properties are mutual exclusive";
        causes.push(Cause::forbidden(&format!("{at}.additionalProperties"), detail));
    }
}

/// Validates the extensions for lists and maps.
fn list_and_map_types(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = format!("{at}.x-kubernetes-preserve-unknown-fields");
        causes.push(Cause::invalid(&field, "false", "must be true or undefined"));
    }
    let (map_type, list_type) =
        (text(schema, "x-kubernetes-map-type"), text(schema, "x-kubernetes-list-type"));
    if !map_type.is_empty() {
        causes.extend(needs_type(schema, at, "object", "x-kubernetes-map-type"));
        if !["atomic", "granular"].contains(&map_type) {
            let field = format!("{at}.x-kubernetes-map-type");
            causes.push(Cause::unsupported(&field, map_type, &["atomic", "granular"]));
        }
    }
    if !list_type.is_empty() {
        let wrong = needs_type(schema, at, "array", "x-kubernetes-list-type");
        if wrong.is_none() && list_type == "set" {
            causes.extend(items_of_set(schema, at));
        }
        causes.extend(wrong);
        if !["atomic", "set", "map"].contains(&list_type) {
            let field = format!("{at}.x-kubernetes-list-type");
            causes.push(Cause::unsupported(&field, list_type, &["atomic", "set", "map"]));
        }
    }
    let has_keys = texts(schema, "x-kubernetes-list-map-keys").next().is_some();
    if has_keys && list_type != "map" {
        let field = format!("{at}.x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        causes.push(match list_type {
            "" => Cause::required(&field, detail),
            other => Cause::invalid(&field, &format!("{other:?}"), detail),
        });
    }
    if list_type == "map" {
        keys_of_map(schema, at, has_keys, causes);
    }
    if ["set", "map"].contains(&list_type) {
        check_item_presence(schema, at, list_type, causes);
    }
}

fn needs_type(schema: &Value, at: &str, wanted: &str, extension: &str) -> Option<Cause> {
    let detail = format!("must be {wanted} if {extension} is specified");
    let field = format!("{at}.type");
    match text(schema, "type") {
        kind if kind == wanted => None,
        "" => Some(Cause::required(&field, &detail)),
        other => Some(Cause::invalid(&field, &format!("{other:?}"), &detail)),
    }
}

fn items_of_set(schema: &Value, at: &str) -> Option<Cause> {
    let items = node::items(schema)?;
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = text(items, "x-kubernetes-list-type");
    let shown = if list_type.is_empty() { "null".into() } else { format!("{list_type:?}") };
    let key = match text(items, "type") {
        "array" if !["", "atomic"].contains(&list_type) => "x-kubernetes-list-type",
        "object" if text(items, "x-kubernetes-map-type") != "atomic" => "x-kubernetes-map-type",
        _ => return None,
    };
    Some(Cause::invalid(&format!("{at}.items.{key}"), &shown, detail))
}

fn keys_of_map(schema: &Value, at: &str, has_keys: bool, causes: &mut Vec<Cause>) {
    let field = format!("{at}.x-kubernetes-list-map-keys");
    if !has_keys {
        causes.push(Cause::required(&field, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = node::items(schema) else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        causes.push(Cause::required(&format!("{at}.items"), detail));
        return;
    };
    let kind = text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(&format!("{at}.items.type"), &format!("{kind:?}"), detail));
        return;
    }
    let shown = schema.get("x-kubernetes-list-map-keys").map(Value::to_string).unwrap_or_default();
    let mut seen = Vec::new();
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        match node::property(items, key).map(|property| text(property, "type")) {
            None => {
                causes.push(Cause::invalid(&field, &shown, "entries must all be names of item properties"));
            }
            Some("array" | "object") => {
                let field = format!("{at}.items.properties[{key}].type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                causes.push(Cause::invalid(&field, &format!("{kind:?}"), detail));
            }
            Some(_) => {}
        }
        if seen.contains(&key) {
            causes.push(Cause::invalid(&field, &shown, "must not contain duplicate entries"));
        }
        seen.push(key);
    }
}

/// Checks that items of sets and maps are not nullable, and that the keys of maps are always present.
fn check_item_presence(schema: &Value, at: &str, list_type: &str, causes: &mut Vec<Cause>) {
    let Some(items) = node::items(schema) else { return };
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(Cause::forbidden(&format!("{at}.items.nullable"), &detail));
    }
    if list_type != "map" {
        return;
    }
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        let Some(property) = node::property(items, key) else { continue };
        let field = format!("{at}.items.properties[{key}]");
        if !texts(items, "required").any(|required| required == key) && node::default(property).is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(&format!("{field}.default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(&format!("{field}.nullable"), detail));
        }
    }
}
