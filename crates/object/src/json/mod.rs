//! Reads the JSON of API servers: the identity of an object without decoding it, and the decoded
//! object.
//!
//! [`Outline`] scans the bytes of an object once. It finds the identity, the kind, the labels and
//! managedFields. [`Envelope`] does the same for a watch event.
//!
//! [`from_slice`] decodes a type with serde. It accepts the same JSON as serde_json and returns the
//! same values, with three differences:
//! - Errors do not contain values.
//! - `size_hint` of a sequence is exact. A `Vec` of up to 1 MiB is allocated once, with exact
//!   capacity. serde limits the initial capacity to this size.
//! - Floats are rounded correctly, and an `f32` that is too large is an error. In serde_json, both
//!   depend on its features.
//!
//! `scan`, `count`, `walk`, `managed`, `plain` and `repeat` scan bytes without validation.
//! `deserializer` and `nesting` hold the position in the text. `string`, `bytes`, `number` and
//! `skip` read one value at this position. `serde_impl`, `access`, `key` and `variant` implement
//! the traits of serde.

mod access;
mod brackets;
mod bytes;
mod count;
mod deserializer;
mod end;
mod envelope;
mod error;
mod key;
mod level;
mod loose;
mod managed;
mod nesting;
mod number;
mod outline;
mod plain;
mod repeat;
mod scan;
mod serde_impl;
mod skip;
mod string;
mod variant;
mod walk;

#[cfg(test)]
mod tests;

use serde::de::{Deserialize, DeserializeOwned};

use deserializer::Deserializer;

pub use end::ValueEnd;
pub use envelope::Envelope;
pub use error::JsonError;
pub(crate) use loose::Loose;
pub use outline::Outline;
pub(crate) use plain::is_plain_map;

/// Decodes a value from JSON. The capacity of a decoded `Vec` is exact up to a size of 1 MiB.
///
/// ```
/// let ports: Vec<u16> = kube_object::from_slice(b"[80, 443, 8080]")?;
/// assert_eq!((ports.len(), ports.capacity()), (3, 3));
/// # Ok::<(), kube_object::JsonError>(())
/// ```
///
/// # Errors
/// Returns an error if the bytes are not JSON in UTF-8, contain more than one value, or do not
/// match `T`.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => from_str(text),
        Err(error) => Err(JsonError::Syntax { position: error.valid_up_to() }),
    }
}

/// Decodes a value that may borrow from the text.
pub(crate) fn from_str<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, JsonError> {
    let mut deserializer = Deserializer::new(text);
    let mut value = T::deserialize(&mut deserializer);
    if value.is_ok()
        && let Err(fault) = deserializer.end()
    {
        value = Err(fault);
    }
    value.map_err(|fault| deserializer.error(fault))
}
