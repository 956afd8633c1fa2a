//! Reads the elements of an array and the fields of an object.

use serde::de::{DeserializeSeed, MapAccess, SeqAccess};

use super::{deserializer::Deserializer, error::Fault, key::FieldName, nesting::Nested};

/// Reads the elements of an array after its opening bracket. Does not consume the closing bracket.
pub(super) struct ArrayElements<'a, 'de> {
    deserializer: &'a mut Deserializer<'de>,
    /// The number of remaining elements.
    left: usize,
    is_first: bool,
}

impl<'a, 'de> ArrayElements<'a, 'de> {
    pub(super) fn new(array: &'a mut Nested<'_, 'de>, length: usize) -> Self {
        Self { deserializer: &mut *array.deserializer, left: length, is_first: true }
    }

    #[inline]
    fn has_next(&mut self) -> Result<bool, Fault> {
        match self.deserializer.value()? {
            b']' => return Ok(false),
            _ if self.is_first => self.is_first = false,
            b',' => {
                self.deserializer.at += 1;
                if self.deserializer.value()? == b']' {
                    return Err(Fault::Syntax);
                }
            }
            _ => return Err(Fault::Syntax),
        }
        self.left = self.left.saturating_sub(1);
        Ok(true)
    }
}

impl<'de> SeqAccess<'de> for ArrayElements<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        if self.has_next()? { seed.deserialize(&mut *self.deserializer).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// Reads the fields of an object after its opening bracket. Does not consume the closing bracket.
pub(super) struct ObjectFields<'a, 'de> {
    deserializer: &'a mut Deserializer<'de>,
    is_first: bool,
}

impl<'a, 'de> ObjectFields<'a, 'de> {
    pub(super) fn new(object: &'a mut Nested<'_, 'de>) -> Self {
        Self { deserializer: &mut *object.deserializer, is_first: true }
    }

    #[inline]
    fn has_next(&mut self) -> Result<bool, Fault> {
        let rest = self.deserializer.bytes().get(self.deserializer.at..).unwrap_or_default();
        match rest {
            [b',', b'"', ..] if !self.is_first => self.deserializer.at += 1,
            [b'"', ..] if self.is_first => self.is_first = false,
            _ => return self.has_next_after_space(),
        }
        Ok(true)
    }

    fn has_next_after_space(&mut self) -> Result<bool, Fault> {
        let mut token = self.deserializer.value()?;
        if token == b'}' {
            return Ok(false);
        }
        if self.is_first {
            self.is_first = false;
        } else if token == b',' {
            self.deserializer.at += 1;
            token = self.deserializer.value()?;
        } else {
            return Err(Fault::Syntax);
        }
        if token == b'"' { Ok(true) } else { Err(Fault::Syntax) }
    }
}

impl<'de> MapAccess<'de> for ObjectFields<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        if self.has_next()? {
            seed.deserialize(FieldName(&mut *self.deserializer)).map(Some)
        } else {
            Ok(None)
        }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        self.deserializer.expect(b':')?;
        seed.deserialize(&mut *self.deserializer)
    }
}
