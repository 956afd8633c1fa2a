//! A real Kubernetes API server for tests: envtest's binaries, an existing cluster, or the
//! binary that `.ci/real-apiserver` builds.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use kube_informer_e2e::real::{Options, RealServer};
//! let Some(mut server) = RealServer::start_or_skip("restarts", 1, Options::default()).await? else {
//!     return Ok(());
//! };
//! let client = server.client().await?;
//! server.restart_apiserver().await?;
//! # drop(client);
//! # server.stop().await }
//! ```

mod controllers;
mod files;
mod part;
mod port;
mod programs;
mod server;
mod source;
mod talk;

pub use controllers::Controllers;
pub use port::ReservedPort;
pub use programs::kubectl_program;
pub use server::{Backup, Options, READY_DEADLINE, RealServer};
pub use source::{HOW_TO_GET_A_SERVER, Source, skip_or_fail};
