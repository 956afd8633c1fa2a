//! Messages whose JSON is not an object of their fields: times, quantities, numbers or texts, documents.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::Value;

use super::wire::{Cursor, LENGTH, Malformed, VARINT, text};
use crate::schemas::types::quantity;

/// The numbers and texts of a small message, indexed by field number.
struct Small<'a> {
    numbers: [i64; 3],
    bytes: [Option<&'a [u8]>; 4],
}

/// Reads the numbers and texts of a message, which are in separate `pieces`.
fn small<'a>(pieces: &[&'a [u8]]) -> Result<Small<'a>, Malformed> {
    let mut small = Small { numbers: [0; 3], bytes: [None; 4] };
    for piece in pieces {
        let mut cursor = Cursor::new(piece);
        while let Some(tag) = cursor.tag()? {
            let place = tag.number as usize;
            match (tag.wire, small.numbers.get_mut(place), small.bytes.get_mut(place)) {
                (VARINT, Some(number), _) => *number = cursor.varint()?.cast_signed(),
                (LENGTH, _, Some(bytes)) => *bytes = Some(cursor.bytes()?),
                _ => cursor.skip(tag.wire)?,
            }
        }
    }
    Ok(small)
}

pub(super) fn time(pieces: &[&[u8]]) -> Result<Value, Malformed> {
    timestamp(pieces, |_| 0, 0)
}

pub(super) fn micro_time(pieces: &[&[u8]]) -> Result<Value, Malformed> {
    const NANOS: i32 = 1_000;
    timestamp(pieces, |nanos| nanos / NANOS * NANOS, 6)
}

/// Decodes seconds and nanoseconds since 1970. An empty message and the first second of the year 1 are
/// null.
fn timestamp(pieces: &[&[u8]], keep: fn(i32) -> i32, digits: u8) -> Result<Value, Malformed> {
    // The real server accepts such times, but cannot convert them to JSON.
    const BEYOND: Malformed = Malformed::Text("a time in the message is beyond the year 9999");
    const ZERO: i64 = -62_135_596_800;
    const YEAR_0: i64 = -62_167_219_200;
    const YEAR_10000: i64 = 253_402_300_800;
    // A second occurrence replaces the first.
    let Some(last) = pieces.last().filter(|last| !last.is_empty()) else { return Ok(Value::Null) };
    let [_, seconds, nanos] = small(&[last])?.numbers;
    // Go also truncates the number to 32 bits.
    let nanos = keep(nanos as i32);
    if (seconds, nanos) == (ZERO, 0) {
        return Ok(Value::Null);
    }
    if !(YEAR_0..YEAR_10000).contains(&seconds) {
        return Err(BEYOND);
    }
    let nanoseconds = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let time = Timestamp::from_nanosecond(nanoseconds).map_err(|_| BEYOND)?;
    Ok(DateTimePrinter::new().precision(Some(digits)).timestamp_to_string(&time).into())
}

/// Decodes a quantity such as `100m`. It is normalized later, when the object is read.
pub(super) fn quantity(pieces: &[&[u8]]) -> Result<Value, Malformed> {
    let small = small(pieces)?;
    let Some(written) = small.bytes[1] else { return Ok("0".into()) };
    let written = text(written);
    quantity::canonical(&written)?;
    Ok(written.into())
}

pub(super) fn int_or_string(pieces: &[&[u8]]) -> Result<Value, Malformed> {
    let small = small(pieces)?;
    let [_, kind, number] = small.numbers;
    match kind {
        0 => Ok((number as i32).into()),
        1 => Ok(text(small.bytes[3].unwrap_or_default()).into()),
        _ => Err(Malformed::Text("impossible IntOrString.Type")),
    }
}

pub(super) fn document(pieces: &[&[u8]]) -> Result<Value, Malformed> {
    let small = small(pieces)?;
    match small.bytes[1] {
        None | Some([]) => Ok(Value::Null),
        Some(json) => {
            serde_json::from_slice(json).map_err(|_| Malformed::Text("a document in the message is not JSON"))
        }
    }
}
