//! Percent-escapes.

/// The text without its escapes, or `None` where one is broken. Bytes that are no UTF-8 are replaced.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        // from_str_radix would take a sign, too.
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
    fn broken_escapes_are_found() {
        assert_eq!(decode("a%2Fb%e4%bd%a0").as_deref(), Some("a/b\u{4f60}"));
        assert_eq!(decode("%ff").as_deref(), Some("\u{fffd}"));
        for broken in ["%", "%2", "%zz", "a%+1", "%%", "%\u{e4}"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
