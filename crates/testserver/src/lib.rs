//! A Kubernetes API server in memory, for tests, examples and programs without a cluster.
//!
//! Programs that list, watch and write can't tell it from kube-apiserver 1.36 within its scope: LIST with all its
//! versions, pages and selectors; WATCH with replay, bookmarks, expiry and streaming lists; writes with conflicts,
//! `/status`, generations and finalizers; the usual built-in kinds, and CRDs as soon as they are created; and the
//! exact failures. It does not validate or default specs (a few fields that selectors need aside), knows users by
//! their tokens only, and runs no controllers: only namespaces and CRDs that are deleted are emptied by the server itself.
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
//! What goes wrong on purpose is said by [`Faults`]; what was asked is in the [`Journal`].

mod binding;
mod body;
mod builtin;
mod clock;
mod crd;
mod decode;
mod defaults;
mod delete;
mod discovery;
mod entry;
mod faults;
mod handle;
mod journal;
mod list;
mod listen;
mod names;
mod namespaces;
mod open;
mod patch;
mod query;
mod resources;
mod route;
mod selector;
mod server;
mod service;
mod snapshot;
mod state;
mod status;
mod storage;
mod token;
mod users;
mod view;
mod watch;
mod workload;
mod write;

pub use body::{Body, Broken};
pub use clock::Clock;
pub use faults::{Cut, Fault, FaultGuard, Faults, Match};
pub use journal::{About, JOURNAL_CAPACITY, Journal, Outcome, Request, Verb};
pub use listen::Listening;
pub use server::{Server, ServerBuilder};
pub use service::ApiService;
pub use status::Status;
pub use users::Rights;
pub use workload::{Workload, WorkloadHandle};
