//! `Counts`: counts the elements of arrays before they are decoded. A `Vec` is then allocated once,
//! with exact capacity.
//!
//! When the deserializer reaches an array, one scan of the structure counts the array and its
//! nested arrays. Text without arrays is not scanned. The counts may be wrong after a syntax error.
//! They have no effect, because the deserializer rejects the text at this error.

use super::scan::string_end;

/// The maximum depth that is counted correctly. The deserializer rejects or skips deeper values.
const DEPTH: usize = 128;
/// The initial capacity. A typical object has at most this number of arrays.
const ARRAYS: usize = 32;
/// The slot of a bracket that is not an array.
const NONE: u32 = u32::MAX;

#[derive(Default)]
pub(super) struct Counts {
    /// The counts of the arrays before `counted_to`, in the order of their opening brackets.
    elements: Vec<u32>,
    /// The index in `elements` of the next array that the deserializer will reach.
    next: usize,
    /// The position up to which the text was scanned.
    counted_to: usize,
    /// The slot in `elements` and the current count of each open bracket. Empty between scans.
    open: Vec<(u32, u32)>,
}

impl Counts {
    /// Returns the number of elements of the array that starts at `at`.
    #[inline]
    pub(super) fn enter(&mut self, bytes: &[u8], at: usize) -> usize {
        if at >= self.counted_to {
            self.count(bytes, at);
        }
        let elements = self.elements.get(self.next).copied().unwrap_or_default();
        self.next += 1;
        elements as usize
    }

    /// Skips the count of the array that starts at `at`. The caller must skip nested arrays
    /// separately.
    #[inline]
    pub(super) fn skip(&mut self, at: usize) {
        if at < self.counted_to {
            self.next += 1;
        }
    }

    fn count(&mut self, bytes: &[u8], mut at: usize) {
        self.elements.clear();
        self.elements.reserve(ARRAYS);
        self.open.reserve(DEPTH);
        self.next = 0;
        let (mut slot, mut elements, mut too_deep) = (NONE, 0, 0_usize);
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'"' => at = string_end(bytes, at).unwrap_or(bytes.len()),
                b',' => elements += 1,
                b'[' | b'{' => {
                    if self.open.len() < DEPTH {
                        self.open.push((slot, elements));
                        (slot, elements) = (NONE, 0);
                    } else {
                        too_deep += 1;
                    }
                    if byte == b'[' {
                        slot = self.elements.len() as u32;
                        elements = u32::from(!closes(bytes, at));
                        self.elements.push(elements);
                    }
                }
                b']' | b'}' if too_deep > 0 => too_deep -= 1,
                b']' | b'}' => {
                    if let Some(count) = self.elements.get_mut(slot as usize) {
                        *count = elements;
                    }
                    (slot, elements) = self.open.pop().unwrap_or((NONE, 0));
                    if self.open.is_empty() {
                        break;
                    }
                }
                _ => {}
            }
        }
        self.open.clear();
        self.counted_to = at;
    }
}

/// Returns whether the array that starts before `at` is empty.
fn closes(bytes: &[u8], at: usize) -> bool {
    let mut rest = bytes.iter().skip(at);
    rest.find(|byte| !byte.is_ascii_whitespace()) == Some(&b']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Vec<usize> {
        let mut counts = Counts::default();
        let brackets = text.match_indices('[').map(|(at, _)| at);
        brackets.map(|at| counts.enter(text.as_bytes(), at)).collect()
    }

    #[test]
    fn arrays_are_counted_in_order_of_opening_brackets() {
        assert_eq!(counts("[]"), [0]);
        assert_eq!(counts("[ \n ]"), [0]);
        assert_eq!(counts("[[], [1], {}, {\"a\":[2,3]}]"), [4, 0, 1, 2]);
        assert_eq!(counts(r#"{"a":[1,2],"b":[{"c":",]"},"\",",[[3]]]}"#), [2, 3, 1, 1]);
    }

    #[test]
    fn skipped_array_does_not_shift_later_counts() {
        let text = "[[1,2],[3],[4,5,6]]";
        let mut counts = Counts::default();
        assert_eq!(counts.enter(text.as_bytes(), 0), 3);
        counts.skip(1);
        assert_eq!(counts.enter(text.as_bytes(), 7), 1);
    }

    #[test]
    fn malformed_json_is_counted_without_panic() {
        for text in ["[", "[[", "[}", "[\"", "[1,", "[1,[", "]]"] {
            counts(text);
        }
        counts(&"[".repeat(10_000));
    }
}
