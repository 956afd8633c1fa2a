//! Finds the end of strings. These loops determine the speed of the other modules.

/// Returns the position of the first byte from `at` that is special in a string: a quotation mark,
/// a backslash or a control character. If no byte is special, returns the length of `bytes`.
#[inline]
pub(super) fn special(bytes: &[u8], mut at: usize) -> usize {
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let found = specials(u64::from_le_bytes(*block));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    special_bytewise(bytes, at)
}

#[cold]
fn special_bytewise(bytes: &[u8], at: usize) -> usize {
    let mut rest = bytes.iter().skip(at);
    rest.position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).map_or(bytes.len(), |length| at + length)
}

/// Returns a mask whose lowest bit belongs to the first special byte of `block`. Higher bits may be
/// wrong, because a special byte can cause a borrow in the subtractions.
#[inline]
fn specials(block: u64) -> u64 {
    const EACH: u64 = u64::MAX / 0xff;
    // This maps the quotation mark to 0x20, and the space from 0x20 to a larger value. Control
    // characters remain below 0x20.
    let quotes_lowered = block ^ (EACH * 0x02);
    let below = quotes_lowered.wrapping_sub(EACH * 0x21) & !quotes_lowered;
    let backslashes_zeroed = block ^ (EACH * b'\\' as u64);
    let zero = backslashes_zeroed.wrapping_sub(EACH) & !backslashes_zeroed;
    (below | zero) & (EACH * 0x80)
}

/// Returns the position after the closing quotation mark of the string that contains `at`. Returns
/// `None` if the string is truncated.
#[inline]
pub(super) fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = special(bytes, at);
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn string_ends_at_first_unescaped_quote() {
        for (text, end) in [
            (r#"""#, Some(1)),
            (r#"abc" "#, Some(4)),
            (r#"\"" "#, Some(3)),
            (r#"\\" ""#, Some(3)),
            (r#"0123456789\\\"0123456789" "#, Some(25)),
            ("a\tb\"", Some(4)),
            ("", None),
            (r#"abc\"#, None),
            (r#"abc\""#, None),
        ] {
            assert_eq!(string_end(text.as_bytes(), 0), end, "{text}");
        }
    }

    proptest! {
        #[test]
        fn special_byte_is_found_at_any_position(
            bytes in proptest::collection::vec(
                prop_oneof![20 => Just(b'a'), 1 => any::<u8>(), 1 => 0x1e..0x23_u8, 1 => Just(b'\\')],
                0..64,
            ),
            at in 0_usize..70,
        ) {
            let is_special = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20;
            let found = bytes.iter().skip(at).position(is_special);
            prop_assert_eq!(special(&bytes, at), found.map_or(bytes.len(), |length| at + length));
        }
    }
}
