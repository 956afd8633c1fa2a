//! `Reconciler` and `Request`: the user code of a controller, and its argument.

use std::{fmt, sync::Arc};

use kube_informer::{Cached, ObjectKey};

use super::{
    action::{Action, Failure},
    reason::Reasons,
};

/// Represents a request to reconcile one object. The `Debug` output does not contain the object.
pub struct Request<T: Cached> {
    /// The key of the object.
    pub key: ObjectKey,
    /// The object when this reconcile starts.
    pub object: Observed<T>,
    /// The reasons for this reconcile. The list can be empty, because the previous reconcile of the key may
    /// have received the reason for this reconcile. Do not base decisions on the reasons.
    pub reasons: Reasons,
    /// The number of consecutive failed reconciles before this one.
    pub failures: u32,
}

/// Describes whether the reconciled object exists.
pub enum Observed<T: Cached> {
    /// The object is in the cache.
    Present(Arc<T>),
    /// The object exists on the server, but the informer does not select it, for example because a
    /// label was removed. This is the state on the server. A controller observes this only after
    /// [`reconcile_unselected`](crate::Controller::reconcile_unselected).
    Unselected(Arc<T>),
    /// The object is not in the cache. It does not exist, if the informer selects all objects or if
    /// the controller uses [`reconcile_unselected`](crate::Controller::reconcile_unselected).
    Absent,
}

impl<T: Cached> Observed<T> {
    /// Returns the object if it is in the cache, also if it is being deleted. Returns `None` for `Absent` and
    /// for `Unselected`. If the controller uses
    /// [`reconcile_unselected`](crate::Controller::reconcile_unselected), match on the variants instead.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube_operator::{Action, Failure, Request};
    /// async fn reconcile(request: Request<ConfigMap>) -> Result<Action, Failure> {
    ///     let Some(map) = request.object.present() else { return Ok(Action::AwaitChange) };
    ///     // ...
    ///     # drop(map);
    ///     Ok(Action::Done)
    /// }
    /// ```
    pub fn present(self) -> Option<Arc<T>> {
        match self {
            Self::Present(object) => Some(object),
            Self::Unselected(_) | Self::Absent => None,
        }
    }

    /// Returns true if the object is in the cache.
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Present(_))
    }
}

impl<T: Cached> Clone for Observed<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Present(object) => Self::Present(Arc::clone(object)),
            Self::Unselected(object) => Self::Unselected(Arc::clone(object)),
            Self::Absent => Self::Absent,
        }
    }
}

impl<T: Cached> From<Arc<T>> for Observed<T> {
    fn from(object: Arc<T>) -> Self {
        Self::Present(object)
    }
}

impl<T: Cached> fmt::Debug for Observed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Present(_) => "Present(..)",
            Self::Unselected(_) => "Unselected(..)",
            Self::Absent => "Absent",
        })
    }
}

impl<T: Cached> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("key", &self.key)
            .field("object", &self.object)
            .field("reasons", &self.reasons)
            .field("failures", &self.failures)
            .finish()
    }
}

/// Represents a request of a [`KeyController`](crate::KeyController).
#[derive(Clone, Debug)]
pub struct KeyRequest<Q> {
    /// The key.
    pub key: Q,
    /// The reasons for this reconcile. See [`Request::reasons`].
    pub reasons: Reasons,
    /// The number of consecutive failed reconciles before this one.
    pub failures: u32,
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

/// Creates a [`Reconciler`] from a context and a function, as kube-runtime's `Controller::run` does.
///
/// The function receives a clone of the context, so that it can be a plain `async fn`:
///
/// ```no_run
/// # use std::sync::Arc;
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
/// # use kube_informer::CachedApi;
/// # use kube_operator::{Action, Controller, Failure, Manager, Request, with_context};
/// struct Context { pods: CachedApi<Pod> }
///
/// async fn reconcile(request: Request<Deployment>, context: Arc<Context>) -> Result<Action, Failure> {
///     // ...
///     # drop((request, context));
///     Ok(Action::Done)
/// }
///
/// # fn example(manager: &mut Manager, controller: Controller<Deployment>, pods: CachedApi<Pod>) {
/// let context = Arc::new(Context { pods });
/// manager.add_controller(controller, with_context(context, reconcile));
/// # }
/// ```
pub fn with_context<T, C, F, R, E>(context: C, reconcile: F) -> impl Reconciler<T>
where
    T: Cached,
    C: Clone + Send + Sync + 'static,
    F: Fn(Request<T>, C) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send + 'static,
    E: Into<Failure> + 'static,
{
    move |request: Request<T>| reconcile(request, context.clone())
}
