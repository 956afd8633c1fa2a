//! `ValueEnd`: finds the end of a value that is received in several chunks.

use super::{brackets::Brackets, scan::special};

/// Finds the end of one JSON value that arrives in several chunks. Does not validate the JSON.
///
/// ```
/// let mut end = kube_object::ValueEnd::default();
/// assert_eq!(end.find(br#"{"name": "a"#), None); // the value is incomplete
/// assert_eq!(end.find(br#"}"}, "more"#), Some(3));
/// ```
#[derive(Debug, Default)]
pub struct ValueEnd {
    brackets: Brackets,
    /// Whether the value is a string and its first byte was read.
    in_string: bool,
    /// Whether the previous byte was a backslash in this string.
    is_escaped: bool,
}

impl ValueEnd {
    /// Returns the number of bytes of this chunk that belong to the value. Returns `None` if the
    /// value continues in the next chunk.
    ///
    /// The first byte of each chunk must belong to the value. For a number, `true`, `false` or
    /// `null`, the method finds the end only if the chunk also contains the byte after the value.
    #[inline]
    pub fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.in_string {
            return self.string_end(bytes, 0);
        }
        match bytes.first()? {
            _ if !self.brackets.is_empty() => self.brackets.close(bytes),
            b'{' | b'[' => self.brackets.close(bytes),
            b'"' => self.string_end(bytes, 1),
            _ => bytes
                .iter()
                .position(|byte| matches!(byte, b'}' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n')),
        }
    }

    /// Returns the end of the string that contains `at`.
    #[inline]
    fn string_end(&mut self, bytes: &[u8], mut at: usize) -> Option<usize> {
        self.in_string = true;
        if self.is_escaped && at < bytes.len() {
            self.is_escaped = false;
            at += 1;
        }
        loop {
            at = special(bytes, at);
            match bytes.get(at)? {
                b'"' => return Some(at + 1),
                b'\\' if at + 1 == bytes.len() => {
                    self.is_escaped = true;
                    return None;
                }
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the end of the value. Panics if the result for any two chunks is different.
    fn end_of(text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        let complete = ValueEnd::default().find(bytes);
        for cut in 0..=bytes.len() {
            let mut end = ValueEnd::default();
            let found = end.find(&bytes[..cut]).or_else(|| Some(cut + end.find(&bytes[cut..])?));
            assert_eq!(found, complete, "{text} cut at {cut}");
        }
        complete
    }

    #[test]
    fn value_end_is_found_across_chunks() {
        for value in [
            r#""""#,
            r#""a\"b\\""#,
            r#""\\\\\"""#,
            "{}",
            "[]",
            r#"{"a":[{"]":"}"},1,"\""],"b":{}}"#,
            r#"["0123456789012345\\","}",[[{}]]]"#,
            "-1.5e3",
            "true",
            "null",
        ] {
            for after in [",", "}", "]", " ", "\n"] {
                assert_eq!(end_of(&format!("{value}{after}{after}")), Some(value.len()), "{value}{after}");
            }
        }
    }

    #[test]
    fn unfinished_value_has_no_end() {
        for text in ["", "{", r#"{"a"#, r#"{"a":"b\"}"#, "[[]", "12", r#""a\"#, r#""\\\""#] {
            assert_eq!(end_of(text), None, "{text}");
        }
    }
}
