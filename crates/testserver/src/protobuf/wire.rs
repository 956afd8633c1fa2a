//! The wire format of protobuf, read field by field without copying.

use crate::schemas::types::quantity::InvalidQuantity;

/// The reason why bytes are not valid protobuf, or have no JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("{0}")]
    Text(&'static str),
    #[error("proto: wrong wireType for field {0}")]
    Field(String),
    #[error(transparent)]
    Quantity(#[from] InvalidQuantity),
}

const SHORT: Malformed = Malformed::Text("unexpected EOF");
const LENGTH_RANGE: Malformed = Malformed::Text("proto: negative length found during unmarshaling");

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const LENGTH: u8 = 2;
const FIXED32: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub number: u32,
    pub wire: u8,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub(super) fn is_at_end(self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the tag of the next field. Returns `None` at the end of the message.
    pub(super) fn tag(&mut self) -> Result<Option<Tag>, Malformed> {
        if self.is_at_end() {
            return Ok(None);
        }
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 => Ok(Some(Tag { number, wire: (tag & 7) as u8 })),
            _ => Err(Malformed::Text("proto: illegal tag")),
        }
    }

    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(SHORT)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Text("proto: integer overflow"))
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| SHORT)?))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = i64::try_from(self.varint()?).map_err(|_| LENGTH_RANGE)?;
        self.take(usize::try_from(length).map_err(|_| SHORT)?)
    }

    pub(super) fn length_delimited(&mut self, tag: Tag) -> Result<&'a [u8], Malformed> {
        if tag.wire == LENGTH {
            self.bytes()
        } else {
            Err(Malformed::Text("proto: wrong wireType for a field"))
        }
    }

    /// Skips a value that is not used. The messages of Kubernetes contain no groups.
    pub(super) fn skip(&mut self, wire: u8) -> Result<(), Malformed> {
        match wire {
            VARINT => self.varint().map(drop),
            FIXED64 => self.take(8).map(drop),
            LENGTH => self.bytes().map(drop),
            FIXED32 => self.take(4).map(drop),
            _ => Err(Malformed::Text("proto: illegal wireType")),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(SHORT)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// Decodes a text. Invalid UTF-8 is replaced, as in the JSON of the real server.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(bytes: &[u8]) -> Result<usize, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let tag = cursor.tag()?.expect("not empty");
        cursor.skip(tag.wire)?;
        Ok(cursor.rest.len())
    }

    #[test]
    fn values_of_all_wire_types_are_skipped() {
        assert_eq!(skipped(&[8, 0x80, 1, 7]), Ok(1));
        assert_eq!(skipped(&[9, 1, 2, 3, 4, 5, 6, 7, 8, 7]), Ok(1));
        assert_eq!(skipped(&[10, 2, 1, 2, 7]), Ok(1));
        assert_eq!(skipped(&[13, 1, 2, 3, 4, 7]), Ok(1));
    }

    #[test]
    fn field_errors_equal_real_server() {
        assert_eq!(skipped(&[0xff; 3]), Err(SHORT));
        assert_eq!(skipped(&[0xff; 10]), Err(Malformed::Text("proto: integer overflow")));
        assert_eq!(skipped(&[10, 3, 1, 2]), Err(SHORT));
        assert_eq!(skipped(&[10, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]), Err(LENGTH_RANGE));
        assert_eq!(skipped(&[11, 8, 1]), Err(Malformed::Text("proto: illegal wireType")));
        assert_eq!(skipped(&[14]), Err(Malformed::Text("proto: illegal wireType")));
        assert_eq!(skipped(&[0, 1]), Err(Malformed::Text("proto: illegal tag")));
    }
}
