//! Shared code of the examples: command line, connection, run time, the simulated workload, and the
//! `website` operator.

pub mod cli;
pub mod cluster;
mod connection;
pub mod duration;
pub mod website;
pub mod workload;
