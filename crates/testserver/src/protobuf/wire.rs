//! Protobuf's wire format: a message as its numbered fields. Borrowed from the body, and safe for any bytes.

/// Why bytes are not the protobuf they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("it does not begin with the prefix of Kubernetes' protobuf")]
    Magic,
    #[error("its content has an encoding of its own")]
    Encoding,
    #[error("it ends within a field")]
    Short,
    #[error("a number is longer than ten bytes")]
    Varint,
    #[error("a field has an unknown wire type")]
    WireType,
    #[error("a field has another wire type than its own")]
    FieldType,
    #[error("a text is not UTF-8")]
    Text,
    #[error("an embedded document is not JSON")]
    Json,
    #[error("messages are nested too deeply")]
    Depth,
    #[error("a time is beyond the calendar")]
    Time,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32,
    Bytes(&'a [u8]),
}

/// The fields of a message in the order in which they came. After an error nothing follows.
pub(super) fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { rest: bytes }
}

pub(super) fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::Text)
}

#[derive(Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Wire<'a>), Malformed> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.take(8)?.try_into().map_err(|_| Malformed::Short)?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed::Short)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(Malformed::WireType),
        };
        Ok((tag >> 3, value))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed::Short)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Varint)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Short)?;
        self.rest = rest;
        Ok(taken)
    }
}
