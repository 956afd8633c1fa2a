//! Scans the bytes of an object for the names of its fields and the ends of their values.
//!
//! It does not validate. The results are correct for valid JSON. The decoder validates the bytes.

use std::borrow::Cow;

use super::{
    end::ValueEnd,
    from_slice,
    scan::{special, string_end},
};

/// A notation that only the deserializer can read or reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsure;

/// Iterates over the fields of one object.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The comma before the next field, if it was passed.
    comma: Option<usize>,
    expects: Expects,
}

/// The tokens that may follow in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    FieldOrEnd,
    /// A comma was passed.
    Field,
    End,
}

pub(super) struct Field<'a> {
    /// Without escapes.
    pub(super) name: Cow<'a, [u8]>,
    /// The position of the opening quote of the name.
    pub(super) start: usize,
    /// The start of the value.
    pub(super) value: usize,
    /// The comma before the field; the first field has none.
    pub(super) comma: Option<usize>,
}

impl<'a> Fields<'a> {
    /// Starts at the object at `at`, after optional whitespace.
    pub(super) fn of(bytes: &'a [u8], at: usize) -> Result<Self, Unsure> {
        let at = past_space(bytes, at);
        if bytes.get(at) != Some(&b'{') {
            return Err(Unsure);
        }
        Ok(Self { bytes, at: past_space(bytes, at + 1), comma: None, expects: Expects::FieldOrEnd })
    }

    /// Returns the next field. Its value must be passed before the next call. Returns `None` at the
    /// end, which is passed.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Field<'a>>, Unsure> {
        match (self.bytes.get(self.at), self.expects) {
            (Some(b'"'), Expects::FieldOrEnd | Expects::Field) => {}
            (Some(b'}'), Expects::FieldOrEnd | Expects::End) => {
                self.at += 1;
                return Ok(None);
            }
            _ => return Err(Unsure),
        }
        let (start, comma) = (self.at, self.comma);
        let (name, end) = name(self.bytes, start)?;
        let colon = past_space(self.bytes, end);
        if self.bytes.get(colon) != Some(&b':') {
            return Err(Unsure);
        }
        Ok(Some(Field { name, start, value: past_space(self.bytes, colon + 1), comma }))
    }

    /// Passes a value that ends at `end`.
    #[inline]
    pub(super) fn pass(&mut self, end: usize) {
        self.at = past_space(self.bytes, end);
        self.expects = Expects::End;
        if self.bytes.get(self.at) == Some(&b',') {
            self.comma = Some(self.at);
            self.at = past_space(self.bytes, self.at + 1);
            self.expects = Expects::Field;
        }
    }

    /// Returns whether only whitespace follows the object, whose end was passed.
    pub(super) fn is_all(&self) -> bool {
        past_space(self.bytes, self.at) == self.bytes.len()
    }

    /// Returns the position: before a field, or after the object.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the last passed comma.
    pub(super) fn comma(&self) -> Option<usize> {
        self.comma
    }
}

/// Returns the name whose opening quote is at `at`, and its end.
#[inline]
fn name(bytes: &[u8], at: usize) -> Result<(Cow<'_, [u8]>, usize), Unsure> {
    let end = special(bytes, at + 1);
    match bytes.get(end) {
        Some(b'"') => Ok((Cow::Borrowed(&bytes[at + 1..end]), end + 1)),
        _ => name_with_escapes(bytes, at),
    }
}

#[cold]
fn name_with_escapes(bytes: &[u8], at: usize) -> Result<(Cow<'_, [u8]>, usize), Unsure> {
    let end = string_end(bytes, at + 1).ok_or(Unsure)?;
    let name: String = from_slice(&bytes[at..end]).map_err(|_| Unsure)?;
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

/// Returns the end of the value that starts at `at`.
#[inline]
pub(super) fn value_end(bytes: &[u8], at: usize) -> Result<usize, Unsure> {
    match ValueEnd::default().find(bytes.get(at..).ok_or(Unsure)?) {
        Some(length @ 1..) => Ok(at + length),
        _ => Err(Unsure),
    }
}
