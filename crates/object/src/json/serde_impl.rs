//! Implements serde's `Deserializer`.

use std::{borrow::Cow, iter};

use serde::de::{
    self, Visitor,
    value::{BorrowedStrDeserializer, MapDeserializer},
};

use super::{
    access::{ArrayElements, ObjectFields},
    deserializer::Deserializer,
    error::Fault,
    string::JsonString,
    variant::StringVariant,
};

/// The name of the struct that serde_json uses to read a raw value, and of the only field of this
/// struct.
pub(super) const RAW_VALUE: &str = "$serde_json::private::RawValue";

impl<'de> Deserializer<'de> {
    /// Reads a string. The next byte is its opening quotation mark.
    #[inline]
    pub(super) fn visit_string<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.string()? {
            JsonString::Borrowed(text) => visitor.visit_borrowed_str(text),
            JsonString::Decoded(text) => visitor.visit_str(text),
        }
    }

    /// Reads an array. The next byte is its opening bracket.
    #[inline]
    fn visit_array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        let length = self.counts.enter(self.bytes(), self.at);
        let mut array = self.nested(b']')?;
        visitor.visit_seq(ArrayElements::new(&mut array, length))
    }

    /// Reads an object. The next byte is its opening bracket.
    #[inline]
    fn visit_object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        let mut object = self.nested(b'}')?;
        visitor.visit_map(ObjectFields::new(&mut object))
    }

    pub(super) fn visit_raw<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        let field = (BorrowedStrDeserializer::new(RAW_VALUE), BorrowedStrDeserializer::new(self.raw()?));
        visitor.visit_map(MapDeserializer::new(iter::once(field)))
    }

    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b'-' | b'0'..=b'9' => self.number()?.visit(visitor),
            _ => Err(self.mismatch()),
        }
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
                self.visit_number(visitor)
            }
        )*
    };
}

impl<'de> de::Deserializer<'de> for &mut Deserializer<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b'"' => self.visit_string(visitor),
            b'{' => self.visit_object(visitor),
            b'[' => self.visit_array(visitor),
            b'n' => self.literal("null").and_then(|()| visitor.visit_unit()),
            b't' => self.literal("true").and_then(|()| visitor.visit_bool(true)),
            b'f' => self.literal("false").and_then(|()| visitor.visit_bool(false)),
            b'-' | b'0'..=b'9' => self.number()?.visit(visitor),
            _ => Err(Fault::Syntax),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b't' => self.literal("true").and_then(|()| visitor.visit_bool(true)),
            b'f' => self.literal("false").and_then(|()| visitor.visit_bool(false)),
            _ => Err(self.mismatch()),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f64
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b'-' | b'0'..=b'9' => self.single_precision_number()?.visit(visitor),
            _ => Err(self.mismatch()),
        }
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.value()?;
        visitor.visit_i128(self.wide_integer()?)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b'-' => Err(Fault::Syntax),
            _ => visitor.visit_u128(self.wide_integer()?),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b'"' => self.visit_string(visitor),
            _ => Err(self.mismatch()),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b'"' => match self.byte_string()? {
                Cow::Borrowed(bytes) => visitor.visit_borrowed_bytes(bytes),
                Cow::Owned(bytes) => visitor.visit_bytes(&bytes),
            },
            b'[' => self.visit_array(visitor),
            _ => Err(self.mismatch()),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_bytes(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.token() {
            Some(b'n') => self.literal("null").and_then(|()| visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b'n' => self.literal("null").and_then(|()| visitor.visit_unit()),
            _ => Err(self.mismatch()),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == RAW_VALUE { self.visit_raw(visitor) } else { visitor.visit_newtype_struct(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b'[' => self.visit_array(visitor),
            _ => Err(self.mismatch()),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.value()? {
            b'{' => self.visit_object(visitor),
            _ => Err(self.mismatch()),
        }
    }

    /// Like serde_json, also reads a struct from an array of its fields.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.value()? {
            b'{' => self.visit_object(visitor),
            b'[' => self.visit_array(visitor),
            _ => Err(self.mismatch()),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.value()? {
            b'{' => self.visit_tagged(visitor),
            b'"' => visitor.visit_enum(StringVariant(self)),
            _ => Err(Fault::Syntax),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.skip()?;
        visitor.visit_unit()
    }
}
