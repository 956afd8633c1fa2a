//! The reflector: lists a resource, then watches it from the returned resourceVersion, and lists
//! again when that is the only way to stay true.
//!
//! It stands between [`kube_listwatch`], which it asks, and a [`Sink`] of
//! [`Delta`](kube_object::Delta)s, which it feeds. In an informer that sink is a DeltaFIFO; alone,
//! a reflector can feed any program, for example through a bounded `tokio::sync::mpsc` channel.
//!
//! What to do next is decided by a state machine without I/O, clock or randomness: [`step`].
//! [`Reflector`] is its driver: it takes an input, steps, and carries the outputs out. The states:
//!
//! | state | what is happening | left by |
//! |---|---|---|
//! | [`State::Idle`] | nothing yet | start |
//! | [`State::Listing`] | a page is being read | the last page, a failure, a deadline |
//! | [`State::Streaming`] | a streaming list is being read | its end, a failure, a deadline |
//! | [`State::Watching`] | a watch is open | its end, a failure, a deadline, a forced relist |
//! | [`State::Waiting`] | backing off; suspended while the resource does not exist | the backoff timer |
//!
//! # Invariants
//! - Deltas leave in the order of the server's history; the position never moves past an event
//!   that was not delivered.
//! - No path asks again without backing off, but for those that the protocol makes progress on:
//!   a watch that lived, a list that expired or was too new once. No server that answers at once
//!   can make a loop of them.
//! - Once a list was shown no older one follows, but for one that trusts no version: after an expired
//!   or too large a version, until it succeeds.
//! - Every request has a deadline. Nothing is given up: errors are reported and tried again.
//! - Objects never enter the state machine, and the reflector knows no handlers.
//!
//! The rules, with a table of all moves, are in `docs/reflector.md`.

mod backoff;
mod deadlines;
mod digest_only;
mod driver;
mod options;
mod phases;
mod position;
mod report;
mod sink;
mod state;
mod status;
mod step;

pub use deadlines::Deadline;
pub use driver::Reflector;
pub use options::{FirstList, ReflectorOptions};
pub use position::{ListPlan, Position};
pub use sink::{Sink, SinkClosed};
pub use state::{
    AfterBackoff, EventKind, Input, Listing, Marker, Output, State, Streaming, Waiting, WatchEnd, Watching,
};
pub use status::{Phase, ReflectorStatus, RelistCause, RestartCause};
pub use step::step;
