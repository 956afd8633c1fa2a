//! Several API servers over the same storage, with watch caches of different staleness and a shared address.

mod balance;
mod cache;
mod replica;

pub(crate) use balance::Backend;
pub use balance::{LoadBalancing, Replicas};
pub(crate) use cache::Cache;
pub use replica::Replica;
