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
    /// The object in the cache when this reconcile starts. `None` if the cache does not contain the
    /// object.
    pub object: Option<Arc<T>>,
    /// The reasons for this reconcile. The list can be empty if a change arrived while the previous
    /// reconcile of the key started. The previous reconcile then received the reason, but the
    /// change also causes this reconcile.
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
/// Reconciliation is level-triggered: a reconciler compares the actual state with the desired
/// state, and does not depend on single events. Several events may cause only one reconcile, and a
/// reconcile may be repeated without a change. A reconciler must therefore be idempotent.
///
/// Reconciles of one key never overlap. Reconciles of different keys overlap up to the
/// [concurrency](crate::Controller::concurrency) of the controller.
///
/// Every `Fn(Request<T>) -> impl Future<Output = Result<Action, E>>` implements this trait if `E` converts
/// to a [`Failure`], for example `anyhow::Error`. Most operators implement the trait for a struct that
/// holds clients and caches.
///
/// # Cancel safety
/// The future of a reconcile is dropped at an `await` in three cases:
/// - The reconcile exceeds the [timeout](crate::Controller::reconcile_timeout) of the controller.
/// - The grace period of a shutdown expires.
/// - Leadership is lost.
///
/// The last request may have taken effect. As after a crash, the next reconcile must be able to
/// complete the work.
pub trait Reconciler<T: Cached>: Send + Sync + 'static {
    /// Reconciles one object. The controller retries a [`Failure`] with backoff if the failure is
    /// not terminal.
    fn reconcile(&self, request: Request<T>) -> impl Future<Output = Result<Action, Failure>> + Send;
}

impl<T, F, R, E> Reconciler<T> for F
where
    T: Cached,
    F: Fn(Request<T>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send,
    E: Into<Failure>,
{
    fn reconcile(&self, request: Request<T>) -> impl Future<Output = Result<Action, Failure>> + Send {
        let reconciled = self(request);
        async { reconciled.await.map_err(Into::into) }
    }
}
