//! The types of values in an applied object according to OpenAPI, which is less precise than the Go types.

use crate::schemas::kinds::kind::Kind;
use crate::schemas::types::table::{Base, Field, Form, Message, Shape, Types};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Typed {
    /// Any value, or a value that another schema describes.
    Open,
    Message(&'static Message),
    /// A list or map as one value.
    Whole(&'static Field),
    /// Any other value.
    One(&'static Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedValue {
    Anything,
    Map,
    List,
    Text,
    Number,
    Bool,
    /// Neither map nor list.
    Scalar,
}

impl Typed {
    pub(crate) fn of(kind: &Kind) -> Self {
        Types::of(kind).map_or(Self::Open, Self::Message)
    }

    /// Returns the type of the field or entry with this name; `None` if it does not exist. Objects also
    /// have `apiVersion` and `kind`.
    pub(crate) fn field(self, name: &str, is_object: bool) -> Option<Self> {
        match self {
            Self::Message(_) if is_object && matches!(name, "apiVersion" | "kind") => Some(Self::Open),
            Self::Message(message) => match message.known(name) {
                Some(known) if matches!(known.shape, Shape::List | Shape::Map) => Some(Self::Whole(known)),
                Some(known) => Some(Self::one(known)),
                None => None,
            },
            Self::Whole(field) if field.shape == Shape::Map => Some(Self::one(field)),
            Self::Open | Self::Whole(_) | Self::One(_) => Some(Self::Open),
        }
    }

    pub(crate) fn item(self) -> Self {
        match self {
            Self::Whole(field) if field.shape == Shape::List => Self::one(field),
            _ => Self::Open,
        }
    }

    fn one(field: &'static Field) -> Self {
        let Base::Message(place) = field.base else { return Self::One(field) };
        let message = Types::get().message(place).filter(|message| message.form == Form::Object);
        message.map_or(Self::Open, Self::Message)
    }

    pub(crate) fn wanted(self) -> ExpectedValue {
        match self {
            Self::Open => ExpectedValue::Anything,
            Self::Message(_) => ExpectedValue::Map,
            Self::Whole(field) if field.shape == Shape::Map => ExpectedValue::Map,
            Self::Whole(_) => ExpectedValue::List,
            Self::One(field) => match field.base {
                Base::Bool => ExpectedValue::Bool,
                Base::Int32 | Base::Int64 | Base::Double => ExpectedValue::Number,
                Base::String | Base::Bytes => ExpectedValue::Text,
                Base::Time | Base::MicroTime | Base::Quantity | Base::IntOrString => ExpectedValue::Scalar,
                Base::Json | Base::Message(_) => ExpectedValue::Anything,
            },
        }
    }
}
