//! `Uid`: the unique identifier of an object.

use std::{borrow::Cow, fmt, sync::Arc};

use crate::{Escaped, memory::shared_text_bytes};

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
            Some(bytes) => UidRepr::Uuid(bytes),
            None => UidRepr::Text(text.into()),
        })
    }

    /// Returns the bytes that the uid has allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            UidRepr::Uuid(_) => 0,
            UidRepr::Text(text) => shared_text_bytes(text),
        }
    }

    /// Returns the text of the server, unchanged. Use it in requests and comparisons. Logs must use
    /// `Display`, which escapes the text.
    pub fn as_str(&self) -> Cow<'_, str> {
        match &self.0 {
            UidRepr::Text(text) => (&**text).into(),
            UidRepr::Uuid(_) => self.to_string().into(),
        }
    }

    /// Returns the bytes of a lower-case hyphenated UUID. Returns `None` for any other text.
    pub fn as_uuid(&self) -> Option<[u8; 16]> {
        match &self.0 {
            UidRepr::Uuid(bytes) => Some(*bytes),
            UidRepr::Text(_) => None,
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

/// Creates a uid from the bytes of a UUID.
impl From<[u8; 16]> for Uid {
    fn from(uuid: [u8; 16]) -> Self {
        Self(UidRepr::Uuid(uuid))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.as_bytes().try_into().ok()?;
    if [8, 13, 18, 23].iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut bytes = [0; 16];
    // The digits are checked together at the end, so that the loop has no branches.
    let mut invalid = 0;
    for (byte, at) in bytes.iter_mut().zip(DIGITS) {
        let (high, low) = (DIGIT_VALUES[text[at] as usize], DIGIT_VALUES[text[at + 1] as usize]);
        *byte = (high << 4) | (low & 0xf);
        invalid |= (high | low) & NO_DIGIT;
    }
    (invalid == 0).then_some(bytes)
}

/// The position of the first digit of each byte in the text of a UUID.
const DIGITS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// Marks a character that is not a lower-case hexadecimal digit.
const NO_DIGIT: u8 = 0x10;

/// The value of each character as a lower-case hexadecimal digit, or [`NO_DIGIT`].
const DIGIT_VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

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
            prop_assert_eq!(uid.as_str(), &*text);
            let same = uid.as_uuid().map_or_else(|| uid.clone(), Uid::from);
            prop_assert_eq!(same.as_str(), text);
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
