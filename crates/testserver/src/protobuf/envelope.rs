//! The envelope of each object in protobuf: a prefix, and a message with the type and the bytes of the
//! object.

use super::wire::{Cursor, LENGTH, Malformed, text};

/// The prefix of every body.
pub(super) const PREFIX: &[u8] = b"k8s\0";

/// The content of a body.
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    pub api_version: String,
    pub kind: String,
    pub raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        if body.is_empty() {
            return Err(Malformed::Empty);
        }
        let inner = body.strip_prefix(PREFIX).ok_or(Malformed::Prefix)?;
        if inner.is_empty() {
            return Err(Malformed::PrefixOnly);
        }
        let mut envelope = Self::default();
        let mut cursor = Cursor::new(inner);
        // Encoding and content type follow; the real server ignores both fields.
        while let Some(tag) = cursor.tag("Unknown")? {
            match tag.number {
                1 => envelope.read_type(field("TypeMeta", tag.wire, &mut cursor)?)?,
                2 => envelope.raw = field("Raw", tag.wire, &mut cursor)?,
                3 => drop(field("ContentEncoding", tag.wire, &mut cursor)?),
                4 => drop(field("ContentType", tag.wire, &mut cursor)?),
                _ => cursor.skip(tag.wire)?,
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut cursor = Cursor::new(bytes);
        while let Some(tag) = cursor.tag("TypeMeta")? {
            match tag.number {
                1 => self.api_version = text(field("APIVersion", tag.wire, &mut cursor)?),
                2 => self.kind = text(field("Kind", tag.wire, &mut cursor)?),
                _ => cursor.skip(tag.wire)?,
            }
        }
        Ok(())
    }
}

fn field<'a>(name: &str, wire: u8, cursor: &mut Cursor<'a>) -> Result<&'a [u8], Malformed> {
    match wire {
        LENGTH => cursor.bytes(),
        found => Err(Malformed::FieldType { field: name.into(), found }),
    }
}
