//! API servers beside each other: watch caches of different staleness over the same storage, and the address in front
//! of them.

mod balance;
mod cache;
mod replica;

pub(crate) use balance::Front;
pub use balance::{Replicas, Turn};
pub(crate) use cache::Cache;
pub use replica::Replica;
