//! `shardSelector`: restricts a list or watch to objects whose uid or namespace hashes into certain
//! ranges.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::status::Status;
use crate::storage::entry::Essentials;

/// Selects objects by ranges of hashes. An object is in the shard if its hash is in one of the ranges.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShardSelector {
    /// The field whose value is hashed: `uid` or `namespace`.
    field: String,
    ranges: Vec<Range>,
}

/// A range that includes `start` and excludes `end`. `end` may be 2^64.
#[derive(Clone, Debug, PartialEq)]
struct Range {
    start: u128,
    end: u128,
}

/// `shardRange(FIELD, 'START', 'END')`. Such a range may be in parentheses.
static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let bound = r#"\s*['"]0x([0-9a-f]{16}|10{16})['"]\s*"#;
    Regex::new(&format!(r"^[\s(]*shardRange\(\s*object\.metadata\.(uid|namespace)\s*,{bound},{bound}[)\s]+$"))
        .ok()
});

impl ShardSelector {
    /// Parses `shardRange(FIELD, 'START', 'END')`, or several joined by `||`.
    ///
    /// # Errors
    /// Returns the error of the real server, which is not a BadRequest.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        read(text).map_err(|detail| Status::internal(format!("invalid shard selector: {detail}")))
    }

    pub(crate) fn matches(&self, object: &Essentials) -> bool {
        self.holds(match self.field.as_str() {
            "uid" => &object.uid,
            _ => object.namespace.as_deref().unwrap_or(""),
        })
    }

    /// Returns whether the hash of a uid or namespace is in one of the ranges.
    fn holds(&self, value: &str) -> bool {
        let hash = u128::from(fnv1a(value));
        self.ranges.iter().any(|range| (range.start..range.end).contains(&hash))
    }
}

/// Formats the selector in the canonical form that lists contain.
impl std::fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges = self.ranges.iter().map(|Range { start, end }| {
            format!("shardRange(object.metadata.{}, '0x{start:016x}', '0x{end:016x}')", self.field)
        });
        f.write_str(&ranges.collect::<Vec<_>>().join(" || "))
    }
}

/// Returns the 64-bit FNV-1a hash of a text. All servers and clients must use the same hash.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn read(text: &str) -> Result<ShardSelector, String> {
    let mut selector = ShardSelector { field: String::new(), ranges: Vec::new() };
    for part in text.split("||") {
        let found = RANGE.as_ref().and_then(|range| range.captures(part));
        let found = found.ok_or_else(|| {
            format!(
                "expected shardRange(FIELD, '0xSTART', '0xEND') with 16 hexadecimal digits and the field \
                 object.metadata.uid or object.metadata.namespace, got {part:?}"
            )
        })?;
        let (field, range) = range(&found)?;
        if !selector.ranges.is_empty() && selector.field != field {
            return Err("all shard ranges must use the same field".into());
        }
        selector.field = field;
        selector.ranges.push(range);
    }
    Ok(selector)
}

fn range(found: &Captures<'_>) -> Result<(String, Range), String> {
    let (_, [field, start, end]) = found.extract();
    let number = |digits| u128::from_str_radix(digits, 16).map_err(|error| error.to_string());
    let range = Range { start: number(start)?, end: number(end)? };
    if range.start >= range.end {
        return Err(format!("the start 0x{start} of a shard range must be less than its end 0x{end}"));
    }
    Ok((field.to_owned(), range))
}

#[cfg(test)]
mod tests;
