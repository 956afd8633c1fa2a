//! Where `metadata.managedFields` ends: half of an object's bytes that nobody wants to look at.

use memchr::memchr2;

use super::walk::{Unsure, value_end};

/// Where the value that begins at `at` ends.
pub(super) fn end(bytes: &[u8], at: usize) -> Result<usize, Unsure> {
    match flat_array_end(bytes, at) {
        Some(end) => Ok(end),
        None => value_end(bytes, at),
    }
}

/// The end of an array without another one in it, as the server writes managedFields: that is the first bracket which is
/// not in a string, and whether it is in one follows from how many quotes there are before it. `None` where it is not as
/// simple as that.
fn flat_array_end(bytes: &[u8], at: usize) -> Option<usize> {
    let (b'[', inner) = bytes.get(at..)?.split_first()? else { return None };
    let length = memchr2(b'[', b']', inner)?;
    if inner[length] == b'[' {
        return None;
    }
    let end = at + 1 + length;
    is_outside_of_strings(&bytes[at..end - 1], &bytes[at + 1..end]).then_some(end + 1)
}

/// Whether as many strings have ended as have begun. `before` is the byte before each of `bytes`.
///
/// Sums of all bytes instead of branches, so that the compiler can take many at once. A backslash after another one
/// would make it two questions whether a quote is escaped; then the answer is no.
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
    fn an_array_without_another_one_ends_at_its_bracket() {
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
