//! From a protobuf message to the JSON that a client in Go would have sent instead.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::{Map, Value};

use super::schema::{Field, Many, SCHEMA, Type};
use super::wire::{Malformed, Wire, fields, text};

/// Messages may be nested so deeply. Only the schemas of CRDs contain themselves.
const DEPTH: usize = 100;

/// The message as JSON.
pub(super) fn message(name: &str, bytes: &[u8]) -> Result<Value, Malformed> {
    nested(name, bytes, DEPTH)
}

fn nested(name: &str, bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed::Depth)?;
    let Some(known) = SCHEMA.message(name) else { return special(name, bytes, depth) };
    let mut object = Map::new();
    for field in fields(bytes) {
        let (number, wire) = field?;
        // What a newer client has more than 1.36 is left out, as the real server does.
        let Some(field) = known.get(&number) else { continue };
        add(&mut object, field, wire, depth)?;
    }
    match known.get(&1) {
        Some(only) if only.unwrapped => Ok(object.remove(only.name).unwrap_or(Value::Array(Vec::new()))),
        _ => Ok(Value::Object(object)),
    }
}

fn add(
    object: &mut Map<String, Value>,
    field: &Field,
    wire: Wire<'_>,
    depth: usize,
) -> Result<(), Malformed> {
    match field.many {
        Many::One => {
            let value = single(field.of, wire, depth)?;
            match value {
                Value::Object(inner) if field.inline => object.extend(inner),
                zero if field.omit_zero && is_zero(&zero) => {}
                value => {
                    object.insert(field.name.into(), value);
                }
            }
        }
        Many::List => {
            let value = single(field.of, wire, depth)?;
            let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(value);
            }
        }
        Many::Map => {
            let (key, value) = pair(field.of, wire, depth)?;
            let map = object.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key, value);
            }
        }
    }
    Ok(())
}

/// An entry of a map: a message of a key and a value, either of which may be left out where it is empty.
fn pair(of: Type, wire: Wire<'_>, depth: usize) -> Result<(String, Value), Malformed> {
    let Wire::Bytes(bytes) = wire else { return Err(Malformed::FieldType) };
    let (mut key, mut value) = (String::new(), single(of, Wire::Bytes(&[]), depth));
    for field in fields(bytes) {
        match field? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?.to_owned(),
            (2, wire) => value = single(of, wire, depth),
            _ => {}
        }
    }
    Ok((key, value?))
}

fn single(of: Type, wire: Wire<'_>, depth: usize) -> Result<Value, Malformed> {
    match (of, wire) {
        (Type::Text, Wire::Bytes(bytes)) => Ok(text(bytes)?.into()),
        (Type::Bytes, Wire::Bytes(bytes)) => Ok(STANDARD.encode(bytes).into()),
        (Type::Message(name), Wire::Bytes(bytes)) => nested(name, bytes, depth),
        (Type::Bool, Wire::Varint(value)) => Ok((value != 0).into()),
        // Negative numbers are sent as their two's complement.
        (Type::Int, Wire::Varint(value)) => Ok(value.cast_signed().into()),
        (Type::Double, Wire::Fixed64(bytes)) => Ok(f64::from_le_bytes(bytes).into()),
        _ => Err(Malformed::FieldType),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(true) => false,
    }
}

/// The messages whose JSON is not an object of their fields.
fn special(name: &str, bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    match name {
        "meta/v1.Time" => time(bytes, 0),
        "meta/v1.MicroTime" => time(bytes, 6),
        "api/resource.Quantity" => Ok(bytes_of(bytes, 1)?.map(text).transpose()?.unwrap_or("0").into()),
        "util/intstr.IntOrString" => int_or_string(bytes),
        "meta/v1.FieldsV1" | "pkg/runtime.RawExtension" | "apiextensions/v1.JSON" => {
            let document = bytes_of(bytes, 1)?.filter(|document| !document.is_empty());
            document.map_or(Ok(Value::Null), |json| serde_json::from_slice(json).map_err(|_| Malformed::Json))
        }
        "apiextensions/v1.JSONSchemaPropsOrArray" => schemas(bytes, 1, 2, Type::Message(SCHEMA_PROPS), depth),
        "apiextensions/v1.JSONSchemaPropsOrStringArray" => schemas(bytes, 1, 2, Type::Text, depth),
        "apiextensions/v1.JSONSchemaPropsOrBool" => match bytes_of(bytes, 2)? {
            Some(schema) => nested(SCHEMA_PROPS, schema, depth),
            None => Ok(number_of(bytes, 1)?.is_some_and(|allows| allows != 0).into()),
        },
        _ => Ok(Value::Object(Map::new())),
    }
}

const SCHEMA_PROPS: &str = "apiextensions/v1.JSONSchemaProps";

/// A schema, or a list of something else.
fn schemas(bytes: &[u8], one: u64, many: u64, of: Type, depth: usize) -> Result<Value, Malformed> {
    let mut list = Vec::new();
    for field in fields(bytes) {
        match field? {
            (number, wire) if number == many => list.push(single(of, wire, depth)?),
            _ => {}
        }
    }
    match bytes_of(bytes, one)? {
        Some(schema) if list.is_empty() => nested(SCHEMA_PROPS, schema, depth),
        _ => Ok(Value::Array(list)),
    }
}

/// Seconds and nanoseconds since 1970; nothing at all is no time.
fn time(bytes: &[u8], digits: u8) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let seconds = number_of(bytes, 1)?.unwrap_or_default();
    let nanos = number_of(bytes, 2)?.unwrap_or_default();
    let nanos = i32::try_from(nanos).map_err(|_| Malformed::Time)?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| Malformed::Time)?;
    let printer = DateTimePrinter::new().precision(Some(digits));
    Ok(printer.timestamp_to_string(&time).into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Malformed> {
    const STRING: i64 = 1;
    if number_of(bytes, 1)? == Some(STRING) {
        return Ok(bytes_of(bytes, 3)?.map(text).transpose()?.unwrap_or_default().into());
    }
    Ok(number_of(bytes, 2)?.unwrap_or_default().into())
}

fn bytes_of(bytes: &[u8], wanted: u64) -> Result<Option<&[u8]>, Malformed> {
    let mut found = None;
    for field in fields(bytes) {
        match field? {
            (number, Wire::Bytes(value)) if number == wanted => found = Some(value),
            _ => {}
        }
    }
    Ok(found)
}

fn number_of(bytes: &[u8], wanted: u64) -> Result<Option<i64>, Malformed> {
    let mut found = None;
    for field in fields(bytes) {
        match field? {
            (number, Wire::Varint(value)) if number == wanted => found = Some(value.cast_signed()),
            _ => {}
        }
    }
    Ok(found)
}
