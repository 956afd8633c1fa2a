//! Checks the guarantees of a Kubernetes API server for its clients. The checks run unchanged against
//! any server.
//!
//! Each check belongs to a sentence. A [`Target`] describes how to reach the server. Servers compact
//! their history in different ways, so the caller compacts it before the checks start (see [`Past`]). A
//! check has no information about the server. If two servers behave differently, a check fails for one
//! server.
//!
//! Checks do not share objects. Each check uses a namespace with its name, so checks run in parallel.

#[macro_use]
mod check_macro;

mod access;
mod apply;
mod bodies;
mod bookmarks;
mod builtin_bodies;
mod builtin_values;
mod config;
mod conversion;
mod crds;
mod creation;
mod custom;
mod custom_scale;
mod definitions;
mod delete_options;
mod deletes;
mod differences;
mod discovery;
mod dry_run;
mod events;
mod evictions;
mod expiry;
mod forms;
mod impersonation;
mod labels;
mod list;
mod metadata;
mod metadata_only;
mod openapi;
mod ownership;
mod paging;
mod patches;
mod paths;
mod place;
mod pods;
mod protobuf;
mod queries;
mod raw;
mod rbac;
mod refusals;
mod report;
mod rules;
mod scale;
mod schemas;
mod selector_edges;
mod selectors;
mod shards;
mod strategic;
mod streaming_list;
mod subresources;
mod suite;
mod tables;
mod target;
mod topics;
pub mod validation;
mod values;
mod variant;
mod watch;
mod webhook_server;
mod webhooks;
mod writes;

pub use differences::Differences;
pub use suite::{Check, DEADLINE, checks, failing, run};
pub use target::{Clients, Past, Target};
pub use variant::Variant;
