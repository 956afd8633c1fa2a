//! Validation of the schema of a version: structure, defaults and supported keywords.

use serde_json::Value;

use crate::schemas::crd::check::{field_path, structural};
use crate::schemas::crd::schema::node::{self, flag, properties, text, texts};
use crate::schemas::crd::schema::prune::prune_value;
use crate::schemas::crd::schema::validate::Validator;
use crate::status::Cause;

pub(super) fn check(schema: &Value, at: &str) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    if flag(schema, "nullable") {
        causes.push(Cause::forbidden(&format!("{at}.nullable"), "nullable cannot be true at the root"));
    }
    let structure = structural::check(schema, at);
    if structure.is_empty() {
        defaults(schema, at, &mut causes);
    }
    causes.extend(structure);
    walk(schema, at, NodeContext { root: true, ..NodeContext::default() }, &mut causes);
    if causes.is_empty() {
        causes.extend(expressions(schema, at));
    }
    causes
}

/// Checks that each default matches its schema, without unknown fields.
fn defaults(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    if let Some(default) = node::default(schema) {
        let field = format!("{at}.default");
        let mut pruned = default.clone();
        prune_value(&mut pruned, schema);
        if pruned != *default {
            causes.push(Cause::invalid(&field, &default.to_string(), "must not have unknown fields"));
        }
        causes.extend(Validator::new(schema).validate(schema, &pruned, &field, None));
    }
    for (place, child) in node::structure(schema) {
        defaults(child, &format!("{at}{place}"), causes);
    }
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

#[derive(Clone, Copy, Debug, Default)]
struct NodeContext {
    root: bool,
    /// True if the node is in the metadata, kind or apiVersion of an object.
    meta: bool,
    no_defaults: bool,
}

fn walk(schema: &Value, at: &str, context: NodeContext, causes: &mut Vec<Cause>) {
    unsupported(schema, at, context, causes);
    let is_object = context.root || node::is_embedded(schema);
    for (place, child) in node::below(schema) {
        let below = NodeContext { root: false, ..context };
        let below = match place.as_str() {
            ".additionalProperties" => {
                NodeContext { no_defaults: context.meta || context.no_defaults, ..below }
            }
            ".properties[metadata]" | ".properties[kind]" | ".properties[apiVersion]" if is_object => {
                NodeContext { meta: true, no_defaults: context.root || context.no_defaults, ..below }
            }
            _ => below,
        };
        walk(child, &format!("{at}{place}"), below, causes);
    }
    list_and_map_types(schema, at, causes);
    for (index, rule) in node::list(schema, "x-kubernetes-validations").iter().enumerate() {
        causes.extend(self::rule(rule, schema, &format!("{at}.x-kubernetes-validations[{index}]")));
    }
}

/// Rejects keywords of OpenAPI that CRDs do not support.
fn unsupported(schema: &Value, at: &str, context: NodeContext, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        causes.push(Cause::unsupported(&format!("{at}.type"), kind, &TYPES));
    }
    if node::default(schema).is_some() && context.no_defaults {
        causes.push(Cause::forbidden(&format!("{at}.default"), "must not be set in object metadata"));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.get(key).is_some_and(|value| !value.is_null()) {
            causes.push(Cause::forbidden(&format!("{at}.{key}"), &format!("{key} is not supported")));
        }
    }
    let additional = schema.get("additionalProperties").filter(|value| !value.is_null());
    let both = additional.is_some_and(|value| *value != true) && properties(schema).next().is_some();
    let items_are_list = schema.get("items").is_some_and(Value::is_array);
    for (is_wrong, key, detail) in [
        (items_are_list, "items", "items must be a schema object and not an array"),
        (flag(schema, "uniqueItems"), "uniqueItems", "uniqueItems cannot be set to true"),
        (both, "additionalProperties", "additionalProperties and properties are mutual exclusive"),
    ] {
        if is_wrong {
            causes.push(Cause::forbidden(&format!("{at}.{key}"), detail));
        }
    }
}

