//! Checks that a schema is structural. Every field has a type, and `allOf`, `anyOf`, `oneOf` and `not`
//! contain only further restrictions.

use regex::Regex;
use serde_json::{Value, json};

use crate::schemas::crd::schema::node::{self, Additional, flag, properties, text};
use crate::status::Cause;

/// Returns the structural errors in the order of the real server.
pub(super) fn check(schema: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    node(schema, true, at, &mut causes);
    complete(schema, schema, at, at, &mut causes);
    causes.sort_by_cached_key(Cause::line);
    causes
}

fn node(schema: &Value, root: bool, at: &str, causes: &mut Vec<Cause>) {
    let kind = text(schema, "type");
    if kind == "array" && node::items(schema).is_none() {
        causes.push(Cause::required(&format!("{at}.items"), "must be specified"));
    }
    for (place, child) in node::structure(schema) {
        node(child, false, &format!("{at}{place}"), causes);
    }
    if root && !matches!(node::additional(schema), Additional::Unknown) {
        causes.push(Cause::forbidden(&format!("{at}.additionalProperties"), "must not be used at the root"));
    }
    extensions(schema, at, causes);
    values(schema, at, causes);
    if root && !kind.is_empty() && kind != "object" {
        causes.push(Cause::invalid_text(&format!("{at}.type"), kind, "must be object at the root"));
    }
    type_and_metadata(schema, root, at, causes);
}

/// Returns whether the node is the alternative of an integer and a text. Only this alternative may
/// contain types under `anyOf`.
fn is_int_or_string(schema: &Value) -> bool {
    schema.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn extensions(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    let (embedded, preserves) = (node::is_embedded(schema), node::preserves(schema));
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    let detail = "must be false if x-kubernetes-int-or-string is true";
    for (is, key) in [(preserves, "preserve-unknown-fields"), (embedded, "embedded-resource")] {
        if int_or_string && is {
            causes.push(Cause::invalid(&format!("{at}.x-kubernetes-{key}"), "true", detail));
        }
    }
    let (kind, field) = (text(schema, "type"), format!("{at}.type"));
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(Cause::wrong_text(&field, kind, detail));
    } else if kind.is_empty() && !int_or_string && !preserves {
        causes.push(Cause::required(&field, "must not be empty"));
    }
}

/// Checks kind, apiVersion and metadata of an object. A schema may restrict only the name in the
/// metadata.
fn type_and_metadata(schema: &Value, root: bool, at: &str, causes: &mut Vec<Cause>) {
    if !root && !node::is_embedded(schema) {
        return;
    }
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let kind = node::property(schema, name).map(|property| text(property, "type"));
        if let Some(kind) = kind.filter(|kind| *kind != wanted) {
            let field = format!("{at}.properties[{name}].type");
            causes.push(Cause::invalid_text(&field, kind, &format!("must be {wanted}")));
        }
    }
    let Some(metadata) = node::property(schema, "metadata").filter(|_| root) else { return };
    let names = properties(metadata).all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    let keys = metadata.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let plain = keys.map(|(key, _)| key.as_str()).all(|key| matches!(key, "type" | "properties" | "default"));
    if !names || !plain {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.push(Cause::forbidden(&format!("{at}.properties[metadata]"), detail));
    }
}

/// Checks the alternatives of a node, and its pattern.
fn values(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    for (place, part) in node::alternatives(schema) {
        if !(place.starts_with(".anyOf") && is_int_or_string(schema)) {
            nested(part, &format!("{at}{place}"), causes);
        }
    }
    if let Err(error) = Regex::new(text(schema, "pattern")) {
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {error}");
        let shown = format!("{:?}", text(schema, "pattern"));
        causes.push(Cause::invalid(&format!("{at}.pattern"), &shown, &detail));
    }
}

/// The keywords that are forbidden under `allOf`, `anyOf`, `oneOf` and `not`.
const NOT_NESTED: &str = "type additionalProperties default title description nullable \
    x-kubernetes-preserve-unknown-fields x-kubernetes-embedded-resource x-kubernetes-int-or-string \
    x-kubernetes-list-map-keys x-kubernetes-list-type x-kubernetes-map-type x-kubernetes-validations";

/// Rejects keywords that are forbidden in nested schemas.
fn nested(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    values(schema, at, causes);
    for (place, child) in node::structure(schema) {
        nested(child, &format!("{at}{place}"), causes);
    }
    for key in NOT_NESTED.split(' ') {
        let is_set = |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && *value != "";
        if schema.get(key).is_some_and(|value| is_set(value) || key == "additionalProperties") {
            causes.push(Cause::forbidden(&format!("{at}.{key}"), "must not be set to be structural"));
        }
    }
    if node::property(schema, "metadata").is_some() {
        let detail = "must not be specified in a nested context";
        causes.push(Cause::forbidden(&format!("{at}.properties[metadata]"), detail));
    }
}

/// Checks that the fields in alternatives of the root also exist outside of the alternatives.
fn complete(values: &Value, schema: &Value, at: &str, values_at: &str, causes: &mut Vec<Cause>) {
    for (place, part) in node::alternatives(values) {
        complete_part(part, schema, at, &format!("{values_at}{place}"), causes);
    }
}

fn complete_part(part: &Value, schema: &Value, at: &str, part_at: &str, causes: &mut Vec<Cause>) {
    complete(part, schema, at, part_at, causes);
    for (place, child) in node::structure(part) {
        let (at, part_at) = (format!("{at}{place}"), format!("{part_at}{place}"));
        match node::structure(schema).find(|(known, _)| *known == place) {
            Some((_, schema)) => complete_part(child, schema, &at, &part_at, causes),
            None => causes.push(Cause::required(&at, &format!("because it is defined in {part_at}"))),
        }
    }
}
