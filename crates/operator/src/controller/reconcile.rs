//! `Reconciler`: what a controller does about one object.

use std::{fmt, sync::Arc};

use kube_informer::{Cached, ObjectKey};

use super::{
    action::{Action, Failure},
    reason::Reasons,
};

/// One run is asked for. Its `Debug` shows nothing of the object but whether it is there.
pub struct Request<T> {
    /// Which object.
    pub key: ObjectKey,
    /// As the cache shows it now; `None` if it is gone, or was never there.
    pub object: Option<Arc<T>>,
    /// Why. None are given where the run before was told them: it began after this one was asked for, or after an earlier run
    /// had asked for one after some time.
    pub reasons: Reasons,
    /// How many runs have failed since the last one that did not.
    pub failures: u32,
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object.as_ref().map(|_| "..");
        f.debug_struct("Request")
            .field("key", &self.key)
            .field("object", &object)
            .field("reasons", &self.reasons)
            .field("failures", &self.failures)
            .finish()
    }
}

/// Brings the world closer to what one object asks for.
///
/// A run looks at how things are, not at what has happened: events are merged, runs are repeated, and one may begin that has
/// nothing to do. No two runs of one key overlap. Runs of different keys do, as many as the controller allows.
///
/// Any `Fn(Request<T>) -> impl Future` is one; a struct that holds clients and caches is usual.
///
/// # Cancel safety
/// A run is dropped at an await where it takes longer than the controller's time-out, where a stop's grace period is over, or
/// at once when the lease is lost: the next one has to be able to go on from there, as after a crash.
pub trait Reconciler<T: Cached>: Send + Sync + 'static {
    /// One run.
    fn reconcile(&self, request: Request<T>) -> impl Future<Output = Result<Action, Failure>> + Send;
}

impl<T, F, R> Reconciler<T> for F
where
    T: Cached,
    F: Fn(Request<T>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, Failure>> + Send,
{
    fn reconcile(&self, request: Request<T>) -> impl Future<Output = Result<Action, Failure>> + Send {
        self(request)
    }
}
