//! Decodes strings as bytes. Unlike text, bytes may contain lone surrogates and control characters.

use std::borrow::Cow;

use memchr::memchr2;

use super::{deserializer::Deserializer, error::Fault};

impl<'de> Deserializer<'de> {
    /// Consumes a string. The next byte is its opening quotation mark. A lone surrogate is encoded
    /// in three bytes, like in WTF-8.
    pub(super) fn byte_string(&mut self) -> Result<Cow<'de, [u8]>, Fault> {
        self.at += 1;
        let mut decoded = Vec::new();
        loop {
            let rest = self.bytes().get(self.at..).unwrap_or_default();
            let Some(special) = memchr2(b'"', b'\\', rest) else { return Err(self.truncated()) };
            self.at += special + 1;
            let plain = &rest[..special];
            match (rest[special], decoded.is_empty()) {
                (b'"', true) => return Ok(Cow::Borrowed(plain)),
                (b'"', false) => {
                    decoded.extend_from_slice(plain);
                    return Ok(Cow::Owned(decoded));
                }
                _ => decoded.extend_from_slice(plain),
            }
            match self.simple_escape()? {
                Some(character) => push(character.into(), &mut decoded),
                None => self.units(&mut decoded)?,
            }
        }
    }

    /// Consumes the digits of a `\u` escape. Also consumes the second half of a surrogate pair.
    fn units(&mut self, decoded: &mut Vec<u8>) -> Result<(), Fault> {
        let mut unit = self.four_digits()?;
        while (0xd800..0xdc00).contains(&unit) {
            let rest = self.bytes().get(self.at..).unwrap_or_default();
            if !rest.starts_with(b"\\u") {
                break;
            }
            self.at += 2;
            let second = self.four_digits()?;
            if let Some(Ok(pair)) = char::decode_utf16([unit, second]).next() {
                push(pair.into(), decoded);
                return Ok(());
            }
            push(unit.into(), decoded);
            unit = second;
        }
        push(unit.into(), decoded);
        Ok(())
    }
}

/// Encodes a code point as UTF-8, including surrogates.
fn push(point: u32, decoded: &mut Vec<u8>) {
    match char::from_u32(point) {
        Some(character) => decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        None => {
            let bytes = [0xe0 | (point >> 12), 0x80 | ((point >> 6) & 0x3f), 0x80 | (point & 0x3f)];
            decoded.extend(bytes.map(|byte| byte as u8));
        }
    }
}
