//! Reads strings. A string without escapes is borrowed from the text.

use super::{deserializer::Deserializer, error::Fault, scan};

/// A string in the text.
pub(super) enum JsonString<'de, 's> {
    Borrowed(&'de str),
    Decoded(&'s str),
}

impl<'de> Deserializer<'de> {
    /// Consumes a string. The next byte is its opening quotation mark.
    #[inline(always)]
    pub(super) fn string(&mut self) -> Result<JsonString<'de, '_>, Fault> {
        let start = self.at + 1;
        let end = scan::special(self.bytes(), start);
        if self.bytes().get(end) != Some(&b'"') {
            return self.string_with_escapes(start, end).map(JsonString::Decoded);
        }
        self.at = end + 1;
        self.text.get(start..end).map(JsonString::Borrowed).ok_or(Fault::Syntax)
    }

    /// Decodes a string with escapes. `special` is the position of the first escape or invalid
    /// byte.
    #[cold]
    fn string_with_escapes(&mut self, mut start: usize, mut special: usize) -> Result<&str, Fault> {
        self.decoded.clear();
        loop {
            self.decoded.push_str(self.text.get(start..special).ok_or(Fault::Syntax)?);
            self.at = special;
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => {}
                Some(_) => return Err(Fault::Syntax),
                None => return Err(Fault::Truncated),
            }
            self.at += 1;
            let decoded = self.escape()?;
            self.decoded.push(decoded);
            start = self.at;
            special = scan::special(self.bytes(), start);
        }
        self.at += 1;
        Ok(&self.decoded)
    }

    /// Consumes an escape after its backslash.
    fn escape(&mut self) -> Result<char, Fault> {
        match self.simple_escape()? {
            Some(decoded) => Ok(decoded),
            None => self.unicode_escape(),
        }
    }

    /// Consumes an escape after its backslash. For a `\u` escape, consumes only the `u` and returns
    /// `None`. The next bytes are then the digits.
    pub(super) fn simple_escape(&mut self) -> Result<Option<char>, Fault> {
        let decoded = match self.byte().ok_or(Fault::Truncated)? {
            byte @ (b'"' | b'\\' | b'/') => Some(char::from(byte)),
            b'b' => Some('\x08'),
            b'f' => Some('\x0c'),
            b'n' => Some('\n'),
            b'r' => Some('\r'),
            b't' => Some('\t'),
            b'u' => None,
            _ => return Err(Fault::Syntax),
        };
        self.at += 1;
        Ok(decoded)
    }

    /// Reads one code point from the digits of a `\u` escape or of a surrogate pair.
    fn unicode_escape(&mut self) -> Result<char, Fault> {
        let unit = self.four_digits()?;
        if !(0xd800..0xdc00).contains(&unit) {
            return char::from_u32(unit.into()).ok_or(Fault::Syntax);
        }
        for expected in [b'\\', b'u'] {
            match self.byte() {
                Some(found) if found == expected => self.at += 1,
                Some(_) => return Err(Fault::Syntax),
                None => return Err(Fault::Truncated),
            }
        }
        let second = self.four_digits()?;
        char::decode_utf16([unit, second]).next().and_then(Result::ok).ok_or(Fault::Syntax)
    }

    /// Consumes four hexadecimal digits.
    pub(super) fn four_digits(&mut self) -> Result<u16, Fault> {
        let Some(digits) = self.bytes().get(self.at..self.at + 4) else { return Err(self.truncated()) };
        let mut unit = 0;
        for &digit in digits {
            let digit = char::from(digit).to_digit(16).ok_or(Fault::Syntax)?;
            unit = unit << 4 | digit as u16;
        }
        self.at += 4;
        Ok(unit)
    }
}
