//! Base64 in JSON, decoded as in Go: line breaks are skipped, and trailing bits that do not form a byte are
//! ignored.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::wire::escape::{LENIENT_BASE64, invalid_byte};

/// Returns the normalized base64 text of the real server; `None` if it equals the input.
///
/// # Errors
/// Returns the index of the first invalid byte.
pub(crate) fn canonical(text: &str) -> Result<Option<String>, usize> {
    if STANDARD.decode(text).is_ok() {
        return Ok(None);
    }
    let plain = text.replace(['\n', '\r'], "");
    let bytes = LENIENT_BASE64.decode(&plain).map_err(|error| invalid_byte(&error, &plain))?;
    Ok(Some(STANDARD.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_base64_is_unchanged() {
        for text in ["", "YQ==", "YWI=", "YWJj", "YWJjZA=="] {
            assert_eq!(canonical(text), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn line_ends_and_trailing_bits_are_dropped() {
        for (text, written) in [
            ("YQ==\n", "YQ=="),
            ("Y\nQ\r=\n=", "YQ=="),
            ("YR==", "YQ=="),
            ("YWJj\nYWJ=", "YWJjYWI="),
            ("\n", ""),
        ] {
            assert_eq!(canonical(text), Ok(Some(written.into())), "{text:?}");
        }
    }

    #[test]
    fn invalid_base64_is_rejected() {
        for text in ["!!", "YQ", "YWJjYQ", "YQ=", "YQ=x", "Y===", "YQ==YQ==", "YWJ-"] {
            assert!(canonical(text).is_err(), "{text:?}");
        }
    }
}
