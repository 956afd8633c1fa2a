//! `Deserializer`: where in the text it is, and which token comes next. `serde_impl` is what serde sees of it.

use super::{
    count::Counts,
    error::{Fault, JsonError},
    nesting::DEPTH,
};

/// Reads values from a text, once, from its beginning to its end.
pub(super) struct Deserializer<'de> {
    pub(super) text: &'de str,
    /// Why the text is taken to end where it does, if not because it does.
    cut_short: Option<Fault>,
    /// The next byte; never beyond the end, and at the beginning of a character.
    pub(super) at: usize,
    /// How much deeper it may go.
    pub(super) depth: u8,
    pub(super) counts: Counts,
    /// The last string that had escapes.
    pub(super) decoded: String,
}

impl<'de> Deserializer<'de> {
    pub(super) fn new(text: &'de str) -> Self {
        Self { text, cut_short: None, at: 0, depth: DEPTH, counts: Counts::default(), decoded: String::new() }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &'de [u8] {
        self.text.as_bytes()
    }

    #[inline]
    pub(super) fn byte(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    /// The next byte after white space; `None` at the end.
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

    /// The first byte of the value that has to be next.
    #[inline]
    pub(super) fn value(&mut self) -> Result<u8, Fault> {
        self.token().ok_or(Fault::Truncated)
    }

    /// Takes `expected`, where nothing else may be.
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

    /// Takes `null`, `true` or `false`.
    #[inline]
    pub(super) fn literal(&mut self, word: &str) -> Result<(), Fault> {
        let rest = self.bytes().get(self.at..).unwrap_or_default();
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        if word.as_bytes().starts_with(rest) { Err(self.truncated()) } else { Err(Fault::Syntax) }
    }

    /// Takes all that there is, and it is not enough.
    pub(super) fn truncated(&mut self) -> Fault {
        self.at = self.text.len();
        Fault::Truncated
    }

    /// Ends the text here, as it does not go on with what has to be next.
    pub(super) fn cut_short(&mut self, fault: Fault) {
        self.text = self.text.get(..self.at).unwrap_or_default();
        self.cut_short.get_or_insert(fault);
    }

    /// Only white space may be left.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        match (self.cut_short, self.token()) {
            (Some(fault), _) => Err(fault),
            (None, Some(_)) => Err(Fault::Syntax),
            (None, None) => Ok(()),
        }
    }

    /// The error that `fault` is, here.
    pub(super) fn error(&self, fault: Fault) -> JsonError {
        let position = self.at;
        match (fault, self.cut_short) {
            (Fault::Truncated, None | Some(Fault::Truncated)) => JsonError::Truncated { position },
            (Fault::Truncated, Some(_)) | (Fault::Syntax, _) => JsonError::Syntax { position },
            (Fault::Shape, _) => JsonError::Shape { position },
        }
    }

    /// What is wrong where another type was expected. A value that is malformed itself says so.
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
