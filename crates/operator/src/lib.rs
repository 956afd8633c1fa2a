//! Operators.
#![allow(dead_code)]
mod lease;
pub use lease::{LeaseTimes, LeaseTimesError};
