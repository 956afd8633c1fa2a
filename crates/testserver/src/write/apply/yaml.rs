//! Strict validation of the YAML of an apply. A map must not contain repeated keys.

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

/// Checks that each map contains each key once.
///
/// # Errors
/// Returns a one-line message with the position of a repeated key.
pub(crate) fn check_keys(text: &[u8]) -> Result<(), String> {
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let mut reader = text;
    match serde_saphyr::read_with_options::<_, Value>(&mut reader, options).next() {
        Some(Err(error)) => Err(error.to_string()),
        Some(Ok(_)) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_key_is_an_error() {
        assert!(check_keys(b"a: 1\nb: {c: 1, d: 2}\n").is_ok());
        assert!(check_keys(b"").is_ok());
        assert!(check_keys(b"a: {b: 1, b: 2}\n").is_err());
        assert!(check_keys(b"{\"a\": 1, \"a\": 2}").is_err());
    }
}
