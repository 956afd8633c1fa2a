//! Bytes as JSON carries them, read as Go's decoder reads them: it passes over ends of lines, and does not look at bits
//! that belong to no byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The text that the real server makes of a base64 text; `None` where it is the same.
///
/// # Errors
/// The place of the first byte that can't be read.
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
            // Of two digits the first eight bits count, of three the first sixteen.
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

/// What must follow the first `=`, which stands before `at`: perhaps another one, and nothing else.
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
    fn what_is_canonical_stays() {
        for text in ["", "YQ==", "YWI=", "YWJj", "YWJjZA=="] {
            assert_eq!(canonical(text), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn ends_of_lines_and_bits_of_no_byte_go() {
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
    fn what_is_no_base64_is_told_by_its_place() {
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
