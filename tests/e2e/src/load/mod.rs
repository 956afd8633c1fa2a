//! Ten thousand objects on a real server, their permanent changes, and their expected state.

pub mod cluster;
pub mod truth;
pub mod writer;
