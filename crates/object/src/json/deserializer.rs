//! `Deserializer`: the position in the text, and the next token. `serde_impl` implements serde's
//! trait.

use super::{
    count::Counts,
    error::{Fault, JsonError},
    nesting::DEPTH,
};

/// Reads values from a text.
pub(super) struct Deserializer<'de> {
    pub(super) text: &'de str,
    /// The fault at which the text was truncated, if any.
    truncated_by: Option<Fault>,
    /// The offset of the next byte. Never exceeds the length of the text. Always a character
    /// boundary.
    pub(super) at: usize,
    /// The remaining nesting depth.
    pub(super) depth: u8,
    pub(super) counts: Counts,
    /// The last string that contained escapes.
    pub(super) decoded: String,
}

impl<'de> Deserializer<'de> {
    pub(super) fn new(text: &'de str) -> Self {
        Self {
            text,
            truncated_by: None,
            at: 0,
            depth: DEPTH,
            counts: Counts::default(),
            decoded: String::new(),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &'de [u8] {
        self.text.as_bytes()
    }

    #[inline]
    pub(super) fn byte(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    /// Skips whitespace and returns the next byte. Returns `None` at the end of the text.
    #[inline]
    pub(super) fn token(&mut self) -> Option<u8> {
        match self.byte() {
            Some(byte @ b'!'..) => Some(byte),
            _ => self.token_after_space(),
        }
    }

    #[cold]
    fn token_after_space(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    /// Returns the first byte of the next value.
    #[inline]
    pub(super) fn value(&mut self) -> Result<u8, Fault> {
        self.token().ok_or(Fault::Truncated)
    }

    /// Consumes `expected`, after optional whitespace.
    #[inline]
    pub(super) fn expect(&mut self, expected: u8) -> Result<(), Fault> {
        if self.byte() == Some(expected) {
            self.at += 1;
            return Ok(());
        }
        self.expect_after_space(expected)
    }

    #[cold]
    fn expect_after_space(&mut self, expected: u8) -> Result<(), Fault> {
        match self.token() {
            Some(found) if found == expected => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Fault::Syntax),
            None => Err(Fault::Truncated),
        }
    }

    /// Consumes `null`, `true` or `false`.
    #[inline]
    pub(super) fn literal(&mut self, word: &str) -> Result<(), Fault> {
        let rest = self.bytes().get(self.at..).unwrap_or_default();
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        if word.as_bytes().starts_with(rest) { Err(self.truncated()) } else { Err(Fault::Syntax) }
    }

    /// Moves to the end of the text, and returns the fault of a truncated text.
    pub(super) fn truncated(&mut self) -> Fault {
        self.at = self.text.len();
        Fault::Truncated
    }

    /// Truncates the text at this position, because an invalid token follows. All later reads fail.
    pub(super) fn truncate(&mut self, fault: Fault) {
        self.text = self.text.get(..self.at).unwrap_or_default();
        self.truncated_by.get_or_insert(fault);
    }

    /// Checks that only whitespace remains.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        match (self.truncated_by, self.token()) {
            (Some(fault), _) => Err(fault),
            (None, Some(_)) => Err(Fault::Syntax),
            (None, None) => Ok(()),
        }
    }

    /// Adds the position to a fault.
    pub(super) fn error(&self, fault: Fault) -> JsonError {
        let position = self.at;
        match (fault, self.truncated_by) {
            (Fault::Truncated, None | Some(Fault::Truncated)) => JsonError::Truncated { position },
            (Fault::Truncated, Some(_)) | (Fault::Syntax, _) => JsonError::Syntax { position },
            (Fault::Shape, _) => JsonError::Shape { position },
        }
    }

    /// Returns the fault for a value of an unexpected type. If the value is malformed, returns the
    /// syntax error.
    #[cold]
    pub(super) fn mismatch(&mut self) -> Fault {
        let value = match self.token() {
            Some(b'n') => self.literal("null"),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            Some(b'[' | b'{') => Ok(()),
            _ => Err(Fault::Syntax),
        };
        value.err().unwrap_or(Fault::Shape)
    }
}
