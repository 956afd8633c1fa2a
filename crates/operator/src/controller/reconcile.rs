//! `Reconciler` and `Request`: the user code of a controller, and its argument.

use std::{fmt, sync::Arc};

use kube_informer::{Cached, ObjectKey};

use super::{
    action::{Action, Failure},
    reason::Reasons,
};

/// Represents a request to reconcile one object. The `Debug` output does not contain the object.
pub struct Request<T> {
    /// The key of the object.
    pub key: ObjectKey,
    /// The object in the cache now. `None` if it does not exist.
    pub object: Option<Arc<T>>,
    /// The reasons for this reconcile. Can be empty: if a change arrives when an earlier reconcile
    /// starts, the earlier reconcile receives the reason, and the key is nevertheless reconciled again.
    pub reasons: Reasons,
    /// The number of consecutive failed reconciles before this one.
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

/// Brings the actual state closer to the desired state of one object.
///
/// Reconciliation is level-triggered: a reconciler compares actual state with desired state, and
/// must be idempotent. Events are coalesced, reconciles are repeated, and a reconcile may find
/// nothing to do. Reconciles of one key never overlap. Reconciles of different keys overlap up to
/// the [concurrency](crate::Controller::concurrency) of the controller.
///
/// Every `Fn(Request<T>) -> impl Future` is a reconciler. Most operators use a struct that holds
/// clients and caches.
///
/// # Cancel safety
/// A reconcile is dropped at an `await` if it exceeds the controller's timeout, if the grace period
/// of a shutdown expires, or immediately when leadership is lost. The next reconcile must be able
/// to continue from there, as after a crash.
pub trait Reconciler<T: Cached>: Send + Sync + 'static {
    /// Reconciles one object.
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
