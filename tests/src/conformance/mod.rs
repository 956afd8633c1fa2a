//! What a Kubernetes API server promises its watchers, as checks that run unchanged against any server.
//!
//! Each check stands under the sentence that it checks. A [`Target`] says how to reach the server; the one thing that
//! servers do by different means, forgetting history, has happened before the checks start (see [`Past`]). No check
//! knows which server it talks to: where two servers differ, one of them fails.
//!
//! Checks don't share objects. Each has a namespace named after it, so they run side by side.

/// The checks of one topic: sentences, and below each the functions that check it. A sentence that not every variant of
/// a server keeps names the method of `Variant` that says which do.
macro_rules! checks {
    ($($sentence:literal $(if $on:ident)?: $($check:ident),+;)+) => {
        pub(super) const CHECKS: &[&[$crate::conformance::Check]] = &[$({
            // Of one or two predicates the first counts.
            const ON: fn($crate::conformance::Variant) -> bool =
                [$($crate::conformance::Variant::$on as fn(_) -> _,)? $crate::conformance::Variant::any][0];
            &[$($crate::conformance::Check {
            sentence: $sentence,
            on: ON,
            name: stringify!($check),
            run: |place| Box::pin($check(place)),
        }),+]
        }),+];
    };
}

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
mod values;
mod variant;
mod watch;
mod writes;

pub use suite::{Check, DEADLINE, checks, failing, run};
pub use target::{Clients, Past, Target};
pub use variant::Variant;

/// Every topic, in reading order.
const TOPICS: &[&[&[Check]]] = &[
    list::CHECKS,
    paging::CHECKS,
    watch::CHECKS,
    bookmarks::CHECKS,
    streaming_list::CHECKS,
    expiry::CHECKS,
    selectors::CHECKS,
    selector_edges::CHECKS,
    metadata_only::CHECKS,
    labels::CHECKS,
    writes::CHECKS,
    builtin_bodies::CHECKS,
    builtin_values::CHECKS,
    config::CHECKS,
    protobuf::CHECKS,
    creation::CHECKS,
    patches::CHECKS,
    metadata::CHECKS,
    strategic::CHECKS,
    ownership::CHECKS,
    apply::CHECKS,
    subresources::CHECKS,
    deletes::CHECKS,
    delete_options::CHECKS,
    dry_run::CHECKS,
    scale::CHECKS,
    custom_scale::CHECKS,
    evictions::CHECKS,
    events::CHECKS,
    refusals::CHECKS,
    queries::CHECKS,
    paths::CHECKS,
    bodies::CHECKS,
    access::CHECKS,
    discovery::CHECKS,
    forms::CHECKS,
    shards::CHECKS,
    crds::CHECKS,
    definitions::CHECKS,
    schemas::CHECKS,
];
