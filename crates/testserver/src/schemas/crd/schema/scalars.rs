//! Checks of a value by its type: types, texts, numbers, enums and sizes.

use std::cmp::Ordering;

use regex::Regex;
use serde_json::Value;

use crate::schemas::crd::schema::validate::without_field;
use crate::schemas::crd::schema::{formats, node};
use crate::status::Cause;

/// Returns the permitted types, without null. Empty if the schema permits any type.
fn types(schema: &Value) -> Vec<&str> {
    if node::flag(schema, "x-kubernetes-int-or-string") {
        return vec!["integer", "string"];
    }
    Some(node::text(schema, "type")).filter(|text| !text.is_empty()).into_iter().collect()
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(super) fn wrong_type(schema: &Value, value: &Value, name: &str, at: &str) -> Option<Cause> {
    let (types, found) = (types(schema), type_of(value));
    let is_integer_for_number = found == "integer" && types.contains(&"number");
    let is_nullable = value.is_null() && node::flag(schema, "nullable");
    if types.is_empty() || types.contains(&found) || is_integer_for_number || is_nullable {
        return None;
    }
    let text = format!("{name} in body must be of type {}: \"{found}\"", types.join(","));
    Some(Cause::wrong_type(at, &format!("\"{found}\""), &text))
}

/// Checks a text. Only the first error of its length and its pattern is reported.
pub(super) fn text(
    schema: &Value,
    value: &Value,
    name: &str,
    at: &str,
    pattern: Option<&Regex>,
) -> Vec<Cause> {
    let Value::String(text) = value else { return Vec::new() };
    let invalid = |detail: &str| Cause::invalid(at, &value.to_string(), &format!("{name} in body {detail}"));
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    let length = text.chars().count() as u64;
    let mut causes = Vec::new();
    if let Some(limit) = limit("maxLength").filter(|limit| length > *limit) {
        causes.push(Cause::too_long(at, limit));
    } else if let Some(limit) = limit("minLength").filter(|limit| length < *limit) {
        causes.push(invalid(&format!("should be at least {limit} chars long")));
    } else if pattern.is_some_and(|pattern| !pattern.is_match(text)) {
        causes.push(invalid(&format!("should match '{}'", node::text(schema, "pattern"))));
    }
    let format = node::text(schema, "format");
    if matches!(types(schema)[..], [] | ["string"]) && !formats::matches(format, text) {
        let text = format!("{name} in body must be of type {format}: {value}");
        causes.push(Cause::wrong_type(at, &value.to_string(), &text));
    }
    causes
}

pub(super) fn number(schema: &Value, value: &Value, name: &str, at: &str) -> Vec<Cause> {
    if !value.is_number() {
        return Vec::new();
    }
    let invalid =
        |detail: String| Cause::invalid(at, &value.to_string(), &format!("{name} in body {detail}"));
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64).map(|limit| bound(value, limit));
    let mut causes: Vec<Cause> = out_of_range(schema, value, name).into_iter().collect();
    let number = value.as_f64().unwrap_or(f64::NAN);
    let factor = schema.get("multipleOf").and_then(Value::as_f64);
    if let Some(factor) = factor.filter(|factor| !is_multiple(number, *factor)) {
        causes.push(invalid(format!("should be a multiple of {}", factor)));
    }
    for (key, exclusive, word, order) in [
        ("minimum", "exclusiveMinimum", "greater", Ordering::Less),
        ("maximum", "exclusiveMaximum", "less", Ordering::Greater),
    ] {
        let Some(limit) = limit(key) else { continue };
        let is_exclusive = node::flag(schema, exclusive);
        if number.partial_cmp(&limit) == Some(order) || (is_exclusive && number == limit) {
            let equal = if is_exclusive { "" } else { " or equal to" };
            causes.push(invalid(format!("should be {word} than{equal} {limit}")));
        }
    }
    causes
}

