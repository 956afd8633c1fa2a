//! The words of kube-apiserver for what a validator finds.

use std::collections::BTreeMap;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use crate::crd::schema::compile::{FORMAT, RANGE};
use crate::crd::schema::place::{Order, Place, Step, Turn, name};
use crate::crd::schema::validate::place;
use crate::status::Cause;

/// Complaints about the whole carry this for a field.
pub(crate) const NOWHERE: &str = "<nil>";

/// Puts errors into the words and the order of kube-apiserver; without those that are tolerated.
pub(crate) fn causes(
    errors: &[ValidationError<'_>],
    translated: &Value,
    field: &str,
    tolerated: &dyn Fn(&[Step]) -> bool,
) -> Vec<Cause> {
    let speaker = Speaker { translated, field, tolerated };
    speaker.say(errors)
}

/// What all complaints of one validation share.
struct Speaker<'a> {
    translated: &'a Value,
    /// Where the validated value stands in its object; empty if it is the object.
    field: &'a str,
    tolerated: &'a dyn Fn(&[Step]) -> bool,
}

/// An error at its place.
struct Found<'a> {
    error: &'a ValidationError<'a>,
    place: Place<'a>,
    order: Order,
}

impl Speaker<'_> {
    fn say(&self, errors: &[ValidationError<'_>]) -> Vec<Cause> {
        let mut found: Vec<Found<'_>> = errors.iter().map(|error| self.find(error)).collect();
        found.retain(|found| !(self.tolerated)(&found.place.steps) && !is_skipped(found.error));
        found.sort_by(|one, other| one.order.cmp(&other.order));
        found.dedup_by(|later, first| later.place.order == first.place.order && both_of_text(later, first));
        let mut said: Vec<(Order, Vec<Cause>)> =
            found.iter().map(|found| (found.order.clone(), self.about(found))).collect();
        said.extend(self.junctions(&found));
        said.sort_by(|one, other| one.0.cmp(&other.0));
        said.into_iter().flat_map(|(_, causes)| causes).collect()
    }

    fn find<'a>(&'a self, error: &'a ValidationError<'a>) -> Found<'a> {
        let place = place(error, self.translated);
        let order = place.turn(turn(error.kind()));
        Found { error, place, order }
    }

    /// What is said of each `allOf` with a part that failed.
    fn junctions(&self, found: &[Found<'_>]) -> Vec<(Order, Vec<Cause>)> {
        let mut failed: BTreeMap<Order, (String, usize, Vec<usize>)> = BTreeMap::new();
        for junction in found.iter().flat_map(|found| &found.place.junctions) {
            let entry = failed.entry(junction.order.clone());
            let (_, _, parts) = entry.or_insert((name(&junction.steps), junction.parts, Vec::new()));
            if !parts.contains(&junction.part) {
                parts.push(junction.part);
            }
        }
        let say = |(mut order, (name, parts, failed)): (Order, (String, usize, Vec<usize>))| {
            let none = if failed.len() == parts { ". None validated" } else { "" };
            order.push((Turn::AllOf, "~".into()));
            (order, vec![nowhere(&format!("\"{name}\" must validate all the schemas (allOf){none}"))])
        };
        failed.into_iter().map(say).collect()
    }

    /// The field of a complaint.
    fn at(&self, name: &str) -> String {
        match (self.field, name) {
            ("", "") => NOWHERE.into(),
            (field, "") => field.into(),
            ("", name) => name.into(),
            (field, name) => format!("{field}.{name}"),
        }
    }

    fn about(&self, found: &Found<'_>) -> Vec<Cause> {
        let value = found.error.instance().as_ref();
        let name = name(&found.place.steps);
        let at = self.at(&name);
        let size =
            value.as_array().map(Vec::len).or(value.as_object().map(serde_json::Map::len)).unwrap_or(0);
        let invalid =
            |text: &str| vec![Cause::invalid(&at, &value.to_string(), &format!("{name} in body {text}"))];
        let few =
            |text: &str| vec![Cause::invalid(&at, &size.to_string(), &format!("{name} in body {text}"))];
        match found.error.kind() {
            Kind::Type { .. } => vec![wrong_type(&at, &name, value, found.place.node)],
            Kind::Format { .. } => {
                let format = format(found.place.node);
                let text = format!("{name} in body must be of type {format}: {value}");
                vec![Cause::wrong_type(&at, &value.to_string(), &text)]
            }
            Kind::Custom { .. } => vec![out_of_range(&name, found.place.node)],
            Kind::Required { property } => {
                let missing = property.as_str().unwrap_or("");
                let name = if name.is_empty() { missing.into() } else { format!("{name}.{missing}") };
                vec![Cause::required(&self.at(&name), "")]
            }
            Kind::Enum { options } => vec![not_supported(&at, value, options)],
            Kind::MaxLength { limit } => vec![Cause::too_long(&at, *limit)],
            Kind::MinLength { limit } => invalid(&format!("should be at least {limit} chars long")),
            Kind::Pattern { .. } => {
                let pattern = found.place.node.get("pattern").and_then(Value::as_str).unwrap_or("");
                invalid(&format!("should match '{pattern}'"))
            }
            Kind::MultipleOf { multiple_of } => {
                invalid(&format!("should be a multiple of {}", go_float(*multiple_of)))
            }
            Kind::Minimum { limit } => {
                invalid(&format!("should be greater than or equal to {}", bound(value, limit)))
            }
            Kind::ExclusiveMinimum { limit } => {
                invalid(&format!("should be greater than {}", bound(value, limit)))
            }
            Kind::Maximum { limit } => {
                invalid(&format!("should be less than or equal to {}", bound(value, limit)))
            }
            Kind::ExclusiveMaximum { limit } => {
                invalid(&format!("should be less than {}", bound(value, limit)))
            }
            Kind::MinItems { limit } => few(&format!("should have at least {limit} items")),
            Kind::MinProperties { limit } => few(&format!("should have at least {limit} properties")),
            Kind::MaxItems { limit } | Kind::MaxProperties { limit } => {
                vec![Cause::too_many(&at, size, *limit)]
            }
            Kind::UniqueItems => invalid("shouldn't contain duplicates"),
            Kind::AdditionalProperties { unexpected } => {
                let say = |key: &String| {
                    let text = format!("{name}.{key} in body is a forbidden property");
                    Cause::invalid(&at, &format!("{key:?}"), &text)
                };
                unexpected.iter().map(say).collect()
            }
            Kind::AnyOf { context } => {
                let text = format!("\"{name}\" must validate at least one schema (anyOf)");
                self.with_best(&text, context)
            }
            Kind::OneOfNotValid { context } => {
                let text =
                    format!("\"{name}\" must validate one and only one schema (oneOf). Found none valid");
                self.with_best(&text, context)
            }
            Kind::OneOfMultipleValid { context } => {
                let count = context.iter().filter(|errors| errors.is_empty()).count();
                let text = format!(
                    "\"{name}\" must validate one and only one schema (oneOf). Found {count} valid alternatives"
                );
                vec![nowhere(&text)]
            }
            Kind::Not { .. } => vec![nowhere(&format!("\"{name}\" must not validate the schema (not)"))],
            _ => invalid("is invalid"),
        }
    }

    /// A complaint about alternatives, and what the first of them with the fewest complaints says.
    fn with_best(&self, text: &str, context: &[Vec<ValidationError<'static>>]) -> Vec<Cause> {
        let best = context.iter().min_by_key(|errors| errors.len());
        let best = best.map(|errors| self.say(errors)).unwrap_or_default();
        std::iter::once(nowhere(text)).chain(best).collect()
    }
}

fn turn(kind: &Kind) -> Turn {
    match kind {
        Kind::AnyOf { .. } => Turn::AnyOf,
        Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => Turn::OneOf,
        Kind::Not { .. } => Turn::Not,
        Kind::MaxLength { .. } => Turn::MaxLength,
        Kind::MinLength { .. } => Turn::MinLength,
        Kind::Pattern { .. } => Turn::Pattern,
        Kind::Format { .. } => Turn::Format,
        Kind::Custom { .. } => Turn::Range,
        Kind::MultipleOf { .. } => Turn::MultipleOf,
        Kind::Minimum { .. } | Kind::ExclusiveMinimum { .. } => Turn::Minimum,
        Kind::Maximum { .. } | Kind::ExclusiveMaximum { .. } => Turn::Maximum,
        Kind::MinItems { .. } => Turn::MinItems,
        Kind::MaxItems { .. } => Turn::MaxItems,
        Kind::UniqueItems => Turn::UniqueItems,
        Kind::Enum { .. } => Turn::Enum,
        Kind::MinProperties { .. } => Turn::MinProperties,
        Kind::MaxProperties { .. } => Turn::MaxProperties,
        Kind::AdditionalProperties { .. } => Turn::Forbidden,
        Kind::Required { .. } => Turn::Required,
        _ => Turn::Type,
    }
}

/// Of a null only the type and the enum are looked at.
fn is_skipped(error: &ValidationError<'_>) -> bool {
    error.instance().is_null() && !matches!(turn(error.kind()), Turn::Type | Turn::Enum)
}

/// Of length and pattern only the first complaint is made.
fn both_of_text(one: &Found<'_>, other: &Found<'_>) -> bool {
    let of_text = |found: &Found<'_>| {
        matches!(turn(found.error.kind()), Turn::MaxLength | Turn::MinLength | Turn::Pattern)
    };
    of_text(one) && of_text(other)
}

