//! Percent-encoding.

/// Decodes percent-encoded text. Returns `None` if an escape is invalid. Replaces bytes that are not
/// UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        // from_str_radix also accepts a sign.
        let digits = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(hex, 16).ok().filter(|_| digits)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_escapes_are_rejected() {
        assert_eq!(decode("a%2Fb%e4%bd%a0").as_deref(), Some("a/b\u{4f60}"));
        assert_eq!(decode("%ff").as_deref(), Some("\u{fffd}"));
        for invalid in ["%", "%2", "%zz", "a%+1", "%%", "%\u{e4}"] {
            assert_eq!(decode(invalid), None, "{invalid}");
        }
    }
}
