//! Converts a structural schema to a validator of the `jsonschema` crate. The conversion keeps the
//! keywords that kube-apiserver supports, and adds its extensions and formats.

use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

use crate::schemas::crd::schema::formats;
use crate::schemas::crd::schema::node;

/// The keyword for the range of a number format.
pub(crate) const RANGE: &str = "x-range";
/// The keyword for the original format of a text.
pub(crate) const FORMAT: &str = "x-format";

/// The keywords with the same meaning in JSON Schema.
const COMMON_KEYWORDS: [&str; 13] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub validator: Validator,
    /// The JSON Schema of the validator.
    pub translated: Value,
}

/// Compiles a schema. Returns `None` for an invalid schema. CRDs with such schemas are rejected earlier.
pub(crate) fn compile(schema: &Value) -> Option<Compiled> {
    let translated = translate(schema);
    let mut options = jsonschema::options()
        .with_draft(Draft::Draft4)
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex())
        .with_keyword(RANGE, |_, format, _| Ok(Box::new(Range::of(format))));
    for (name, check) in formats::TEXTS {
        options = options.with_format(local(name), check);
    }
    let validator = options.build(&translated).ok()?;
    Some(Compiled { validator, translated })
}

/// Returns the local name of a format, which is not a format of JSON Schema.
fn local(format: &str) -> String {
    format!("kubernetes-{}", format.replace('-', ""))
}

fn translate(schema: &Value) -> Value {
    let mut out = Map::new();
    let types = types(schema);
    if !types.is_empty() {
        let null = node::flag(schema, "nullable").then_some("null");
        out.insert("type".into(), types.iter().copied().chain(null).collect());
    }
    for key in COMMON_KEYWORDS {
        let value = schema.get(key).filter(|value| !value.is_null() && **value != "");
        out.extend(value.map(|value| (key.to_owned(), value.clone())));
    }
    for key in ["required", "enum"] {
        let list = schema.get(key).filter(|value| value.as_array().is_some_and(|list| !list.is_empty()));
        out.extend(list.map(|list| (key.to_owned(), list.clone())));
    }
    translate_format(schema, &types, &mut out);
    translate_children(schema, &mut out);
    out.into()
}

fn types(schema: &Value) -> Vec<&str> {
    if node::flag(schema, "x-kubernetes-int-or-string") {
        return vec!["integer", "string"];
    }
    Some(node::text(schema, "type")).filter(|text| !text.is_empty()).into_iter().collect()
}

fn translate_format(schema: &Value, types: &[&str], out: &mut Map<String, Value>) {
    let format = node::text(schema, "format");
    let ranges: &[&str] = match types {
        ["integer"] => &["int32", "int64"],
        ["number"] => &["float", "double"],
        _ => &[],
    };
    if let ["integer" | "number"] = types {
        let known = ranges.contains(&format);
        if known || types == ["integer"] {
            out.insert(RANGE.into(), if known { format } else { "" }.into());
        }
        out.extend(known.then(|| (FORMAT.to_owned(), json!(format))));
    } else if matches!(types, [] | ["string"]) && formats::is_known(format) {
        out.insert("format".into(), local(format).into());
        out.insert(FORMAT.into(), format.into());
    }
}

fn translate_children(schema: &Value, out: &mut Map<String, Value>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let properties: Map<_, _> = properties.iter().map(|(name, s)| (name.clone(), translate(s))).collect();
        out.insert("properties".into(), properties.into());
    }
    match schema.get("additionalProperties") {
        Some(schema @ Value::Object(_)) => {
            out.insert("additionalProperties".into(), translate(schema));
        }
        Some(Value::Bool(allowed)) => {
            // With `properties`, even if empty, the validator reports the names of forbidden fields.
            out.entry("properties").or_insert_with(|| json!({}));
            out.insert("additionalProperties".into(), (*allowed).into());
        }
        _ => {}
    }
    for key in ["items", "not"] {
        let inner = schema.get(key).filter(|inner| inner.is_object());
        out.extend(inner.map(|inner| (key.to_owned(), translate(inner))));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let list = schema.get(key).and_then(Value::as_array).filter(|list| !list.is_empty());
        out.extend(list.map(|list| (key.to_owned(), list.iter().map(translate).collect())));
    }
}

/// The valid range of a number format. Go's integers have 64 bits.
enum Range {
    Integer,
    Int32,
    Float,
    Any,
}

impl Range {
    fn of(format: &Value) -> Self {
        match format.as_str() {
            Some("int32") => Self::Int32,
            Some("float") => Self::Float,
            Some("double") => Self::Any,
            _ => Self::Integer,
        }
    }

    fn contains(&self, value: &Value) -> bool {
        match self {
            _ if !value.is_number() => true,
            Self::Any => true,
            Self::Integer => value.is_i64(),
            Self::Int32 => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            Self::Float => value.as_f64().is_some_and(|number| number.abs() <= f64::from(f32::MAX)),
        }
    }
}

impl<'i> Keyword<'i> for Range {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.contains(instance) { Ok(()) } else { Err(ValidationError::custom("out of range")) }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.contains(instance)
    }
}
