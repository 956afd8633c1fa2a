//! Checks whether an object may contain a field again. The check does not scan the structure of the
//! object.

use std::sync::LazyLock;

use memchr::{memchr_iter, memmem::Finder};

static METADATA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""metadata""#));
static KIND: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""kind""#));

/// Returns whether the object may contain `metadata` after `at`, the end of another field. If
/// `has_kind` is false, also searches for `kind`.
///
/// The result may be true although the match is in a string or in a nested object.
pub(super) fn may_repeat(bytes: &[u8], at: usize, has_kind: bool) -> bool {
    has_letter_escapes(&bytes[at..])
        || follows_a_comma(bytes, at, &METADATA)
        || (!has_kind && follows_a_comma(bytes, at, &KIND))
}

/// Returns whether the text contains an escape of a lower-case letter (U+0061 to U+007A). Both
/// names consist of lower-case letters, so an escaped name contains at least one of these escapes.
/// Servers never escape letters.
fn has_letter_escapes(rest: &[u8]) -> bool {
    memchr_iter(b'\\', rest).any(|at| matches!(rest.get(at + 1..at + 5), Some(b"u006" | b"u007")))
}

/// Returns whether the name occurs after a comma, like each field except the first field.
fn follows_a_comma(bytes: &[u8], at: usize, name: &Finder<'_>) -> bool {
    name.find_iter(&bytes[at..]).any(|found| bytes[..at + found].trim_ascii_end().ends_with(b","))
}
