//! Decodes an object from a client as a built-in kind. The real server decodes it into a Go type and
//! encodes that again: unknown fields are dropped, empty values are dropped or normalized, and values of
//! wrong types are rejected.

use std::fmt;

use serde_json::{Map, Number, Value};

use crate::schemas::kinds::times;
use crate::schemas::types::empty::is_zero;
use crate::schemas::types::table::{Base, Empty, Field, Form, Message, Shape, Types};
use crate::schemas::types::{bytes, quantity};

type Object = Map<String, Value>;

/// An empty list in this metadata field resets all field managers. The code that handles the reset removes
/// the list.
const OWNERS: &str = "managedFields";

/// Decodes an object of a built-in kind in place. Removes the fields that its type does not define and
/// returns their paths.
///
/// # Errors
/// Returns the first value of a wrong type; the object is then partly decoded.
pub(crate) fn read(api_version: &str, kind: &str, object: &mut Object) -> Result<Vec<String>, String> {
    let types = Types::get();
    let place = types.kind(api_version, kind);
    let Some(message) = place.and_then(|place| types.message(place)) else { return Ok(Vec::new()) };
    let mut reader = Reader::default();
    reader.fields(object, message, Path::Root)?;
    Ok(reader.unknown)
}

pub(super) struct Reader {
    types: &'static Types,
    /// The paths of unknown fields. The decoder also removes these fields, except if the caller keeps
    /// unknown fields.
    pub unknown: Vec<String>,
    keeps_unknown: bool,
}

impl Default for Reader {
    fn default() -> Self {
        Self { types: Types::get(), unknown: Vec::new(), keeps_unknown: false }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    /// The metadata of an object, when decoded on its own.
    Metadata,
    /// A field, or an entry of a map.
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// Returns whether a field of this name determines the type of this message. A kind can also be a part of
    /// another object, such as a claim template.
    fn is_type(&self, message: &Message, name: &str) -> bool {
        (matches!(self, Self::Root) || message.facts.kind) && matches!(name, "apiVersion" | "kind")
    }

    fn is_owners(&self) -> bool {
        matches!(self, Self::Field(Self::Field(Self::Root, _), OWNERS))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Metadata => f.write_str("metadata"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
        }
    }
}

pub(super) fn mismatch(value: &Value, wanted: &str, path: Path<'_>) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {found} into {path} of type {wanted}")
}

fn type_of(field: &Field) -> &'static str {
    match field.base {
        Base::Bool => "bool",
        Base::Int32 => "int32",
        Base::Int64 => "int64",
        Base::Double => "float64",
        Base::Bytes => "base64",
        Base::IntOrString => "int32 or string",
        Base::String | Base::Time | Base::MicroTime | Base::Quantity => "string",
        Base::Json | Base::Message(_) => "object",
    }
}

impl Reader {
    /// Creates a decoder that keeps unknown fields and does not report them.
    pub(super) fn keeping_unknown() -> Self {
        Self { keeps_unknown: true, ..Self::default() }
    }

