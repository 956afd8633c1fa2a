//! `ResourceVersion`: the version of an object or a list, and its order.
//!
//! KEP-5504 (Kubernetes 1.35) guarantees that the versions of one resource type are comparable
//! decimal numbers. The comparison is first by length, then as text. The request values "" and "0"
//! are not versions. Requests use separate types for these values.

use std::{borrow::Cow, cmp::Ordering, convert::Infallible, fmt, str::FromStr, sync::Arc};

use crate::{Escaped, memory::ARC_BYTES};

/// Holds the resourceVersion of an object, a list or a bookmark.
///
/// Versions that are decimal numbers are ordered. Any other text is *opaque*, including a number
/// with leading zeros. An opaque version is only equal to the same text. It is neither lower nor
/// higher than another version ([`PartialOrd`] returns `None`).
///
/// ```
/// use kube_object::ResourceVersion;
/// assert!(ResourceVersion::new("9") < ResourceVersion::new("10"));
/// assert!(ResourceVersion::new("99999999999999999999") < ResourceVersion::new("100000000000000000000"));
/// assert_eq!(ResourceVersion::new("abc").partial_cmp(&ResourceVersion::new("1")), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(VersionRepr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum VersionRepr {
    Number(u64),
    /// A decimal number of more than 64 bits. The type is `Arc<String>`, because it has the size of
    /// one pointer. An `Arc<str>` has the size of two pointers and would make each version larger.
    Large(Arc<String>),
    Opaque(Arc<String>),
}

impl ResourceVersion {
    /// Creates a version from any text.
    pub fn new(text: &str) -> Self {
        let decimal =
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        Self(match (decimal, text.parse()) {
            (true, Ok(number)) => VersionRepr::Number(number),
            (true, Err(_)) => VersionRepr::Large(Arc::new(text.to_owned())),
            (false, _) => VersionRepr::Opaque(Arc::new(text.to_owned())),
        })
    }

    /// Returns the bytes that the version has allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            VersionRepr::Number(_) => 0,
            VersionRepr::Large(text) | VersionRepr::Opaque(text) => {
                ARC_BYTES + size_of::<String>() + text.capacity()
            }
        }
    }

    /// Returns the text of the server, unchanged. Use it in requests. Logs must use `Display`, which
    /// escapes the text.
    pub fn as_str(&self) -> Cow<'_, str> {
        match &self.0 {
            VersionRepr::Number(number) => number.to_string().into(),
            VersionRepr::Large(text) | VersionRepr::Opaque(text) => text.as_str().into(),
        }
    }

    /// Returns whether the version is opaque: its text is not a decimal number. An opaque version
    /// cannot be compared with other versions.
    pub fn is_opaque(&self) -> bool {
        matches!(self.0, VersionRepr::Opaque(_))
    }

    /// Returns whether the version is empty, because the server did not send a version.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, VersionRepr::Opaque(text) if text.is_empty())
    }

    /// Returns whether a watch can resume after this version. An empty version and "0" are not
    /// positions in the history of the server. A watch from these versions starts with the current
    /// state.
    pub fn is_resumable(&self) -> bool {
        !matches!(&self.0, VersionRepr::Opaque(text) if text.is_empty() || text.as_str() == "0")
    }

    /// Returns whether this version is equal to `other` or higher. Returns false if one of the
    /// versions is opaque.
    pub fn at_least(&self, other: &Self) -> bool {
        !self.is_opaque() && self >= other
    }
}

impl From<u64> for ResourceVersion {
    fn from(number: u64) -> Self {
        match number {
            0 => Self::new("0"),
            _ => Self(VersionRepr::Number(number)),
        }
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Never fails, because each text is a resourceVersion.
impl FromStr for ResourceVersion {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::new(text))
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (VersionRepr::Number(a), VersionRepr::Number(b)) => Some(a.cmp(b)),
            (VersionRepr::Number(_), VersionRepr::Large(_)) => Some(Ordering::Less),
            (VersionRepr::Large(_), VersionRepr::Number(_)) => Some(Ordering::Greater),
            (VersionRepr::Large(a), VersionRepr::Large(b)) => {
                Some(a.len().cmp(&b.len()).then_with(|| a.cmp(b)))
            }
            (VersionRepr::Opaque(a), VersionRepr::Opaque(b)) if a == b => Some(Ordering::Equal),
            (VersionRepr::Opaque(_), _) | (_, VersionRepr::Opaque(_)) => None,
        }
    }
}

/// Escapes characters that are not printable. [`ResourceVersion::as_str`] returns the unchanged
/// text.
impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            VersionRepr::Number(number) => write!(f, "{number}"),
            VersionRepr::Large(text) | VersionRepr::Opaque(text) => Escaped(text).fmt(f),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_length_then_text(a: &str, b: &str) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }

    proptest! {
        #[test]
        fn versions_compare_by_length_then_text(a in "[1-9][0-9]{0,30}", b in "[1-9][0-9]{0,30}") {
            let order = ResourceVersion::new(&a).partial_cmp(&ResourceVersion::new(&b));
            prop_assert_eq!(order, Some(by_length_then_text(&a, &b)));
        }

        #[test]
        fn text_round_trips(text in ".{0,30}") {
            let version = ResourceVersion::new(&text);
            prop_assert_eq!(version.as_str(), text);
        }
    }

    #[test]
    fn displayed_version_has_no_control_characters() {
        let version = ResourceVersion::new("7\u{1b}[2J\n");
        assert_eq!((version.to_string().as_str(), &*version.as_str()), (r"7\u{1b}[2J\n", "7\u{1b}[2J\n"));
        assert_eq!(format!("{version:?}"), r#""7\u{1b}[2J\n""#);
    }

    #[test]
    fn empty_version_and_zero_are_not_resumable() {
        let resumable = |text| ResourceVersion::new(text).is_resumable();
        assert_eq!(["", "0", "00", "1", "abc"].map(resumable), [false, false, true, true, true]);
    }

    #[test]
    fn non_numbers_are_opaque_and_unordered() {
        for text in ["", "0", "007", "-1", "1a", "１"] {
            let version = ResourceVersion::new(text);
            assert!(version.is_opaque(), "{text:?} is not opaque");
            assert!(!version.at_least(&ResourceVersion::from(1)));
            assert!(!ResourceVersion::from(1).at_least(&version));
        }
    }
}
