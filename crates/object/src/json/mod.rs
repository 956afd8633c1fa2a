//! JSON of API servers: what is in an object without decoding it, and the object itself.
//!
//! [`Outline`] is one light walk over the bytes: who the object is, of which kind, and what need not be decoded at all.
//! [`Envelope`] is the same over a watch event.
//! [`from_slice`] is serde's way from bytes to a type. It accepts what serde_json accepts and makes the same values of
//! it, and differs in three things: its errors quote nothing, sequences know their length before they are read, so that
//! a `Vec` of up to 1 MiB is allocated once and exactly (serde trusts no length beyond that), and floats are correctly rounded, and an `f32` that is too large is refused,
//! whatever features serde_json is built with.
//! What is not UTF-8 is refused as a whole.
//!
//! Bytes are looked at in `scan`, `count`, `walk`, `managed`, `plain` and `repeat`, which judge nothing. `deserializer` and
//! `nesting` keep the place in a text; `string`, `bytes`, `number` and `skip` take one value there; `serde_impl`,
//! `access`, `key` and `variant` are what serde sees.

mod access;
mod brackets;
mod bytes;
mod count;
mod deserializer;
mod end;
mod envelope;
mod error;
mod key;
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

/// The value whose JSON these bytes are.
///
/// ```
/// let ports: Vec<u16> = kube_object::from_slice(b"[80, 443, 8080]")?;
/// assert_eq!((ports.len(), ports.capacity()), (3, 3));
/// # Ok::<(), kube_object::JsonError>(())
/// ```
///
/// # Errors
/// They are not JSON in UTF-8, there is more than one value, or it has another shape than `T`.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => from_str(text),
        Err(error) => Err(JsonError::Syntax { position: error.valid_up_to() }),
    }
}

/// The same of a text, which the value may borrow from.
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
