//! Runs a Kubernetes API server in memory, for tests, examples and programs without a cluster.
//!
//! Within its scope, clients that list, watch and write cannot distinguish it from kube-apiserver 1.36:
//!
//! - LIST with all resourceVersion modes, pages and selectors.
//! - WATCH with replay, bookmarks, expiry and streaming lists.
//! - Writes with conflicts, `/status`, generations and finalizers.
//! - The usual built-in kinds, and CRDs as soon as they are created.
//! - The exact error responses.
//!
//! Custom resources are validated, defaulted and pruned by their schemas. Specs of built-in kinds are not
//! validated, and few of their fields are defaulted. Authorization uses the server's own rules
//! ([`Access`]), not RBAC objects. The server runs no controllers; it only deletes the content of
//! namespaces and CRDs that are being deleted.
//!
//! ```
//! use kube_testserver::Server;
//! use serde_json::json;
//!
//! let server = Server::new();
//! server.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})).unwrap();
//! assert_eq!(server.count("v1", "ConfigMap", None).unwrap(), 1);
//! // No socket is needed: kube_client::Client::new(server.service(), "default")
//! let service = server.service();
//! # drop(service);
//! ```
//!
//! # Invariants
//!
//! - All resources share one revision. A write raises the revision by one if it changes an object.
//! - The log and the objects agree: the objects at a revision are the current objects with all later events
//!   undone.
//! - The bytes of an object are written once and shared by all lists and watches. No watch has its own
//!   queue.
//! - No lock is held across an await, and no task remains after a [`Listening`] is dropped.
//!
//! # Memory
//!
//! - Each resource keeps as much history as [`ServerBuilder::history`] sets and a [`Lag`] needs. The bound
//!   is a number of events, not of bytes. A deleted CRD keeps its history until compaction, because a
//!   restore may bring it back.
//! - Each watch holds at most 256 frames and 1,024 commands of a test. The initial state of a watch or a
//!   list holds references to stored objects, and a slow reader keeps those objects in memory.
//! - The [`Journal`] holds 16,384 requests, and a [`RunningPlan`] holds 16,384 incidents. Faults, users and
//!   rules stay in memory until they are removed. Clients hold the tokens of paged lists.
//!
//! [`Faults`] injects failures. The [`Journal`] records the requests.

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
    Corruption, CutAfter, Disruption, Fault, FaultGuard, FaultKind, FaultPlan, Faults, Incident, Outage,
    OutageGuard, RequestMatch, RunningPlan, StreamingLists,
};
pub use http::body::{Body, BodyError};
pub use http::listen::Listening;
pub use http::service::ApiService;
pub use http::service_error::ServiceError;
pub use journal::{
    JOURNAL_CAPACITY, Journal, JournalMark, Outcome, Request, RequestInfo, Verb, WatchEnd, WatchPhase,
};
pub use replicas::{LoadBalancing, Replica, Replicas};
pub use server::Server;
pub use status::Status;
pub use storage::watch_cache::Lag;
pub use workload::{Workload, WorkloadHandle};
