//! A Kubernetes API server in memory, for tests, examples and programs without a cluster.
//!
//! Programs that list, watch and write can't tell it from kube-apiserver 1.36 within its scope: LIST with all its
//! versions, pages and selectors; WATCH with replay, bookmarks, expiry and streaming lists; writes with conflicts,
//! `/status`, generations and finalizers; the usual built-in kinds, and CRDs as soon as they are created; and the
//! exact failures. Custom resources are validated, defaulted and pruned by their schemas; specs of built-in kinds are
//! not validated, and get few defaults. It knows rights from its own rules only ([`Access`]), and runs no controllers:
//! only namespaces and CRDs that are deleted are emptied by the server itself.
//!
//! ```
//! use kube_testserver::Server;
//! use serde_json::json;
//!
//! let server = Server::new();
//! server.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})).unwrap();
//! assert_eq!(server.count("v1", "ConfigMap", None).unwrap(), 1);
//! // No socket needed: kube_client::Client::new(server.service(), "default")
//! let service = server.service();
//! # drop(service);
//! ```
//!
//! # Invariants
//!
//! - One revision for all resources; each write that changes something raises it by one, and nothing else does.
//! - The log and the objects agree: the objects at any revision are those of today with the later events undone.
//! - An object's bytes are written once and shared by all lists and watches; no watch has a queue of its own.
//! - No lock is held while anything waits, and no task is left when a [`Listening`] is gone.
//!
//! # What is kept
//!
//! - Of each resource as much history as [`ServerBuilder::history`] says, and what a [`Lag`] needs; it is bounded in events,
//!   not in bytes. A kind whose CRD is gone keeps its history, too, for a restore may bring it back; compaction drops it.
//! - Of each watch at most 256 frames, and 1,024 commands of a test; the initial state of a watch or a list is references to
//!   what is stored, so that a reader who stands still keeps the states of then in memory.
//! - 16,384 requests in the [`Journal`], 16,384 incidents in a [`RunningPlan`], and the faults, users and rules that were
//!   asked for, as long as they are. Tokens of paged lists are kept by their clients alone.
//!
//! What goes wrong on purpose is said by [`Faults`]; what was asked is in the [`Journal`].

mod access;
mod apply;
mod builder;
mod clock;
mod crd;
mod faults;
mod gc;
mod http;
mod journal;
mod kinds;
mod protobuf;
mod read;
mod replicas;
mod server;
mod state;
mod status;
mod storage;
mod types;
mod verbs;
mod workload;
mod write;

pub use access::control::{Access, RuleId};
pub use access::rule::Rule;
pub use access::users::Rights;
pub use builder::ServerBuilder;
pub use clock::Clock;
pub use faults::{
    Corruption, Cut, Disruption, Fault, FaultGuard, FaultKind, Faults, Incident, Match, Outage, OutageGuard,
    Plan, RunningPlan, StreamingLists,
};
pub use http::body::{Body, Broken};
pub use http::listen::Listening;
pub use http::service::ApiService;
pub use journal::{About, JOURNAL_CAPACITY, Journal, Mark, Outcome, Request, Struck, Verb, WatchEnd};
pub use replicas::{Replica, Replicas, Turn};
pub use server::Server;
pub use status::Status;
pub use storage::watch_cache::Lag;
pub use workload::{Workload, WorkloadHandle};
