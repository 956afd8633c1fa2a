//! The envelope of each object in protobuf: a prefix, and a message with the type and the bytes of the
//! object.

use super::wire::{Cursor, Malformed, text};

pub(super) const PREFIX: &[u8] = b"k8s\0";

#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    pub api_version: String,
    pub kind: String,
    pub raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        if body.is_empty() || body == PREFIX {
            return Err(Malformed::Text("empty data"));
        }
        let mut cursor =
            Cursor::new(body.strip_prefix(PREFIX).ok_or(Malformed::Text("the data has no protobuf prefix"))?);
        let mut envelope = Self::default();
        // Encoding and content type follow; the real server ignores both fields.
        while let Some(tag) = cursor.tag()? {
            match tag.number {
                1 => envelope.read_type(cursor.length_delimited(tag)?)?,
                2 => envelope.raw = cursor.length_delimited(tag)?,
                _ => cursor.skip(tag.wire)?,
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut cursor = Cursor::new(bytes);
        while let Some(tag) = cursor.tag()? {
            match tag.number {
                1 => self.api_version = text(cursor.length_delimited(tag)?),
                2 => self.kind = text(cursor.length_delimited(tag)?),
                _ => cursor.skip(tag.wire)?,
            }
        }
        Ok(())
    }
}
