//! Reads enums: `"Variant"`, or `{"Variant": content}`.

use serde::de::{Deserialize, DeserializeSeed, Deserializer as _, EnumAccess, VariantAccess, Visitor};

use super::{deserializer::Deserializer, error::Fault, key::FieldName};

/// Reads a variant that is a string. The next byte is its opening quotation mark.
pub(super) struct StringVariant<'a, 'de>(pub(super) &'a mut Deserializer<'de>);

/// Reads a variant with content, after its opening bracket. Does not consume the closing bracket.
struct ObjectVariant<'a, 'de>(&'a mut Deserializer<'de>);

impl<'de> Deserializer<'de> {
    /// Reads a variant with content. The next byte is its opening bracket.
    pub(super) fn visit_tagged<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        let object = self.nested(b'}')?;
        visitor.visit_enum(ObjectVariant(&mut *object.deserializer))
    }
}

impl<'de> EnumAccess<'de> for StringVariant<'_, 'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let variant = seed.deserialize(&mut *self.0)?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for StringVariant<'_, 'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _seed: T) -> Result<T::Value, Fault> {
        Err(Fault::Shape)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, _visitor: V) -> Result<V::Value, Fault> {
        Err(Fault::Shape)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Fault> {
        Err(Fault::Shape)
    }
}

impl<'de> EnumAccess<'de> for ObjectVariant<'_, 'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        if self.0.value()? != b'"' {
            return Err(Fault::Syntax);
        }
        let variant = seed.deserialize(FieldName(&mut *self.0))?;
        self.0.expect(b':')?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for ObjectVariant<'_, 'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Fault> {
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.0.deserialize_struct("", fields, visitor)
    }
}