fn nowhere(text: &str) -> Cause {
    Cause::invalid(NOWHERE, "\"\"", text)
}

fn format(node: &Value) -> &str {
    node.get(FORMAT).and_then(Value::as_str).unwrap_or("")
}

/// The type of a value, and the format that Go's type of it has.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn wrong_type(at: &str, name: &str, value: &Value, node: &Value) -> Cause {
    let types = node.get("type").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let types: Vec<&str> = types.filter(|text| *text != "null").collect();
    let (found, go_format) = type_of(value);
    let by_format =
        !format(node).is_empty() && !matches!(value, Value::String(_) | Value::Array(_) | Value::Null);
    let (expected, found) =
        if by_format { (format(node).into(), go_format) } else { (types.join(","), found) };
    let text = format!("{name} in body must be of type {expected}: \"{found}\"");
    Cause::wrong_type(at, &format!("\"{found}\""), &text)
}

fn out_of_range(name: &str, node: &Value) -> Cause {
    let kind = node.pointer("/type/0").and_then(Value::as_str).unwrap_or("");
    let format = match node.get(RANGE).and_then(Value::as_str) {
        None | Some("") => "(default format)".into(),
        Some(format) => format!("with format {format}"),
    };
    nowhere(&format!("Checked value must be of type {kind} {format} in {name}"))
}

fn not_supported(at: &str, value: &Value, options: &Value) -> Cause {
    let options = options.as_array().into_iter().flatten();
    let text = |option: &Value| option.as_str().map_or_else(|| option.to_string(), Into::into);
    let options: Vec<String> = options.map(text).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Cause::not_supported(at, &value.to_string(), &options)
}

/// A bound as it is printed beside a value: beside an integer it is an integer, too.
fn bound(value: &Value, limit: &Value) -> String {
    let limit = limit.as_f64().unwrap_or(0.0);
    go_float(if value.is_f64() { limit } else { limit.trunc() })
}

/// A number as Go's `%v` prints a float64.
fn go_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, power) = exponent.strip_prefix('-').map_or(('+', exponent), |power| ('-', power));
        return format!("{digits}e{sign}{power:0>2}");
    }
    number.to_string()
}
