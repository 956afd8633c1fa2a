//! What may stand at a place of an applied object, as far as OpenAPI says it: less than the types of Go do.

use crate::kinds::kind::Kind;
use crate::types::table::{Base, Field, Form, Message, Shape, Types};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Typed {
    /// It may be anything, or something else says what it may be.
    Open,
    Message(&'static Message),
    /// All of a list or a map.
    Whole(&'static Field),
    /// Anything else.
    One(&'static Field),
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
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
    /// The objects of a built-in kind.
    pub(crate) fn of(kind: &Kind) -> Self {
        Types::of(kind).map_or(Self::Open, Self::Message)
    }

    /// The field or the entry of this name; `None` where there is none. Objects have a type and a version beside.
    pub(crate) fn field(self, name: &str, is_object: bool) -> Option<Self> {
        match self {
            Self::Message(_) if is_object && matches!(name, "apiVersion" | "kind") => Some(Self::Open),
            Self::Message(message) => match message.known(name) {
                Some(known) if matches!(known.field.shape, Shape::List | Shape::Map) => {
                    Some(Self::Whole(&known.field))
                }
                Some(known) => Some(Self::one(&known.field)),
                None => None,
            },
            Self::Whole(field) if field.shape == Shape::Map => Some(Self::one(field)),
            Self::Open | Self::Whole(_) | Self::One(_) => Some(Self::Open),
        }
    }

    /// The items of a list.
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

    pub(crate) fn wanted(self) -> Wanted {
        match self {
            Self::Open => Wanted::Anything,
            Self::Message(_) => Wanted::Map,
            Self::Whole(field) if field.shape == Shape::Map => Wanted::Map,
            Self::Whole(_) => Wanted::List,
            Self::One(field) => match field.base {
                Base::Bool => Wanted::Bool,
                Base::Int32 | Base::Int64 | Base::Double => Wanted::Number,
                Base::String | Base::Bytes => Wanted::Text,
                Base::Time | Base::MicroTime | Base::Quantity | Base::IntOrString => Wanted::Scalar,
                Base::Json | Base::Message(_) => Wanted::Anything,
            },
        }
    }
}
