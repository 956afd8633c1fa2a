//! The error messages of kube-apiserver for the errors of a validator.

use std::collections::BTreeMap;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

use crate::schemas::crd::schema::compile::{FORMAT, RANGE};
use crate::schemas::crd::schema::location::{CheckOrder, ErrorLocation, Order, Step, name};
use crate::schemas::crd::schema::validate::location;
use crate::status::Cause;

/// The field of an error that applies to the entire object.
pub(crate) const NO_FIELD: &str = "<nil>";

/// Converts errors to the messages and the order of kube-apiserver. Omits tolerated errors.
pub(crate) fn causes(
    errors: &[ValidationError<'_>],
    translated: &Value,
    field: &str,
    tolerated: &dyn Fn(&[Step]) -> bool,
) -> Vec<Cause> {
    let builder = CauseBuilder { translated, field, tolerated };
    builder.build(errors)
}

/// Builds the causes of one validation.
struct CauseBuilder<'a> {
    translated: &'a Value,
    /// The field of the validated value. Empty for the object.
    field: &'a str,
    tolerated: &'a dyn Fn(&[Step]) -> bool,
}

/// An error with its location.
struct LocatedError<'a> {
    error: &'a ValidationError<'a>,
    location: ErrorLocation<'a>,
    order: Order,
}

