//! Tests strings with escapes, and bytes that are not UTF-8.

use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::check_same;
use crate::json::{JsonError, from_slice};

/// Compares the results for a string with this content at several positions of a text.
fn check_at_each_position(inside: &str) {
    for text in [
        format!("\"{inside}\""),
        format!("\"{inside}"),
        format!("\"0123456789abcdef{inside}0123456789abcdef\""),
    ] {
        check_same::<String>(&text);
        check_same::<&str>(&text);
        check_same::<char>(&text);
        check_same::<IgnoredAny>(&text);
        check_same::<serde_json::Value>(&text);
        let field = format!("{{{text}:{text}}}");
        check_same::<std::collections::BTreeMap<String, String>>(&field);
        check_same::<serde_json::Value>(&field);
        check_same::<IgnoredAny>(&field);
    }
}

#[test]
fn escapes_match_serde_json() {
    for inside in [
        "",
        "a",
        "\u{e9}",
        "\u{1f600}",
        r#"\"\\\/\b\f\n\r\t"#,
        r"\u0041",
        r"\u00e9\u20AC",
        r"\ud83d\ude00",
        r"\uD83D\uDE00",
        r"\ud83d",
        r"\ude00",
        r"\ud83d\ud83d",
        r"\ud83dx",
        r"\ud83d\n",
        r"\ud83d\u0041",
        r"\u12",
        r"\u12g4",
        r"\u",
        r"\",
        r"\x",
        r"\'",
        r"\U0041",
        r"\u{41}",
        "\u{0}",
        "\n",
        "\u{1f}",
        "\u{7f}",
        "\u{2028}",
        r"\u0000",
    ] {
        check_at_each_position(inside);
    }
}

#[test]
fn invalid_utf8_is_reported_at_its_position() {
    for bytes in [&b"\"\xff\""[..], b"[1,\"a\xc3\"]", b"\x80", b"{\"\xe2\x82\":1}"] {
        let at = std::str::from_utf8(bytes).unwrap_err().valid_up_to();
        assert_eq!(from_slice::<serde_json::Value>(bytes), Err(JsonError::Syntax { position: at }));
    }
}

proptest! {
    #[test]
    fn any_escapes_match_serde_json(inside in "(\\\\[\"\\\\/bfnrtux]|\\\\u[0-9a-fA-F]{4}|\\\\u[dD][89a-fA-F][0-9a-f]{2}|[a-z\u{e9}\"]){0,8}") {
        check_at_each_position(&inside);
    }

    #[test]
    fn any_bytes_match_serde_json(bytes in proptest::collection::vec(prop_oneof![
        any::<u8>(), Just(b'"'), Just(b'\\'), Just(b'['), Just(b'{'), Just(b':'), Just(b','), Just(b'u'), Just(b'1')
    ], 0..60)) {
        let actual = from_slice::<serde_json::Value>(&bytes);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            super::check_same_value(text);
        } else {
            let at = std::str::from_utf8(&bytes).unwrap_err().valid_up_to();
            prop_assert_eq!(actual, Err(JsonError::Syntax { position: at }));
        }
    }
}
