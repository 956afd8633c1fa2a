//! `Brackets`: finds a closing bracket in blocks of 64 bytes.
//!
//! Vector instructions convert each block to masks with one bit per byte. Arithmetic on the masks finds the
//! bytes inside strings. If a block closes fewer brackets than are open, its brackets are only counted.
//! This is true for most blocks.

use fearless_simd::{Level, Simd, dispatch, prelude::*, u8x64};

use super::level::LEVEL;

const BLOCK: usize = 64;

/// The open brackets and strings after the scanned bytes.
#[derive(Debug, Default)]
pub(super) struct Brackets {
    depth: u32,
    in_string: bool,
    /// Whether the previous byte was an escaping backslash.
    is_escaped: bool,
}

impl Brackets {
    /// Returns whether no bracket is open.
    pub(super) fn is_empty(&self) -> bool {
        self.depth == 0
    }

    /// Returns the length of the value, up to and including its closing bracket. Returns `None` if
    /// these bytes do not contain the closing bracket. The first byte of a value must be an opening
    /// bracket.
    pub(super) fn close(&mut self, bytes: &[u8]) -> Option<usize> {
        self.close_at(*LEVEL, bytes)
    }

    fn close_at(&mut self, level: Level, bytes: &[u8]) -> Option<usize> {
        dispatch!(level, simd => self.close_with(simd, bytes))
    }

    /// Is compiled once for each set of vector instructions. Inlining is required for this.
    #[inline(always)]
    fn close_with<S: Simd>(&mut self, simd: S, bytes: &[u8]) -> Option<usize> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for (before, block) in blocks.iter().enumerate() {
            if let Some(length) = self.block(&Masks::of(simd, block), BLOCK) {
                return Some(before * BLOCK + length);
            }
        }
        if rest.is_empty() {
            return None;
        }
        let mut block = [b' '; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        Some(blocks.len() * BLOCK + self.block(&Masks::of(simd, &block), rest.len())?)
    }

    /// Scans a block in which spaces follow the first `length` bytes.
    #[inline(always)]
    fn block(&mut self, masks: &Masks, length: usize) -> Option<usize> {
        let escaped = self.escaped(masks.backslashes, length);
        let outside = !self.within_strings(masks.quotes & !escaped);
        let (opens, closes) = (masks.opens & outside, masks.closes & outside);
        if closes.count_ones() < self.depth {
            self.depth = self.depth + opens.count_ones() - closes.count_ones();
            return None;
        }
        let mut brackets = opens | closes;
        while brackets != 0 {
            let bracket = brackets & brackets.wrapping_neg();
            if opens & bracket != 0 {
                self.depth += 1;
            } else {
                self.depth = self.depth.saturating_sub(1);
            }
            if self.depth == 0 {
                return Some(bracket.trailing_zeros() as usize + 1);
            }
            brackets ^= bracket;
        }
        None
    }

    /// Returns a mask of the bytes that follow an unescaped backslash.
    #[inline(always)]
    fn escaped(&mut self, backslashes: u64, length: usize) -> u64 {
        let mut escaped = u64::from(self.is_escaped);
        let mut remaining = backslashes & !escaped;
        while remaining != 0 {
            let at = remaining.trailing_zeros();
            escaped |= 1 << at << 1;
            remaining &= !(0b11 << at);
        }
        self.is_escaped = (backslashes & !escaped) >> (length - 1) & 1 == 1;
        escaped
    }

    /// Returns a mask of the bytes inside strings. The mask includes the opening quotation mark and
    /// excludes the closing quotation mark.
    #[inline(always)]
    fn within_strings(&mut self, quotes: u64) -> u64 {
        let mut within = quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            within ^= within << shift;
        }
        if self.in_string {
            within = !within;
        }
        self.in_string = within >> (BLOCK - 1) == 1;
        within
    }
}

/// Masks of the bytes in a block that determine its structure.
struct Masks {
    backslashes: u64,
    quotes: u64,
    opens: u64,
    closes: u64,
}

impl Masks {
    #[inline(always)]
    fn of<S: Simd>(simd: S, block: &[u8; BLOCK]) -> Self {
        let block = u8x64::from_slice(simd, block);
        let equal = |block: u8x64<S>, byte: u8| block.simd_eq(u8x64::splat(simd, byte)).to_bitmask();
        // Curly and square brackets differ only in this bit. No other character becomes equal to a
        // curly bracket.
        let curly = block | u8x64::splat(simd, 0x20);
        Self {
            backslashes: equal(block, b'\\'),
            quotes: equal(block, b'"'),
            opens: equal(curly, b'{'),
            closes: equal(curly, b'}'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::level::all_levels;
    use proptest::prelude::*;

    /// Finds the closing bracket byte by byte, as a model.
    fn closed(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut in_string, mut is_escaped) = (0, false, false);
        for (at, byte) in bytes.iter().enumerate() {
            match (byte, std::mem::take(&mut is_escaped)) {
                (b'\\', false) => is_escaped = true,
                (b'"', false) => in_string = !in_string,
                (b'{' | b'[', _) if !in_string => depth += 1,
                (b'}' | b']', _) if !in_string => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]
        #[test]
        fn closing_bracket_is_found_across_blocks(
            text in r#"[\[{]([ab]{0,40}|\\{1,4}|["\\\[\]{}]){0,60}"#,
            cut in 0usize..200,
        ) {
            let bytes = text.as_bytes();
            let expected = closed(bytes);
            let (one, other) = bytes.split_at(cut.clamp(1, bytes.len()));
            for level in all_levels() {
                prop_assert_eq!(Brackets::default().close_at(level, bytes), expected, "{:?}", level);
                let mut brackets = Brackets::default();
                let found = brackets.close_at(level, one);
                let found = found.or_else(|| Some(one.len() + brackets.close_at(level, other)?));
                prop_assert_eq!(found, expected, "{:?}", level);
            }
        }
    }
}
