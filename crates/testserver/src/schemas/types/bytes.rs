//! Base64 in JSON, decoded as in Go: line breaks are skipped, and trailing bits that do not form a byte are
//! ignored.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Returns the normalized base64 text of the real server; `None` if it equals the input.
///
/// # Errors
/// Returns the index of the first invalid byte.
pub(crate) fn canonical(text: &str) -> Result<Option<String>, usize> {
    if STANDARD.decode(text).is_ok() {
        return Ok(None);
    }
    decode(text.as_bytes()).map(|bytes| Some(STANDARD.encode(bytes)))
}

fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut at, mut bits, mut digits) = (0, 0u32, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        if matches!(byte, b'\n' | b'\r') {
            continue;
        }
        if byte == b'=' {
            check_end(text, at, digits)?;
            // Two digits encode eight bits, three digits encode sixteen.
            bits <<= 6 * (4 - digits);
            bytes.extend([bits >> 16, bits >> 8].iter().take(digits as usize - 1).map(|bits| *bits as u8));
            return Ok(bytes);
        }
        bits = bits << 6 | digit(byte).ok_or(at - 1)?;
        digits += 1;
        if digits == 4 {
            bytes.extend([bits >> 16, bits >> 8, bits].map(|bits| bits as u8));
            (bits, digits) = (0, 0);
        }
    }
    if digits == 0 { Ok(bytes) } else { Err(at - digits as usize) }
}

/// Checks the text after the first `=`: at most one more `=` may follow. `at` is the index after the first
/// `=`.
fn check_end(text: &[u8], at: usize, digits: u32) -> Result<(), usize> {
    let next =
        |from: usize| (from..text.len()).find(|place| !matches!(text.get(*place), Some(b'\n' | b'\r')));
    let end = match digits {
        0 | 1 => return Err(at - 1),
        2 => match next(at) {
            None => return Err(text.len()),
            Some(place) if text.get(place) == Some(&b'=') => place + 1,
            Some(place) => return Err(place - 1),
        },
        _ => at,
    };
    next(end).map_or(Ok(()), Err)
}

fn digit(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
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
    fn invalid_base64_is_reported_by_index() {
        for (text, place) in [
            ("!!", 0),
            ("YQ", 0),
            ("YWJjYQ", 4),
            ("YQ=", 3),
            ("YQ=x", 2),
            ("Y===", 1),
            ("YQ==YQ==", 4),
            ("YWJ-", 3),
        ] {
            assert_eq!(canonical(text), Err(place), "{text:?}");
        }
    }
}
