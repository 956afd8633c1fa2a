//! What a Kubernetes API server promises its watchers, as checks that run unchanged against any server.
//!
//! Each check stands under the sentence that it checks. A [`Target`] says how to reach the server; the one thing that
//! servers do by different means, forgetting history, has happened before the checks start (see [`Past`]). No check
//! knows which server it talks to: where two servers differ, one of them fails.
//!
//! Checks don't share objects. Each has a namespace named after it, so they run side by side.

#[macro_use]
mod check_macro;

mod access;
mod apply;
mod bodies;
mod bookmarks;
mod builtin_bodies;
mod builtin_values;
mod config;
mod crds;
mod creation;
mod custom;
mod custom_scale;
mod definitions;
mod delete_options;
mod deletes;
mod discovery;
mod dry_run;
mod events;
mod evictions;
mod expiry;
mod forms;
mod labels;
mod list;
mod metadata;
mod metadata_only;
mod ownership;
mod paging;
mod patches;
mod paths;
mod place;
mod protobuf;
mod queries;
mod raw;
mod refusals;
mod report;
mod scale;
mod schemas;
mod selector_edges;
mod selectors;
mod shards;
mod strategic;
mod streaming_list;
mod subresources;
mod suite;
mod target;
mod topics;
mod values;
mod variant;
mod watch;
mod writes;

pub use suite::{Check, DEADLINE, checks, failing, run};
pub use target::{Clients, Past, Target};
pub use variant::Variant;
