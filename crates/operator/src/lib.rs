//! Operators.
#![allow(dead_code)]
mod election;
mod leadership;
mod lease;
pub use election::{Election, ElectionOptions};
pub use leadership::{Leadership, NotLeading};
pub use lease::{LeaseTimes, LeaseTimesError};
