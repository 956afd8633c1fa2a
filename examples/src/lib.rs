//! Shared code of the examples: command line, connection, run time, the simulated workload, the
//! `website` operator, and the `Database` CRD with its webhooks.

pub mod cli;
pub mod cluster;
mod connection;
pub mod database;
pub mod duration;
pub mod multicluster;
pub mod website;
pub mod workload;