/// Validates the extensions for lists and maps.
fn list_and_map_types(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    let (map_key, list_key) = ("x-kubernetes-map-type", "x-kubernetes-list-type");
    let (map_type, list_type) = (text(schema, map_key), text(schema, list_key));
    for (key, value, wanted, supported) in [
        (map_key, map_type, "object", ["atomic", "granular"].as_slice()),
        (list_key, list_type, "array", &["atomic", "set", "map"]),
    ] {
        if value.is_empty() {
            continue;
        }
        let (field, detail) = (format!("{at}.type"), format!("must be {wanted} if {key} is specified"));
        if text(schema, "type") != wanted {
            causes.push(Cause::wrong_text(&field, text(schema, "type"), &detail));
        }
        if !supported.contains(&value) {
            causes.push(Cause::unsupported(&format!("{at}.{key}"), value, supported));
        }
    }
    let has_keys = texts(schema, MAP_KEYS).next().is_some();
    if has_keys && list_type != "map" {
        let (field, detail) = (format!("{at}.{list_key}"), format!("must be map if {MAP_KEYS} is non-empty"));
        causes.push(Cause::wrong_text(&field, list_type, &detail));
    }
    let items = node::items(schema).unwrap_or(&Value::Null);
    let is_list = matches!((list_type, text(schema, "type")), ("set", "array"));
    if is_list && text(items, "type") == "object" && text(items, map_key) != "atomic" {
        let (field, detail) = (format!("{at}.items.{map_key}"), "must be atomic as item of a set");
        causes.push(Cause::invalid(&field, &items[map_key].to_string(), detail));
    }
    if ["set", "map"].contains(&list_type) && flag(items, "nullable") {
        let detail = format!("cannot be nullable when {list_key} is {list_type}");
        causes.push(Cause::forbidden(&format!("{at}.items.nullable"), &detail));
    }
    if list_type == "map" {
        keys_of_map(schema, items, at, causes);
    }
}

const MAP_KEYS: &str = "x-kubernetes-list-map-keys";

/// Validates the keys of a list with keys. They must be scalar fields that are always present.
fn keys_of_map(schema: &Value, items: &Value, at: &str, causes: &mut Vec<Cause>) {
    let field = format!("{at}.{MAP_KEYS}");
    if texts(schema, MAP_KEYS).next().is_none() {
        causes.push(Cause::required(&field, "must not be empty if x-kubernetes-list-type is map"));
    }
    let kind = text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(match items {
            Value::Null => Cause::required(&format!("{at}.items"), detail),
            _ => Cause::invalid_text(&format!("{at}.items.type"), kind, detail),
        });
        return;
    }
    for key in texts(schema, MAP_KEYS) {
        let Some(property) = node::property(items, key) else {
            let detail = "entries must all be names of item properties";
            causes.push(Cause::invalid(&field, &schema[MAP_KEYS].to_string(), detail));
            continue;
        };
        let item_field = format!("{at}.items.properties[{key}]");
        if let kind @ ("array" | "object") = text(property, "type") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            causes.push(Cause::invalid_text(&format!("{item_field}.type"), kind, detail));
        }
        if !texts(items, "required").any(|required| required == key) && node::default(property).is_none() {
            let detail = format!(
                "this property is in {MAP_KEYS}, so it must have a default or be a required property"
            );
            causes.push(Cause::required(&format!("{item_field}.default"), &detail));
        }
        if flag(property, "nullable") {
            let detail = format!("this property is in {MAP_KEYS}, so it cannot be nullable");
            causes.push(Cause::forbidden(&format!("{item_field}.nullable"), &detail));
        }
    }
}

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Validates a rule (`x-kubernetes-validations`), except its expressions.
fn rule(rule: &Value, schema: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let field = |key: &str| format!("{at}.{key}");
    let is_blank = |key: &str| !text(rule, key).is_empty() && text(rule, key).trim().is_empty();
    let (source, message, path) = (text(rule, "rule"), text(rule, "message"), text(rule, "fieldPath"));
    if source.trim().is_empty() {
        causes.push(Cause::required(&field("rule"), "rule is not specified"));
    } else if is_blank("message") || message.trim().contains('\n') {
        let detail = "must contain a text without line breaks if specified";
        causes.push(Cause::invalid_text(&field("message"), message, detail));
    } else if source.trim().contains('\n') && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        causes.push(Cause::required(&field("message"), detail));
    }
    if is_blank("messageExpression") {
        let detail = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(&field("messageExpression"), detail));
    }
    let reason = rule.get("reason").and_then(Value::as_str);
    if let Some(reason) = reason.filter(|reason| !REASONS.contains(reason)) {
        causes.push(Cause::unsupported(&field("reason"), reason, &REASONS));
    }
    if !path.is_empty() && field_path::parse(path, schema).is_none() {
        causes.push(Cause::invalid_text(&field("fieldPath"), path, "must be a valid path"));
    }
    causes
}
