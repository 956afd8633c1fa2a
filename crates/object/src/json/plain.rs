//! Reads plain strings: JSON strings without escapes.

use std::borrow::Cow;

use super::{scan::special, walk::FieldScanner};

/// Returns the text of a plain string. Returns `None` for other JSON, and for a string with control
/// characters, which is invalid.
pub(super) fn plain(value: &[u8]) -> Option<&str> {
    let text = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if text.iter().any(|byte| *byte == b'\\' || byte.is_ascii_control()) {
        return None;
    }
    std::str::from_utf8(text).ok()
}

/// Returns whether the JSON is an object of plain strings. The names must be sorted, without
/// duplicates.
pub(crate) fn is_plain_map(json: &[u8]) -> bool {
    std::str::from_utf8(json).is_ok() && walk(json).is_some()
}

fn walk(json: &[u8]) -> Option<()> {
    let mut fields = FieldScanner::of(json, 0).ok()?;
    let mut before: Option<&[u8]> = None;
    while let Some(field) = fields.next().ok()? {
        let Cow::Borrowed(name) = field.name else { return None };
        if before.is_some_and(|before| before >= name) || json.get(field.value) != Some(&b'"') {
            return None;
        }
        before = Some(name);
        let end = special(json, field.value + 1);
        if json.get(end) != Some(&b'"') {
            return None;
        }
        fields.skip_value(end + 1);
    }
    fields.is_at_end().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_is_plain_if_all_strings_are_plain() {
        for json in ["{}", r#"{"a":"1"}"#, r#" { "a" : "1" , "b":"é" } "#, r#"{"":"","a":"","aa":"{}"}"#] {
            assert!(is_plain_map(json.as_bytes()), "{json}");
        }
        for json in [
            "null",
            "7",
            "[]",
            "",
            r#"{"a":"1""#,
            r#"{"a":"1}"#,
            r#"{"a":1}"#,
            r#"{"a":null}"#,
            r#"{"a":{"b":"1"}}"#,
            r#"{"b":"1","a":"1"}"#,
            r#"{"a":"1","a":"1"}"#,
            r#"{"\u0061":"1"}"#,
            r#"{"a":"\n"}"#,
            r#"{"a":"1"},"b":"1"}"#,
        ] {
            assert!(!is_plain_map(json.as_bytes()), "{json}");
        }
        assert!(!is_plain_map(b"{\"a\":\"\xff\"}"));
    }
}
