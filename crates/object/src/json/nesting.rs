//! What brackets enclose: how deep it may go, and that it is read to its end.
//!
//! The structs of Kubernetes are kilobytes large. So a visitor's value goes straight to who asked for it, and what has
//! to be done after the visitor is done by [`Nested`] when it is dropped, without a look at the value.

use super::{deserializer::Deserializer, error::Fault};

/// So deep may arrays and objects be nested that become a value; what is skipped may be deeper.
pub(super) const DEPTH: u8 = 127;

/// An array or an object whose opening bracket has been taken. Dropped, it takes the other one.
pub(super) struct Nested<'a, 'de> {
    pub(super) deserializer: &'a mut Deserializer<'de>,
    close: u8,
}

impl<'de> Deserializer<'de> {
    /// Takes the next byte, which opens what `close` ends.
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
    /// Where something else is left, because the visitor has failed or because it wants no more, there is nothing to
    /// go on with: the text ends here.
    #[cold]
    fn close_after_space(&mut self) {
        match self.deserializer.token() {
            Some(found) if found == self.close => self.deserializer.at += 1,
            Some(_) => self.deserializer.cut_short(Fault::Syntax),
            None => self.deserializer.cut_short(Fault::Truncated),
        }
    }
}
