//! Whether an object may have a field once more, found without a walk over it.

use std::sync::LazyLock;

use memchr::{memchr_iter, memmem::Finder};

static METADATA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""metadata""#));
static KIND: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(r#""kind""#));

/// Whether `metadata`, or a `kind` where there was none yet, may be a field of the object after `at`, where another of
/// its fields has ended. What is found may as well be within a string, or in an object within this one.
pub(super) fn may_repeat(bytes: &[u8], at: usize, has_kind: bool) -> bool {
    has_letter_escapes(&bytes[at..])
        || follows_a_comma(bytes, at, &METADATA)
        || (!has_kind && follows_a_comma(bytes, at, &KIND))
}

/// Whether a name may be written otherwise than it reads: what is looked for has only small letters, which are U+0061 to
/// U+007A. Servers escape none of these.
fn has_letter_escapes(rest: &[u8]) -> bool {
    memchr_iter(b'\\', rest).any(|at| matches!(rest.get(at + 1..at + 5), Some(b"u006" | b"u007")))
}

/// Whether the name is found where it may be that of a field other than the first of its object.
fn follows_a_comma(bytes: &[u8], at: usize, name: &Finder<'_>) -> bool {
    name.find_iter(&bytes[at..]).any(|found| bytes[..at + found].trim_ascii_end().ends_with(b","))
}
