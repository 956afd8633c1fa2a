//! `Uid`: the unique identifier of an object.

use std::{borrow::Cow, fmt, sync::Arc};

use crate::Escaped;

/// Holds the `metadata.uid` of an object. An object that is deleted and created again has the same
/// key and another uid.
///
/// Kubernetes uses RFC 4122 UUIDs. A UUID is stored in 16 bytes without an allocation. Any other
/// text is stored unchanged. Aggregated APIs may send an empty uid. An empty uid counts as unknown,
/// so it does not differ from any other uid ([`Uid::differs_from`]).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Uid(UidRepr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum UidRepr {
    /// A lower-case hyphenated UUID. Other spellings are stored as text, so that `as_str`
    /// restores the text exactly. An array of bytes, because a `u128` would increase the alignment.
    Uuid([u8; 16]),
    Text(Arc<str>),
}

impl Uid {
    /// Creates a uid from its text.
    pub fn new(text: &str) -> Self {
        Self(match parse_uuid(text) {
            Some(bits) => UidRepr::Uuid(bits.to_be_bytes()),
            None => UidRepr::Text(text.into()),
        })
    }

    /// Returns the text of the server, unchanged. Use it in requests and comparisons. Logs must use
    /// `Display`, which escapes the text.
    pub fn as_str(&self) -> Cow<'_, str> {
        match &self.0 {
            UidRepr::Text(text) => (&**text).into(),
            UidRepr::Uuid(_) => self.to_string().into(),
        }
    }

    /// Returns whether the uid is empty, because the server did not send a uid.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, UidRepr::Text(text) if text.is_empty())
    }

    /// Returns whether both uids are known and different. An empty uid is unknown.
    pub fn differs_from(&self, other: &Uid) -> bool {
        !self.is_empty() && !other.is_empty() && self != other
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

fn parse_uuid(text: &str) -> Option<u128> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 {
        return None;
    }
    let mut bits = 0u128;
    for (at, &byte) in bytes.iter().enumerate() {
        let digit = match (at, byte) {
            (8 | 13 | 18 | 23, b'-') => continue,
            (8 | 13 | 18 | 23, _) => return None,
            (_, b'0'..=b'9') => byte - b'0',
            (_, b'a'..=b'f') => byte - b'a' + 10,
            _ => return None,
        };
        bits = (bits << 4) | u128::from(digit);
    }
    Some(bits)
}

/// Escapes characters that are not printable. [`Uid::as_str`] returns the unchanged text.
impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            UidRepr::Text(text) => Escaped(text).fmt(f),
            UidRepr::Uuid(bytes) => {
                let bits = u128::from_be_bytes(*bytes);
                write!(
                    f,
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    (bits >> 96) as u32,
                    (bits >> 80) as u16,
                    (bits >> 64) as u16,
                    (bits >> 48) as u16,
                    bits & 0xffff_ffff_ffff
                )
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_round_trips(text in "([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})|.{0,40}") {
            let uid = Uid::new(&text);
            prop_assert_eq!(uid.as_str(), text);
        }

        #[test]
        fn uids_are_equal_if_texts_are_equal(a in "[0-9a-fA-F-]{35,37}", b in "[0-9a-fA-F-]{35,37}") {
            prop_assert_eq!(Uid::new(&a) == Uid::new(&b), a == b);
        }
    }

    #[test]
    fn displayed_uid_has_no_control_characters() {
        let uid = Uid::new("u\u{202e}\n");
        assert_eq!((uid.to_string().as_str(), &*uid.as_str()), (r"u\u{202e}\n", "u\u{202e}\n"));
        assert_eq!(format!("{uid:?}"), r"u\u{202e}\n");
    }

    #[test]
    fn empty_uid_does_not_differ() {
        let known = Uid::new("a");
        assert!(!Uid::new("").differs_from(&known));
        assert!(!known.differs_from(&Uid::new("")));
        assert!(known.differs_from(&Uid::new("b")));
    }
}