/// Checks the range of the format of a number. Go's integers have 64 bits.
fn out_of_range(schema: &Value, value: &Value, name: &str) -> Option<Cause> {
    let types = types(schema);
    let [kind @ ("integer" | "number")] = types[..] else { return None };
    let number = value.as_f64().unwrap_or(f64::NAN);
    let format = Some(node::text(schema, "format")).filter(|format| !format.is_empty()).unwrap_or("default");
    let is_inside = match (kind, format) {
        ("integer", "int32") => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        ("integer", _) => value.is_i64(),
        (_, "float") => number.abs() <= f64::from(f32::MAX),
        _ => true,
    };
    let text = format!("Checked value must be of type {kind} with format {format} in {name}");
    (!is_inside).then(|| without_field(&text))
}

/// Returns whether a number is a multiple of `factor`, with the tolerance of kube-apiserver.
fn is_multiple(number: f64, factor: f64) -> bool {
    let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
    let difference = (quotient - quotient.round()).abs();
    difference == 0.0 || difference / (2.0 * quotient.abs()) < 1e-9
}

/// Returns the limit that applies to a value. For an integer, the limit is an integer.
fn bound(value: &Value, limit: f64) -> f64 {
    if value.is_f64() { limit } else { limit.trunc() }
}

pub(super) fn not_in_enum(schema: &Value, value: &Value, at: &str) -> Option<Cause> {
    let options = node::list(schema, "enum");
    let is_same = |option: &Value| match (option, value) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => option == value,
    };
    if options.is_empty() || options.iter().any(is_same) {
        return None;
    }
    let text = |option: &Value| option.as_str().map_or_else(|| option.to_string(), Into::into);
    let options: Vec<String> = options.iter().map(text).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Some(Cause::not_supported(at, &value.to_string(), &options))
}

/// Checks the number of items of a list, or the number of fields of an object.
pub(super) fn size(schema: &Value, value: &Value, name: &str, at: &str) -> Vec<Cause> {
    let (size, min, max, what) = match value {
        Value::Array(list) => (list.len(), "minItems", "maxItems", "items"),
        Value::Object(map) => (map.len(), "minProperties", "maxProperties", "properties"),
        _ => return Vec::new(),
    };
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64);
    let mut causes = Vec::new();
    if let Some(limit) = limit(min).filter(|limit| (size as u64) < *limit) {
        let text = format!("{name} in body should have at least {limit} {what}");
        causes.push(Cause::invalid(at, &size.to_string(), &text));
    }
    causes.extend(limit(max).filter(|limit| size as u64 > *limit).map(|max| Cause::too_many(at, size, max)));
    causes
}

/// Replaces the classes that contain only ASCII in Go, but all of Unicode in Rust.
pub(super) fn ascii_classes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('d') => out.push_str("[0-9]"),
            Some('D') => out.push_str("[^0-9]"),
            Some('w') => out.push_str("[0-9A-Za-z_]"),
            Some('W') => out.push_str("[^0-9A-Za-z_]"),
            Some('s') => out.push_str(r"[\t\n\f\r ]"),
            Some('S') => out.push_str(r"[^\t\n\f\r ]"),
            Some('b') => out.push_str(r"(?-u:\b)"),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_patterns_contain_only_ascii() {
        let matches = |pattern: &str, text: &str| Regex::new(&ascii_classes(pattern)).unwrap().is_match(text);
        assert!(matches(r"^\d+$", "12") && !matches(r"^\d+$", "١"));
        assert!(matches(r"^[\w-]+$", "a_-") && !matches(r"^[\w-]+$", "ä"));
        assert!(matches(r"^[^\s]+$", "ä\u{b}") && !matches(r"^\S$", " "));
        assert!(matches(r"^a\.b\\$", r"a.b\"));
    }

    #[test]
    fn multiples_have_the_tolerance_of_floats() {
        assert!(is_multiple(0.3, 0.1) && is_multiple(4.0, 2.0) && is_multiple(0.0, 3.0));
        assert!(!is_multiple(0.35, 0.1) && !is_multiple(2.5, 2.0));
    }
}
