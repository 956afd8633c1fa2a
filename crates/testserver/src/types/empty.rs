//! What a field that holds nothing is to Go, and what of that its JSON shows.

use serde_json::{Map, Value};

use crate::kinds::kind::Kind;
use crate::types::table::{Base, Empty, Field, Form, Message, Shape, Types};

type Object = Map<String, Value>;

/// What stands in an object of a built-in kind where `field` was not sent; nothing if that leaves the JSON.
pub(crate) fn absent(kind: &Kind, field: &str) -> Option<Value> {
    Types::get().empty(&Types::of(kind)?.known(field)?.field)
}

/// What an object of a built-in kind has of which nothing was said.
pub(crate) fn nothing(kind: &Kind) -> Object {
    Types::of(kind).map(|message| Types::get().nothing(message)).unwrap_or_default()
}

/// Whether Go would call a value empty. Messages never are.
pub(super) fn is_zero(value: &Value, base: Base) -> bool {
    match base {
        Base::Bool | Base::Int32 | Base::Int64 | Base::Double | Base::String | Base::Bytes => match value {
            Value::Null => true,
            Value::Bool(flag) => !flag,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(_) | Value::Object(_) => false,
        },
        // A time may have become one that is none.
        Base::Time | Base::MicroTime => value.is_null(),
        Base::Quantity | Base::IntOrString | Base::Json | Base::Message(_) => false,
    }
}

impl Types {
    /// What stands in JSON where a field is empty; `None` where nothing does.
    pub(super) fn empty(&self, field: &Field) -> Option<Value> {
        match (field.shape, field.empty) {
            (Shape::Pointer | Shape::List | Shape::Map, Empty::Kept) => Some(Value::Null),
            (Shape::Pointer | Shape::List | Shape::Map | Shape::Inline, _) => None,
            (Shape::Value, Empty::DroppedTime) => None,
            (Shape::Value, Empty::Dropped) if field.base.is_scalar() => None,
            (Shape::Value, Empty::Kept) if field.base == Base::Bytes => Some(Value::Null),
            (Shape::Value, Empty::Dropped | Empty::Kept) => Some(self.zero(field)),
        }
    }

    fn nothing(&self, message: &Message) -> Object {
        let always = message.always().iter();
        always.filter_map(|field| Some((field.name.to_owned(), self.empty(field)?))).collect()
    }

    /// The zero of a field's type, of one value.
    pub(super) fn zero(&self, field: &Field) -> Value {
        match field.base {
            Base::Bool => false.into(),
            Base::Int32 | Base::Int64 | Base::Double | Base::IntOrString => 0.into(),
            Base::String | Base::Bytes => "".into(),
            Base::Quantity => "0".into(),
            Base::Time | Base::MicroTime | Base::Json => Value::Null,
            Base::Message(place) => match self.message(place) {
                Some(message) if message.form == Form::Object => Value::Object(self.nothing(message)),
                Some(message) if message.form == Form::List => Value::Array(Vec::new()),
                _ => Value::Null,
            },
        }
    }
}
