//! The example with a bug in its reconciler. All other modules belong to the example.

use std::cell::Cell;

pub(crate) use kube_informer_examples::website::Website;

#[path = "../../../src/website/children.rs"]
mod children;
#[allow(unreachable_pub)]
#[path = "../../../src/website/directory.rs"]
mod directory;
#[allow(unreachable_pub)]
#[path = "../../../src/website/operator.rs"]
mod operator;
mod reconcile;
#[path = "../../../src/website/state.rs"]
mod state;

pub(crate) use operator::{OperatorOptions, operator};

const FIELD_MANAGER: &str = "website-operator";

/// A bug of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The Service has no owner reference, so it outlives its site.
    ForgottenOwnerReference,
    /// A task in the background adds the entry of a site, and may do so after the cleanup has removed it.
    WriteAfterCleanup,
    /// The first reconcile of a site creates the page, and fails if an earlier process has created it.
    NonIdempotentCreate,
    /// The reconciler does not try a name again after another user has removed its object.
    LostRequeue,
    /// The status is computed from the cached site, and written to the latest site.
    StaleStatus,
}

thread_local! {
    /// The bug of the operator on this thread. Each chaos test runs on a separate thread.
    pub(crate) static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}
