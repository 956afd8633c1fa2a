//! What an apply that is taken strictly may not be: YAML in which a key stands twice in a map.

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

/// Checks that every key stands once in its map.
///
/// # Errors
/// Where one does not, in one line.
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
    fn a_repeated_key_is_found() {
        assert!(check_keys(b"a: 1\nb: {c: 1, d: 2}\n").is_ok());
        assert!(check_keys(b"").is_ok());
        assert!(check_keys(b"a: {b: 1, b: 2}\n").is_err());
        assert!(check_keys(b"{\"a\": 1, \"a\": 2}").is_err());
    }
}