impl CauseBuilder<'_> {
    fn build(&self, errors: &[ValidationError<'_>]) -> Vec<Cause> {
        let mut found: Vec<LocatedError<'_>> = errors.iter().map(|error| self.find(error)).collect();
        found.retain(|found| !(self.tolerated)(&found.location.steps) && !is_skipped(found.error));
        found.sort_by(|one, other| one.order.cmp(&other.order));
        found.dedup_by(|later, first| {
            later.location.order == first.location.order && both_of_text(later, first)
        });
        let mut causes: Vec<(Order, Vec<Cause>)> =
            found.iter().map(|found| (found.order.clone(), self.causes_of(found))).collect();
        causes.extend(self.junctions(&found));
        causes.sort_by(|one, other| one.0.cmp(&other.0));
        causes.into_iter().flat_map(|(_, causes)| causes).collect()
    }

    fn find<'a>(&'a self, error: &'a ValidationError<'a>) -> LocatedError<'a> {
        let location = location(error, self.translated);
        let order = location.order_of(check_order(error.kind()));
        LocatedError { error, location, order }
    }

    /// Returns the cause of each `allOf` with a failed part.
    fn junctions(&self, found: &[LocatedError<'_>]) -> Vec<(Order, Vec<Cause>)> {
        let mut failed: BTreeMap<Order, (String, usize, Vec<usize>)> = BTreeMap::new();
        for junction in found.iter().flat_map(|found| &found.location.junctions) {
            let entry = failed.entry(junction.order.clone());
            let (_, _, parts) = entry.or_insert((name(&junction.steps), junction.parts, Vec::new()));
            if !parts.contains(&junction.part) {
                parts.push(junction.part);
            }
        }
        let cause = |(mut order, (name, parts, failed)): (Order, (String, usize, Vec<usize>))| {
            let none = if failed.len() == parts { ". None validated" } else { "" };
            order.push((CheckOrder::AllOf, "~".into()));
            (order, vec![without_field(&format!("\"{name}\" must validate all the schemas (allOf){none}"))])
        };
        failed.into_iter().map(cause).collect()
    }

    /// Returns the field of a cause.
    fn at(&self, name: &str) -> String {
        match (self.field, name) {
            ("", "") => NO_FIELD.into(),
            (field, "") => field.into(),
            ("", name) => name.into(),
            (field, name) => format!("{field}.{name}"),
        }
    }

    fn causes_of(&self, found: &LocatedError<'_>) -> Vec<Cause> {
        let value = found.error.instance().as_ref();
        let name = name(&found.location.steps);
        let at = self.at(&name);
        let size =
            value.as_array().map(Vec::len).or(value.as_object().map(serde_json::Map::len)).unwrap_or(0);
        let invalid =
            |text: &str| vec![Cause::invalid(&at, &value.to_string(), &format!("{name} in body {text}"))];
        let few =
            |text: &str| vec![Cause::invalid(&at, &size.to_string(), &format!("{name} in body {text}"))];
        match found.error.kind() {
            Kind::Type { .. } => vec![wrong_type(&at, &name, value, found.location.node)],
            Kind::Format { .. } => {
                let format = format(found.location.node);
                let text = format!("{name} in body must be of type {format}: {value}");
                vec![Cause::wrong_type(&at, &value.to_string(), &text)]
            }
            Kind::Custom { .. } => vec![out_of_range(&name, found.location.node)],
            Kind::Required { property } => {
                let missing = property.as_str().unwrap_or("");
                let name = if name.is_empty() { missing.into() } else { format!("{name}.{missing}") };
                vec![Cause::required(&self.at(&name), "")]
            }
            Kind::Enum { options } => vec![not_supported(&at, value, options)],
            Kind::MaxLength { limit } => vec![Cause::too_long(&at, *limit)],
            Kind::MinLength { limit } => invalid(&format!("should be at least {limit} chars long")),
            Kind::Pattern { .. } => {
                let pattern = found.location.node.get("pattern").and_then(Value::as_str).unwrap_or("");
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
                let cause = |key: &String| {
                    let text = format!("{name}.{key} in body is a forbidden property");
                    Cause::invalid(&at, &format!("{key:?}"), &text)
                };
                unexpected.iter().map(cause).collect()
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
                vec![without_field(&text)]
            }
            Kind::Not { .. } => {
                vec![without_field(&format!("\"{name}\" must not validate the schema (not)"))]
            }
            _ => invalid("is invalid"),
        }
    }

    /// Returns the cause for alternatives, and the causes of the first alternative with the fewest
    /// errors.
    fn with_best(&self, text: &str, context: &[Vec<ValidationError<'static>>]) -> Vec<Cause> {
        let best = context.iter().min_by_key(|errors| errors.len());
        let best = best.map(|errors| self.build(errors)).unwrap_or_default();
        std::iter::once(without_field(text)).chain(best).collect()
    }
}

fn check_order(kind: &Kind) -> CheckOrder {
    match kind {
        Kind::AnyOf { .. } => CheckOrder::AnyOf,
        Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => CheckOrder::OneOf,
        Kind::Not { .. } => CheckOrder::Not,
        Kind::MaxLength { .. } => CheckOrder::MaxLength,
        Kind::MinLength { .. } => CheckOrder::MinLength,
        Kind::Pattern { .. } => CheckOrder::Pattern,
        Kind::Format { .. } => CheckOrder::Format,
        Kind::Custom { .. } => CheckOrder::Range,
        Kind::MultipleOf { .. } => CheckOrder::MultipleOf,
        Kind::Minimum { .. } | Kind::ExclusiveMinimum { .. } => CheckOrder::Minimum,
        Kind::Maximum { .. } | Kind::ExclusiveMaximum { .. } => CheckOrder::Maximum,
        Kind::MinItems { .. } => CheckOrder::MinItems,
        Kind::MaxItems { .. } => CheckOrder::MaxItems,
        Kind::UniqueItems => CheckOrder::UniqueItems,
        Kind::Enum { .. } => CheckOrder::Enum,
        Kind::MinProperties { .. } => CheckOrder::MinProperties,
        Kind::MaxProperties { .. } => CheckOrder::MaxProperties,
        Kind::AdditionalProperties { .. } => CheckOrder::Forbidden,
        Kind::Required { .. } => CheckOrder::Required,
        _ => CheckOrder::Type,
    }
}

/// For a null, only the type and the enum are checked.
fn is_skipped(error: &ValidationError<'_>) -> bool {
    error.instance().is_null() && !matches!(check_order(error.kind()), CheckOrder::Type | CheckOrder::Enum)
}

/// Returns whether both errors are about length or pattern. Only the first of these errors is reported.
fn both_of_text(one: &LocatedError<'_>, other: &LocatedError<'_>) -> bool {
    let of_text = |found: &LocatedError<'_>| {
        matches!(
            check_order(found.error.kind()),
            CheckOrder::MaxLength | CheckOrder::MinLength | CheckOrder::Pattern
        )
    };
    of_text(one) && of_text(other)
}

fn without_field(text: &str) -> Cause {
    Cause::invalid(NO_FIELD, "\"\"", text)
}

fn format(node: &Value) -> &str {
    node.get(FORMAT).and_then(Value::as_str).unwrap_or("")
}

/// Returns the type of a value, and the format of its Go type.
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
    without_field(&format!("Checked value must be of type {kind} {format} in {name}"))
}

fn not_supported(at: &str, value: &Value, options: &Value) -> Cause {
    let options = options.as_array().into_iter().flatten();
    let text = |option: &Value| option.as_str().map_or_else(|| option.to_string(), Into::into);
    let options: Vec<String> = options.map(text).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Cause::not_supported(at, &value.to_string(), &options)
}

/// Formats the limit for a value. For an integer value, the limit is printed as an integer.
fn bound(value: &Value, limit: &Value) -> String {
    let limit = limit.as_f64().unwrap_or(0.0);
    go_float(if value.is_f64() { limit } else { limit.trunc() })
}

/// Formats a number like Go's `%v` for a float64.
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
