//! Custom resources: their validation in writes, and the lifecycle of their CRDs.

pub(crate) mod admit;
#[cfg(test)]
mod races;
pub(crate) mod removal;
pub(crate) mod serve;
