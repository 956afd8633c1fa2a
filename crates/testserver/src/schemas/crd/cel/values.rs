//! Converts JSON to the values of rules. The schema decides the types.

use std::sync::Arc;

use base64::Engine as _;
use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map};
use serde_json::Value as Json;

use crate::schemas::crd::cel::names::escape;
use crate::schemas::crd::cel::operations::call;
use crate::schemas::crd::schema::node::{self, Additional, flag, text};

/// Converts a value. The fields of objects have escaped names. The keys of maps do not.
pub(super) fn convert(json: &Json, schema: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64().filter(|_| text(schema, "type") != "number") {
            Some(number) => Value::Int(number),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(string) => convert_text(string, schema),
        Json::Array(list) => {
            let items = node::items(schema).unwrap_or(&Json::Null);
            Value::List(Arc::new(list.iter().map(|item| convert(item, items)).collect()))
        }
        Json::Object(object) => {
            let values = match node::additional(schema) {
                Additional::Schema(values) => Some(values),
                Additional::Unknown | Additional::Unspecified => None,
            };
            let entries = object.iter().filter_map(|(name, value)| {
                // A null counts as an absent field, but a map may contain it.
                if value.is_null() && values.is_none() {
                    return None;
                }
                let field = node::property(schema, name).or(values).unwrap_or(&Json::Null);
                let key = if values.is_some() { name.clone() } else { escape(name)? };
                Some((Key::from(key), convert(value, field)))
            });
            Value::Map(Map { map: Arc::new(entries.collect()) })
        }
    }
}

/// Converts a value without a schema. The names of fields are not escaped.
pub(super) fn untyped(json: &Json) -> Value {
    match json {
        Json::Array(list) => Value::List(Arc::new(list.iter().map(untyped).collect())),
        Json::Object(object) => {
            let entries = object.iter().map(|(name, value)| (Key::from(name.clone()), untyped(value)));
            Value::Map(Map { map: Arc::new(entries.collect()) })
        }
        simple => convert(simple, &Json::Null),
    }
}

fn convert_text(string: &str, schema: &Json) -> Value {
    let plain = || Value::String(Arc::new(string.to_owned()));
    let parsed = |function: &str, text: String| {
        call(function, None, vec![Value::String(Arc::new(text))]).unwrap_or_else(|_| plain())
    };
    if flag(schema, "x-kubernetes-int-or-string") || text(schema, "type") != "string" {
        return plain();
    }
    match text(schema, "format") {
        "date-time" => parsed("timestamp", string.to_uppercase()),
        "date" => parsed("timestamp", format!("{string}T00:00:00Z")),
        "duration" => parsed("duration", string.into()),
        "byte" => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(string);
            bytes.map_or_else(|_| plain(), |bytes| Value::Bytes(Arc::new(bytes)))
        }
        _ => plain(),
    }
}
