//! The same operators on kube-operator, controller-runtime and kube-rs. README.md specifies them.
//!
//! - `storage`: the client of the storage service, for the Bucket operators in Rust.
//! - `storage_server`: the storage service.
//! - `programs`: the programs of the operators, and their processes.
//! - `cluster`: an API server on a socket, for these processes.
//! - `lines`: the numbers of lines of the operators.

pub mod cluster;
pub mod lines;
pub mod programs;
pub mod storage;
pub mod storage_server;
