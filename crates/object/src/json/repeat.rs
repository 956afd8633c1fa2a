//! Checks without a scan of the structure whether an object may contain a field again.

use std::sync::LazyLock;

use memchr::{memchr_iter, memmem::Finder};

static METADATA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""metadata""#));
static KIND: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""kind""#));

/// Returns whether the object may contain `metadata` (or `kind`, if none was found) after `at`, the end
/// of another field. The match may also be in a string or in a nested object.
pub(super) fn may_repeat(bytes: &[u8], at: usize, has_kind: bool) -> bool {
    has_letter_escapes(&bytes[at..])
        || follows_a_comma(bytes, at, &METADATA)
        || (!has_kind && follows_a_comma(bytes, at, &KIND))
}

/// Returns whether a name may be written with escapes. The names contain only lower-case letters,
/// U+0061 to U+007A, which servers never escape.
fn has_letter_escapes(rest: &[u8]) -> bool {
    memchr_iter(b'\\', rest).any(|at| matches!(rest.get(at + 1..at + 5), Some(b"u006" | b"u007")))
}

/// Returns whether the name occurs at a place where a field name can be, other than the first field.
fn follows_a_comma(bytes: &[u8], at: usize, name: &Finder<'_>) -> bool {
    name.find_iter(&bytes[at..]).any(|found| bytes[..at + found].trim_ascii_end().ends_with(b","))
}
