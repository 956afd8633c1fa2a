//! A light walk over the bytes of an object: the names of its fields and where their values end.
//!
//! It judges nothing. What it says is right where the bytes are JSON; whether they are is found out by who decodes them.

use std::borrow::Cow;

use super::{
    end::ValueEnd,
    from_slice,
    scan::{special, string_end},
};

/// Something that is left to the deserializer to understand, or to refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsure;

/// The fields of one object.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The comma before the field that is next, where it has been passed.
    comma: Option<usize>,
    expects: Expects,
}

/// What may come next in an object.
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
    /// Where the quote before its name is.
    pub(super) start: usize,
    /// Where its value begins.
    pub(super) value: usize,
    /// The comma before it; the first field has none.
    pub(super) comma: Option<usize>,
}

impl<'a> Fields<'a> {
    /// Those of the object that begins at `at`, or after white space there.
    pub(super) fn of(bytes: &'a [u8], at: usize) -> Result<Self, Unsure> {
        let at = past_space(bytes, at);
        if bytes.get(at) != Some(&b'{') {
            return Err(Unsure);
        }
        Ok(Self { bytes, at: past_space(bytes, at + 1), comma: None, expects: Expects::FieldOrEnd })
    }

    /// The next field, whose value has to be passed before the one after it. `None` at the end, which is passed.
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

    /// Passes a value, which ends at `end`.
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

    /// Whether nothing but white space comes after the object, whose end has been passed.
    pub(super) fn is_all(&self) -> bool {
        past_space(self.bytes, self.at) == self.bytes.len()
    }

    /// Where it is: before a field, or after the object.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The comma that was passed last.
    pub(super) fn comma(&self) -> Option<usize> {
        self.comma
    }
}

/// The name whose opening quote is at `at`, and where it ends.
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

/// The first position from `at` on that is not white space.
#[inline]
pub(super) fn past_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Where the value that begins at `at` ends.
#[inline]
pub(super) fn value_end(bytes: &[u8], at: usize) -> Result<usize, Unsure> {
    match ValueEnd::default().find(bytes.get(at..).ok_or(Unsure)?) {
        Some(length @ 1..) => Ok(at + length),
        _ => Err(Unsure),
    }
}