    /// Decodes the fields of a message, including those of embedded messages.
    pub(super) fn fields(
        &mut self,
        object: &mut Object,
        message: &'static Message,
        path: Path<'_>,
    ) -> Result<(), String> {
        let (mut removed, mut always) = (Vec::new(), 0);
        for (name, value) in object.iter_mut() {
            if let Some(known) = message.known(name) {
                always += usize::from(known.is_always_there());
                if !self.field(value, known, Path::Field(&path, known.name))? {
                    removed.push(name.clone());
                }
            } else if !self.keeps_unknown && !path.is_type(message, name) {
                self.unknown.push(Path::Field(&path, name).to_string());
                removed.push(name.clone());
            }
        }
        for name in removed {
            object.remove(&name);
        }
        // Usually all fields are present.
        let missing = if always < message.always().len() { message.always() } else { &[] };
        for field in missing {
            if !object.contains_key(field.name) {
                object.insert(field.name.into(), self.types.empty(field).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Decodes the value of a field. Returns whether it remains in the JSON.
    pub(super) fn field(&mut self, value: &mut Value, field: &Field, path: Path<'_>) -> Result<bool, String> {
        let is_empty = match (field.shape, &mut *value) {
            (_, Value::Null) => true,
            (Shape::List, Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(item, field, Path::Item(&path, index))?;
                }
                items.is_empty() && !path.is_owners()
            }
            (Shape::Map, Value::Object(entries)) => {
                for (name, entry) in entries.iter_mut() {
                    self.value(entry, field, Path::Field(&path, name))?;
                }
                entries.is_empty()
            }
            (Shape::List, value) => return Err(mismatch(value, "array", path)),
            (Shape::Map, value) => return Err(mismatch(value, "object", path)),
            (Shape::Pointer, value) => {
                self.value(value, field, path)?;
                false
            }
            (Shape::Value | Shape::Inline, value) => {
                self.value(value, field, path)?;
                field.empty != Empty::Kept && is_zero(value, field.base)
            }
        };
        if !is_empty {
            return Ok(true);
        }
        let empty = self.types.empty(field);
        let stays = empty.is_some();
        *value = empty.unwrap_or_default();
        Ok(stays)
    }

    /// Decodes one value; null becomes the zero value of its type.
    fn value(&mut self, value: &mut Value, field: &Field, path: Path<'_>) -> Result<(), String> {
        if value.is_null() {
            *value = self.types.zero(field);
            return Ok(());
        }
        let wrong = |value: &Value| Err(mismatch(value, type_of(field), path));
        match (field.base, &*value) {
            (Base::Bool, Value::Bool(_)) | (Base::String, Value::String(_)) | (Base::Json, _) => {}
            (Base::Int32 | Base::IntOrString, Value::Number(number)) => {
                if number.as_i64().and_then(|number| i32::try_from(number).ok()).is_none() {
                    return wrong(value);
                }
            }
            (Base::Int64, Value::Number(number)) => {
                if number.as_i64().is_none() {
                    return wrong(value);
                }
            }
            (Base::Double, Value::Number(number)) => {
                if let Some(whole) = double(number) {
                    *value = whole;
                }
            }
            (Base::Bytes, Value::String(text)) => {
                if let Some(text) = bytes::canonical(text)
                    .map_err(|index| format!("illegal base64 data at input byte {index}"))?
                {
                    *value = text.into();
                }
            }
            (Base::Time, Value::String(text)) => *value = stored(times::time(text))?,
            (Base::MicroTime, Value::String(text)) => *value = stored(times::micro_time(text))?,
            (Base::Quantity, _) => {
                if let Some(text) = read_quantity(value)? {
                    *value = text.into();
                }
            }
            (Base::IntOrString, Value::String(_)) => {}
            (Base::Message(place), _) => {
                if let Some(message) = self.types.message(place) {
                    return self.message(value, field, message, path);
                }
            }
            _ => return wrong(value),
        }
        Ok(())
    }

    fn message(
        &mut self,
        value: &mut Value,
        field: &Field,
        message: &'static Message,
        path: Path<'_>,
    ) -> Result<(), String> {
        let inner = match (message.form, &mut *value) {
            (Form::Object, Value::Object(object)) => return self.fields(object, message, path),
            (Form::List | Form::Choice, Value::Array(_)) => Shape::List,
            (Form::Choice, Value::Object(_)) => Shape::Pointer,
            (Form::Choice, _) => Shape::Value,
            (Form::Object | Form::List, _) => {
                return Err(mismatch(value, type_of(field), path));
            }
        };
        let Some(inner) = message.fields.iter().find(|field| field.shape == inner) else {
            return Err(mismatch(value, type_of(field), path));
        };
        match value {
            // The list stays even if it is empty, and a flag stays even if it is not set.
            Value::Array(items) => items
                .iter_mut()
                .enumerate()
                .try_for_each(|(index, item)| self.value(item, inner, Path::Item(&path, index))),
            value => self.value(value, inner, path),
        }
    }
}

/// Returns the number as Go formats it, if that differs: integers have no fraction.
fn double(number: &Number) -> Option<Value> {
    let float = number.as_f64().filter(|_| number.as_i64().is_none())?;
    // The comparison keeps the number in range.
    if float.fract() == 0.0 && float.abs() < 2f64.powi(63) {
        return Some((float as i64).into());
    }
    Number::from_f64(float).map(Value::Number)
}

/// Returns a time in its stored form. The first second of the year 1 is the zero time in Go.
fn stored(read: Result<String, String>) -> Result<Value, String> {
    let time = read?;
    let is_none = matches!(time.as_str(), "0001-01-01T00:00:00Z" | "0001-01-01T00:00:00.000000Z");
    Ok(if is_none { Value::Null } else { time.into() })
}

/// Returns the stored form of a quantity, if it differs from the text that was sent.
fn read_quantity(value: &Value) -> Result<Option<String>, String> {
    let sent = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    let stored = quantity::canonical(&sent).map_err(|detail| detail.to_string())?;
    let stored = stored.unwrap_or(sent);
    Ok(Some(stored).filter(|stored| value.as_str() != Some(stored)))
}

#[cfg(test)]
mod tests;
