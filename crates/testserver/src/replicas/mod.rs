//! Several API servers over the same storage: watch caches of different staleness, and the address in front
//! of them.

mod balance;
mod cache;
mod replica;

pub(crate) use balance::Backend;
pub use balance::{LoadBalancing, Replicas};
pub(crate) use cache::Cache;
pub use replica::Replica;
