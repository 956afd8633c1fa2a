//! Percent-encoding, and base64 as Go decodes it.

use base64::DecodeError;
use base64::alphabet;
use base64::engine::{GeneralPurpose, general_purpose};

/// Base64 with padding, with Go's tolerance of unused bits.
pub(crate) const LENIENT_BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, general_purpose::PAD.with_decode_allow_trailing_bits(true));

pub(crate) fn invalid_byte(error: &DecodeError, text: &str) -> usize {
    match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol { offset: at, .. } => *at,
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len().saturating_sub(1),
    }
}

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
