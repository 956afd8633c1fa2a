//! Lists a resource, then watches it from the returned resourceVersion. Relists if the watch cannot
//! continue.
//!
//! A [`Reflector`] sends requests through [`kube_listwatch`] and pushes [`Delta`](kube_object::Delta)s
//! into a [`Sink`]. In an informer, the sink is a DeltaFIFO. Without an informer, the sink can be a
//! bounded `tokio::sync::mpsc` channel:
//!
//! ```no_run
//! # async fn example(client: kube_client::Client) {
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_client::Api;
//! use kube_listwatch::ListWatch;
//! use kube_reflector::Reflector;
//!
//! let (sender, mut deltas) = tokio::sync::mpsc::channel(16);
//! tokio::spawn(Reflector::new(ListWatch::<Pod>::new(Api::all(client)), sender).run());
//! while let Some(deltas) = deltas.recv().await {
//!     println!("{deltas:?}");
//! }
//! # }
//! ```
//!
//! The function [`step`] decides on the next request. It is a state machine without I/O, clock or
//! randomness. [`Reflector`] passes inputs to it and executes the outputs. The states:
//!
//! | State | Meaning | Transitions |
//! |---|---|---|
//! | [`State::Idle`] | The reflector is not started. | start |
//! | [`State::Listing`] | A page of a list is open. | last page, failure, deadline |
//! | [`State::Streaming`] | A streaming list is open. | end of the list, failure, deadline |
//! | [`State::Watching`] | A watch is open. | end of the watch, failure, deadline, requested relist |
//! | [`State::Waiting`] | The reflector backs off, or is suspended because the resource does not exist. | backoff timer |
//!
//! # Invariants
//! - Deltas are pushed in the order of the server's history. The position never passes an event that was
//!   not delivered.
//! - A retry waits for the backoff. A request is sent without a backoff only after a watch that lasted,
//!   or once after a list failed because of its version, pages or transport. A server that responds
//!   immediately cannot cause a loop.
//! - A list is never older than the lists before it, except in a new epoch. An expired or too large
//!   version starts a new epoch. Until a list succeeds, cached versions are not compared.
//! - Each request has a deadline. Each failure is reported and retried, indefinitely.
//! - Objects never enter the state machine. The reflector does not depend on handlers.
//!
//! `docs/reflector.md` contains the rules and a table of all transitions.

mod backoff;
mod deadlines;
mod digest_only;
mod driver;
mod nameless;
mod options;
mod phases;
mod plan;
mod position;
mod report;
mod server_versions;
mod sink;
mod state;
mod status;
mod step;
mod unreadable;

pub use deadlines::Deadline;
pub use driver::Reflector;
pub use nameless::separate_nameless;
pub use options::{FirstList, ReflectorOptions};
pub use plan::{ListPlan, ServerLimits};
pub use position::Position;
pub use server_versions::ServerVersions;
pub use sink::{Sink, SinkClosed};
pub use state::{
    AfterBackoff, EventKind, Input, Listing, Marker, Output, State, Streaming, Waiting, WatchEnd, Watching,
};
pub use status::{Phase, ReflectorStatus, RelistCause, RestartCause};
pub use step::step;
