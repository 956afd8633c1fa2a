//! Runs a Kubernetes API server in memory, for tests, examples and programs without a cluster.
//!
//! The server behaves like kube-apiserver 1.36, except for the differences in the reference of the
//! book. It supports:
//!
//! - LIST with all values of resourceVersion, pages and selectors.
//! - WATCH with replay of past events, bookmarks, expiry and streaming lists.
//! - Writes with conflicts, `/status`, `metadata.generation` and finalizers.
//! - The usual built-in kinds, and the kinds of CRDs as soon as a CRD is created.
//! - Tables for kubectl, with the columns of kube-apiserver and the printer columns of CRDs.
//! - Admission webhooks and conversion webhooks, over HTTPS or in the process of the test.
//! - The error responses of kube-apiserver: equal codes, reasons and fields, and for most errors also
//!   equal messages.
//!
//! The server validates, defaults and prunes custom resources by their schemas. It validates the usual
//! built-in kinds, unless [`ServerBuilder::validation`] is `false`. Requests are authorized by the rules
//! of [`Access`], and by RBAC objects if [`ServerBuilder::rbac`] is set.
//!
//! The server runs no controllers, so a Deployment creates no Pods. It only deletes the content of
//! namespaces and CRDs that are being deleted. [`ServerBuilder::garbage_collector`] and
//! [`Server::kubelet`] start the two controllers that it contains.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube_testserver::Server;
//! use serde_json::json;
//!
//! let server = Server::new();
//! server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})).unwrap();
//! assert_eq!(server.list::<ConfigMap>(None).unwrap().len(), 1);
//! // No socket is needed: kube_client::Client::new(server.service(), "default")
//! let service = server.service();
//! # drop(service);
//! ```
//!
//! # Invariants
//!
//! - All resources share one revision. If a write changes an object, the revision increases by one.
//! - The current objects with all events after a revision undone are exactly the objects at this
//!   revision.
//! - The bytes of an object are written once, and all lists and watches share them. A watch does not
//!   have a separate queue of events.
//! - A lock is never held across an await. After a [`Listening`] is dropped, none of its tasks remains.
//!
//! # Memory
//!
//! - The history of each resource contains at most [`ServerBuilder::history`] events, and the events
//!   that a [`Lag`] requires. The limit is a number of events, not of bytes. The server also keeps the
//!   history of the 64 CRDs that were deleted last, because [`Server::restore`] can restore them. For
//!   CRDs that were deleted earlier, it keeps only their names.
//! - Each watch holds at most 256 frames, and at most 1,024 commands and 1,024 event faults of a test.
//!   The initial state of a watch or a list refers to stored objects. If the client reads slowly, these
//!   objects stay in memory.
//! - The [`Journal`] holds 16,384 requests, and a [`RunningPlan`] holds 16,384 incidents.
//!   [`Access::usage`] reads at most 16,384 records. Faults, users and rules stay in memory until they
//!   are removed. A paged list needs no memory between two pages, because the client holds the continue
//!   token.
//!
//! [`Faults`] injects failures. The [`Journal`] records the requests.

mod access;
#[cfg(feature = "chaos")]
mod chaos;
mod clock;
mod control;
mod encoding;
mod faults;
mod gc;
mod http;
mod journal;
mod protobuf;
mod read;
mod schemas;
mod server;
mod shutdown;
mod state;
mod status;
mod storage;
mod webhook;
mod wire;
mod write;

pub use access::attributes::{Attributes, ResourceAttributes};
pub use access::control::{Access, RuleId};
pub use access::rule::Rule;
pub use access::usage::{RoleRight, Usage};
pub use access::users::Rights;
#[cfg(feature = "chaos")]
pub use chaos::{Chaos, ChaosCause, ChaosFailure, ChaosReport, ChaosService, Hazard, chaos};
pub use clock::Clock;
pub use encoding::body::{Body, BodyError};
pub use faults::{
    CutAfter, Disruption, Fault, FaultGuard, FaultPlan, Faults, Incident, Outage, StreamingLists,
};
pub use http::backend::LoadBalancing;
pub use http::kubeconfig::write_kubeconfig;
pub use http::listen::Listening;
pub use http::service::ApiService;
pub use http::service_error::ServiceError;
pub use journal::{
    FaultKind, JOURNAL_CAPACITY, Journal, JournalMark, Outcome, Request, RequestInfo, RequestMatch, Verb,
    WatchEnd, WatchPhase,
};
pub use server::Server;
pub use server::builder::ServerBuilder;
pub use server::faults::Corruption;
pub use server::kubelet::{Kubelet, KubeletBuilder};
pub use server::load::LoadError;
pub use server::outage::OutageGuard;
pub use server::plan::RunningPlan;
pub use server::replica::Replica;
pub use server::replicas::Replicas;
pub use server::snapshot::{Snapshot, SnapshotDiff};
#[cfg(feature = "kube")]
pub use server::until::UntilError;
pub use status::Status;
pub use storage::watch_cache::Lag;
pub use write::unsupported::{UnsupportedFeature, unsupported_features};
