//! The primitives of `queue`: a lock, notifications and a clock.
//!
//! In the unit tests of this crate, `interleavings` replaces them with versions that a scheduler
//! controls. Every other build uses the real primitives, with any features and flags.

#[cfg(test)]
pub(crate) use crate::interleavings::primitives::{Mutex, Notify, now, sleep_until};

#[cfg(not(test))]
mod real;
#[cfg(not(test))]
pub(crate) use real::{Mutex, Notify, now, sleep_until};
