//! What an informer costs: this project, kube-runtime and client-go over the same recorded bytes, side by side.
//!
//! [`record`] takes the bytes of realistic Pods from a kube-apiserver, a [`Replay`] serves them over HTTP to programs as
//! users of each library would write them ([`run_client`]).
//!
//! # Invariants
//!
//! - What is replayed is what the server has sent, byte for byte but for versions and one label; a recording that would
//!   be replayed otherwise fails.
//! - Nothing but loopback is used.

mod cli;
mod client;
mod history;
mod pods;
mod record;
mod recording;
mod replay;
mod wire;

pub use cli::{Command, run};
pub use client::{Latency, Order, Report, names, run as run_client};
pub use record::{RealServer, record};
pub use recording::{Manifest, Recording};
pub use replay::{Counts, Replay};
