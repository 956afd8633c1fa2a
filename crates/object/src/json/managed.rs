//! Finds the end of `metadata.managedFields`, which is often half of an object.

use fearless_simd::dispatch;
use memchr::memchr2;

use super::{
    level::LEVEL,
    walk::{UnusualJson, value_end},
};

/// Returns the end of the value that starts at `at`.
pub(super) fn end(bytes: &[u8], at: usize) -> Result<usize, UnusualJson> {
    match flat_array_end(bytes, at) {
        Some(end) => Ok(end),
        None => value_end(bytes, at),
    }
}

/// Returns the end of an array without nested arrays. Servers send this format. The end is the
/// first closing bracket, if the number of quotation marks before this bracket is even: an odd
/// number means that the bracket is inside a string. Returns `None` for other formats.
fn flat_array_end(bytes: &[u8], at: usize) -> Option<usize> {
    let (b'[', inner) = bytes.get(at..)?.split_first()? else { return None };
    let length = memchr2(b'[', b']', inner)?;
    if inner[length] == b'[' {
        return None;
    }
    let end = at + 1 + length;
    let (before, inner) = (&bytes[at..end - 1], &bytes[at + 1..end]);
    dispatch!(*LEVEL, _ => is_outside_of_strings(before, inner)).then_some(end + 1)
}

/// Returns whether all strings in `bytes` are closed. `before` contains the same bytes, shifted by
/// one.
///
/// The loop has no branches, so the compiler can vectorize it. Returns false if a backslash follows
/// a backslash, because the loop then cannot determine whether a quotation mark is escaped.
#[inline(always)]
fn is_outside_of_strings(before: &[u8], bytes: &[u8]) -> bool {
    let (mut odd_quotes, mut double_backslashes) = (false, false);
    for (&before, &byte) in before.iter().zip(bytes) {
        odd_quotes ^= (byte == b'"') & (before != b'\\');
        double_backslashes |= (byte == b'\\') & (before == b'\\');
    }
    !odd_quotes & !double_backslashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_array_end_is_first_closing_bracket() {
        for text in ["[]", "[{}]", r#"[{"a":"b"}]"#, r#"[{"k:{\"a\":\"b\"}":{}}]"#] {
            let more = format!(r#"{text},"x":["]"]}}"#);
            assert_eq!(flat_array_end(more.as_bytes(), 0), Some(text.len()), "{text}");
        }
    }

    #[test]
    fn complex_managed_fields_are_walked() {
        for text in [
            r#"[[]]"#,
            r#"["["]"#,
            r#"["]"]"#,
            r#"["\"]"]"#,
            r#"["\\"]"#,
            r#"["\\",{"a":"]"}]"#,
            "null",
            "7",
            r#""]""#,
            r#"{"a":"]"}"#,
        ] {
            let more = format!("{text},1]");
            assert_eq!(flat_array_end(more.as_bytes(), 0), None, "{text}");
            assert_eq!(end(more.as_bytes(), 0), Ok(text.len()), "{text}");
        }
    }
}
