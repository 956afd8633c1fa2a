//! Limits the depth of nested arrays and objects, and checks that they are read completely.
//!
//! The structs of Kubernetes have a size of several kilobytes, so the result of a visitor must be
//! returned directly, without a copy. [`Nested`] therefore consumes the closing bracket when it is
//! dropped, without access to the result.

use super::{deserializer::Deserializer, error::Fault};

/// The maximum depth of decoded arrays and objects. Skipped values may be deeper.
pub(super) const DEPTH: u8 = 127;

/// Guards an array or object after its opening bracket. Consumes the closing bracket when it is
/// dropped.
pub(super) struct Nested<'a, 'de> {
    pub(super) deserializer: &'a mut Deserializer<'de>,
    close: u8,
}

impl<'de> Deserializer<'de> {
    /// Consumes the next byte, an opening bracket. `close` is its closing bracket.
    #[inline]
    pub(super) fn nested(&mut self, close: u8) -> Result<Nested<'_, 'de>, Fault> {
        self.depth = self.depth.checked_sub(1).ok_or(Fault::Syntax)?;
        self.at += 1;
        Ok(Nested { deserializer: self, close })
    }
}

impl Drop for Nested<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        self.deserializer.depth += 1;
        if self.deserializer.byte() == Some(self.close) {
            self.deserializer.at += 1;
        } else {
            self.close_after_space();
        }
    }
}

impl Nested<'_, '_> {
    /// Consumes whitespace and the closing bracket. If elements remain, the visitor failed or
    /// stopped early. Decoding cannot continue, so the text is truncated at this position.
    #[cold]
    fn close_after_space(&mut self) {
        match self.deserializer.token() {
            Some(found) if found == self.close => self.deserializer.at += 1,
            Some(_) => self.deserializer.truncate(Fault::Syntax),
            None => self.deserializer.truncate(Fault::Truncated),
        }
    }
}
