//! Nested arrays and objects: limits their depth, and checks that they are read completely.
//!
//! The structs of Kubernetes are kilobytes large. The value of a visitor is therefore returned
//! directly. [`Nested`] does the work after the visitor when it is dropped, without access to the
//! value.

use super::{deserializer::Deserializer, error::Fault};

/// The maximum depth of decoded arrays and objects. Skipped values may be deeper.
pub(super) const DEPTH: u8 = 127;

/// An array or object after its opening bracket. Consumes the closing bracket when it is dropped.
pub(super) struct Nested<'a, 'de> {
    pub(super) deserializer: &'a mut Deserializer<'de>,
    close: u8,
}

impl<'de> Deserializer<'de> {
    /// Consumes the next byte, the opening bracket that `close` ends.
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
    /// If elements are left, the visitor failed or stopped early. Decoding cannot continue, so the text
    /// is cut here.
    #[cold]
    fn close_after_space(&mut self) {
        match self.deserializer.token() {
            Some(found) if found == self.close => self.deserializer.at += 1,
            Some(_) => self.deserializer.cut_short(Fault::Syntax),
            None => self.deserializer.cut_short(Fault::Truncated),
        }
    }
}
