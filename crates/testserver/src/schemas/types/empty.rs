//! The empty values of fields in Go, and their JSON.

use serde_json::{Map, Value};

use crate::schemas::kinds::kind::Kind;
use crate::schemas::types::table::{Base, Empty, Field, Form, Message, Shape, Types};

type Object = Map<String, Value>;

/// Returns the JSON of an omitted `field` of a built-in kind; `None` if JSON omits the field.
pub(crate) fn absent(kind: &Kind, field: &str) -> Option<Value> {
    Types::get().empty(Types::of(kind)?.known(field)?)
}

/// Returns the JSON of an object of a built-in kind without any values.
pub(crate) fn nothing(kind: &Kind) -> Object {
    Types::of(kind).map(|message| Types::get().nothing(message)).unwrap_or_default()
}

/// Returns whether Go considers the value empty. Messages are never empty.
pub(super) fn is_zero(value: &Value, base: Base) -> bool {
    match base {
        // A time may have become null.
        Base::Time | Base::MicroTime => value.is_null(),
        base => {
            base.is_scalar()
                && (value.is_null() || *value == false || *value == "" || value.as_f64() == Some(0.0))
        }
    }
}

impl Types {
    /// Returns the JSON of an empty field; `None` if it is omitted.
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

    /// Returns the zero value of the field's type, for one value.
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
