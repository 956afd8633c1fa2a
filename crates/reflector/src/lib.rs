//! Lists a resource, then watches it from the resourceVersion of the list. Relists if the watch cannot
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
//! randomness. [`Reflector`] passes inputs to it and executes the outputs. These are the states:
//!
//! | State | Meaning | The state changes if |
//! |---|---|---|
//! | [`State::Idle`] | The reflector is not started. | the reflector starts |
//! | [`State::Listing`] | The reflector has requested a page of a list. | the last page is complete, the
//! request fails or a deadline expires |
//! | [`State::Streaming`] | A streaming list is open or requested. | the list is complete, the request fails
//! or a deadline expires |
//! | [`State::Watching`] | A watch is open or requested. | the watch closes or fails, a deadline expires or a
//! relist is requested |
//! | [`State::Waiting`] | The reflector backs off, or is suspended because the resource does not exist. | the
//! backoff timer fires |
//!
//! A reflector of some slots ([`Reflector::slots`]) has a second state machine, which handles changes of the
//! slots and lists added slots next to the watch.
//!
//! # Invariants
//! - Deltas are pushed in the order in which the server made the changes. The [`Position`] never moves
//!   past an event that was not delivered.
//! - The reflector waits for a backoff before it repeats a request. `docs/reflector.md` lists the
//!   exceptions, for example the next watch after a watch that was open for at least a second. At most
//!   two lists follow each other without a backoff. A server that responds immediately therefore cannot
//!   cause a loop of requests.
//! - Each list is at least as new as the previous list, with one exception. If the server rejects a
//!   resourceVersion as expired, too large or invalid, it may have lost its history. The next list can
//!   then be older. Until this list succeeds, the reflector does not assume that a cached object with
//!   an equal resourceVersion is unchanged.
//! - Each request has a deadline. The reflector reports each failure, and retries indefinitely.
//! - The state machine does not contain objects. The reflector does not depend on handlers.
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
mod slots;
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
