//! Reads the names of fields, and map keys of other types. All keys of a JSON object are strings.

use serde::{de::Visitor, forward_to_deserialize_any};

use super::{deserializer::Deserializer, error::Fault, serde_impl::RAW_VALUE};

/// Reads a field name. The next byte is its opening quotation mark.
pub(super) struct FieldName<'a, 'de>(pub(super) &'a mut Deserializer<'de>);

impl FieldName<'_, '_> {
    /// Consumes the quotation mark before a number.
    fn open_number(&mut self) -> Result<(), Fault> {
        self.0.at += 1;
        match self.0.byte() {
            Some(b'-' | b'0'..=b'9') => Ok(()),
            _ => Err(Fault::Syntax),
        }
    }

    /// Consumes the quotation mark after a number.
    fn close_number(&mut self) -> Result<(), Fault> {
        match self.0.byte() {
            Some(b'"') => {
                self.0.at += 1;
                Ok(())
            }
            _ => Err(Fault::Syntax),
        }
    }
}

macro_rules! numbers {
    ($($method:ident)*) => {
        $(
            fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
                self.open_number()?;
                let value = self.0.$method(visitor)?;
                self.close_number()?;
                Ok(value)
            }
        )*
    };
}

impl<'de> serde::Deserializer<'de> for FieldName<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.0.visit_string(visitor)
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.0.at += 1;
        match self.0.byte() {
            Some(b't') => self.0.literal("true\"").and_then(|()| visitor.visit_bool(true)),
            Some(b'f') => self.0.literal("false\"").and_then(|()| visitor.visit_bool(false)),
            Some(_) => Err(Fault::Shape),
            None => Err(Fault::Truncated),
        }
    }

    /// A name is never null.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == RAW_VALUE { self.0.visit_raw(visitor) } else { visitor.visit_newtype_struct(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.0.deserialize_bytes(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.0.deserialize_bytes(visitor)
    }

    forward_to_deserialize_any! {
        char str string unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
