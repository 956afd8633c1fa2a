//! `Work`: the part of a controller that depends on the type of its requests.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use kube_informer::{Cached, CachedReadError, ObjectKey};

use super::{
    action::{Action, Failure},
    informers::Informers,
    keys::RequestKey,
    reconcile::{KeyRequest, Observed, Reconciler, Request},
};

/// The maximum wait for this process's own writes of the object, before a reconcile.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Reconciles keys.
pub(crate) trait Work<Q>: Send + Sync + 'static {
    /// Waits until the key can be reconciled.
    fn ready(&self, key: &Q) -> impl Future<Output = Result<(), CachedReadError>> + Send;

    fn reconcile(&self, request: KeyRequest<Q>) -> impl Future<Output = Reconciled> + Send;
}

/// The result of a reconcile that returned.
pub(crate) struct Reconciled {
    pub(crate) result: Result<Action, Failure>,
    /// Whether the object existed when the reconcile started.
    pub(crate) exists: bool,
    /// The reconcile was dropped at an await, so a request may still be in flight.
    pub(crate) is_cut_short: bool,
}

/// Observes an object that is not in the cache.
pub(crate) type ObserveUncached<T> =
    Arc<dyn Fn(ObjectKey) -> BoxFuture<'static, Result<Observed<T>, Failure>> + Send + Sync>;

/// Waits until the caches contain this process's own writes of the object. For other objects, `CachedApi`
/// waits.
pub(crate) async fn wait_for_own_writes<T: Cached>(
    informers: &Informers<T>,
    key: &ObjectKey,
) -> Result<(), CachedReadError> {
    match informers.wait_for_writes(key, READ_TIMEOUT).await {
        // Reported once, for writes of the lost history. There may also be writes of the new
        // history.
        Err(CachedReadError::ServerRestored { .. }) => {
            match informers.wait_for_writes(key, READ_TIMEOUT).await {
                Err(CachedReadError::ServerRestored { .. }) => Ok(()),
                other => other,
            }
        }
        other => other,
    }
}

/// Calls a [`Reconciler`] with objects of a cache.
pub(crate) struct ObjectWork<T: Cached, R> {
    pub(crate) informers: Informers<T>,
    pub(crate) observe_uncached: Option<ObserveUncached<T>>,
    pub(crate) reconciler: R,
}

impl<T: Cached, R: Reconciler<T>> Work<ObjectKey> for ObjectWork<T, R> {
    async fn ready(&self, key: &ObjectKey) -> Result<(), CachedReadError> {
        wait_for_own_writes(&self.informers, key).await
    }

    async fn reconcile(&self, request: KeyRequest<ObjectKey>) -> Reconciled {
        let KeyRequest { key, reasons, failures } = request;
        let object = match (self.informers.get(&key), &self.observe_uncached) {
            (Some(object), _) => Observed::Present(object),
            (None, None) => Observed::Absent,
            (None, Some(observe)) => match observe(key.clone()).await {
                Ok(object) => object,
                Err(failure) => {
                    return Reconciled { result: Err(failure), exists: true, is_cut_short: false };
                }
            },
        };
        let exists = object.is_present();
        let result = self.reconciler.reconcile(Request { key, object, reasons, failures }).await;
        Reconciled { result, exists, is_cut_short: false }
    }
}

/// Calls a function with keys.
pub(crate) struct KeyWork<F>(pub(crate) F);

impl<Q, F, R, E> Work<Q> for KeyWork<F>
where
    Q: RequestKey,
    F: Fn(KeyRequest<Q>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send,
    E: Into<Failure>,
{
    async fn ready(&self, _: &Q) -> Result<(), CachedReadError> {
        Ok(())
    }

    fn reconcile(&self, request: KeyRequest<Q>) -> impl Future<Output = Reconciled> + Send {
        let reconciled = (self.0)(request);
        async {
            Reconciled { result: reconciled.await.map_err(Into::into), exists: true, is_cut_short: false }
        }
    }
}
