//! What goes wrong on purpose.

pub(crate) mod rule;

pub use rule::{Cut, Fault, FaultGuard, Faults, Match};
