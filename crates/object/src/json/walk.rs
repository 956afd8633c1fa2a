//! Finds the names of an object's fields, and the positions of their values, without decoding.
//!
//! The results are correct for valid JSON. Only the decoder validates the bytes.

use std::borrow::Cow;

use super::{
    end::ValueEnd,
    from_slice,
    scan::{special, string_end},
};

/// Reports JSON that this module cannot read. Only the deserializer can read or reject it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnusualJson;

/// Iterates over the fields of one object.
#[derive(Debug)]
pub(super) struct FieldScanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The position of the last consumed comma.
    comma: Option<usize>,
    expected: Expected,
}

/// The tokens that may follow in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    FieldOrEnd,
    /// The last token was a comma.
    Field,
    End,
}

pub(super) struct ScannedField<'a> {
    /// The name. Escapes are decoded.
    pub(super) name: Cow<'a, [u8]>,
    /// The position of the opening quotation mark of the name.
    pub(super) start: usize,
    /// The position of the value.
    pub(super) value: usize,
    /// The position of the comma before the field. `None` for the first field.
    pub(super) comma: Option<usize>,
}

impl<'a> FieldScanner<'a> {
    /// Starts the iteration. The object starts at `at`, after optional whitespace.
    pub(super) fn of(bytes: &'a [u8], at: usize) -> Result<Self, UnusualJson> {
        let at = past_space(bytes, at);
        if bytes.get(at) != Some(&b'{') {
            return Err(UnusualJson);
        }
        Ok(Self { bytes, at: past_space(bytes, at + 1), comma: None, expected: Expected::FieldOrEnd })
    }

    /// Returns the next field. The caller must call [`FieldScanner::skip_value`] before the next call.
    /// Consumes the closing bracket and returns `None` after the last field.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<ScannedField<'a>>, UnusualJson> {
        match (self.bytes.get(self.at), self.expected) {
            (Some(b'"'), Expected::FieldOrEnd | Expected::Field) => {}
            (Some(b'}'), Expected::FieldOrEnd | Expected::End) => {
                self.at += 1;
                return Ok(None);
            }
            _ => return Err(UnusualJson),
        }
        let (start, comma) = (self.at, self.comma);
        let (name, end) = name(self.bytes, start)?;
        let colon = past_space(self.bytes, end);
        if self.bytes.get(colon) != Some(&b':') {
            return Err(UnusualJson);
        }
        Ok(Some(ScannedField { name, start, value: past_space(self.bytes, colon + 1), comma }))
    }

    /// Continues after a value. `end` is the position after the value.
    #[inline]
    pub(super) fn skip_value(&mut self, end: usize) {
        self.at = past_space(self.bytes, end);
        self.expected = Expected::End;
        if self.bytes.get(self.at) == Some(&b',') {
            self.comma = Some(self.at);
            self.at = past_space(self.bytes, self.at + 1);
            self.expected = Expected::Field;
        }
    }

    /// Returns whether only whitespace follows the object. The last field must have been read.
    pub(super) fn is_at_end(&self) -> bool {
        past_space(self.bytes, self.at) == self.bytes.len()
    }

    /// Returns the current position. It is either before a field, or after the object.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the position of the last consumed comma.
    pub(super) fn comma(&self) -> Option<usize> {
        self.comma
    }
}

/// Returns the name at `at`, and the position after the name. The byte at `at` is a quotation mark.
#[inline]
fn name(bytes: &[u8], at: usize) -> Result<(Cow<'_, [u8]>, usize), UnusualJson> {
    let end = special(bytes, at + 1);
    match bytes.get(end) {
        Some(b'"') => Ok((Cow::Borrowed(&bytes[at + 1..end]), end + 1)),
        _ => name_with_escapes(bytes, at),
    }
}

#[cold]
fn name_with_escapes(bytes: &[u8], at: usize) -> Result<(Cow<'_, [u8]>, usize), UnusualJson> {
    let end = string_end(bytes, at + 1).ok_or(UnusualJson)?;
    let name: String = from_slice(&bytes[at..end]).map_err(|_| UnusualJson)?;
    Ok((Cow::Owned(name.into_bytes()), end))
}

/// Returns the first position from `at` that is not whitespace.
#[inline]
pub(super) fn past_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Returns the position after the value that starts at `at`.
#[inline]
pub(super) fn value_end(bytes: &[u8], at: usize) -> Result<usize, UnusualJson> {
    match ValueEnd::default().find(bytes.get(at..).ok_or(UnusualJson)?) {
        Some(length @ 1..) => Ok(at + length),
        _ => Err(UnusualJson),
    }
}
