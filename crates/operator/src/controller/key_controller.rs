//! `KeyController`: a controller for keys of the program's own type.

use std::{sync::Arc, time::Duration};

use futures_util::Stream;
use kube_informer::{Cached, Event};
use kube_workqueue::RateLimiter;
use tokio_util::sync::CancellationToken;

use super::{
    ControllerError,
    action::{Action, Failure},
    core::{ControllerCore, PreparedController},
    handle::{ControllerHandle, Source},
    informers::Informers,
    keys::RequestKey,
    predicate::Predicate,
    reason::Reason,
    reconcile::KeyRequest,
    source::RequestQueue,
    work::KeyWork,
};
use crate::{Leadership, observe::metrics::Metrics, shards::gate::SlotSources};

/// Calls a function for keys of the program's own type, for example the name of a node, or a cluster and
/// an object. Corresponds to a controller with typed requests in controller-runtime.
///
/// The methods have the meaning of the methods of [`Controller`](crate::Controller) with the same names.
/// The function receives only the key, and reads the objects itself.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informer::Informer;
/// # use kube_operator::{Action, Failure, KeyController, KeyRequest, Manager};
/// # fn example(manager: &mut Manager, pods: Informer<Pod>) {
/// let controller = KeyController::<String>::new("nodes")
///     .watches(&pods, |event| event.entry().spec.as_ref().and_then(|spec| spec.node_name.clone()));
/// manager.add_key_controller(controller, async |request: KeyRequest<String>| {
///     // All Pods of the node `request.key` ...
///     # drop(request);
///     Ok::<_, Failure>(Action::Done)
/// });
/// # }
/// ```
#[must_use = "a controller does nothing until `run` is called or a manager runs it"]
pub struct KeyController<Q: RequestKey> {
    core: ControllerCore<Q>,
}

impl<Q: RequestKey> KeyController<Q> {
    /// Creates a controller without sources. `name` is its name in logs, metrics and debug pages.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { core: ControllerCore::new(name) }
    }

    /// Reconciles the keys that `keys` returns for each event of `informers`. See
    /// [`Controller::watches`](crate::Controller::watches).
    pub fn watches<O, I>(
        self,
        informers: impl Into<Informers<O>>,
        keys: impl Fn(&Event<O>) -> I + Send + Sync + 'static,
    ) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = Q>,
    {
        self.watches_source(Source::watches(informers, keys))
    }

    /// Calls `handler` for each event that the predicate accepts. See
    /// [`Controller::watches_handler`](crate::Controller::watches_handler).
    pub fn watches_handler<O: Cached>(
        self,
        informers: impl Into<Informers<O>>,
        filter: Predicate<O>,
        handler: impl Fn(&Event<O>, &RequestQueue<'_, Q>) + Send + Sync + 'static,
    ) -> Self {
        self.watches_source(Source::watches_handler(informers, filter, handler))
    }

    /// Reconciles the keys of a stream. See
    /// [`Controller::watches_stream`](crate::Controller::watches_stream).
    pub fn watches_stream(
        self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = Q> + Send + 'static,
    ) -> Self {
        self.watches_source(Source::watches_stream(name, keys))
    }

    /// Adds a source, for example of the objects of several clusters.
    pub fn watches_source(mut self, source: Source<Q>) -> Self {
        self.core.sources.push(source.0);
        self
    }

    /// Filters the keys of all sources. See [`Controller::filter_all`](crate::Controller::filter_all).
    pub fn filter_all(mut self, filter: impl Fn(&Q, &Reason) -> bool + Send + Sync + 'static) -> Self {
        self.core.filter = Some(Arc::new(filter));
        self
    }

    /// Sets the maximum number of concurrent reconciles. The default is 1.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.core.options.concurrency = runs.max(1);
        self
    }

    /// Sets the maximum duration of one reconcile. The default is 10 minutes. See
    /// [`Controller::reconcile_timeout`](crate::Controller::reconcile_timeout).
    pub fn reconcile_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.core.options.reconcile_timeout = limit.into();
        self
    }

    /// Delays each key of a source. See [`Controller::debounce`](crate::Controller::debounce).
    pub fn debounce(mut self, delay: Duration) -> Self {
        self.core.options.debounce = delay;
        self
    }

    /// Requeues a key after this delay if its reconcile returns [`Action::Done`].
    pub fn requeue_after_success(mut self, after: Duration) -> Self {
        self.core.options.requeue_after_success = Some(after);
        self
    }

    /// Sets the rate limiter. See [`Controller::rate_limiter`](crate::Controller::rate_limiter).
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<Q>) -> Self {
        self.core.limiter = Box::new(limiter);
        self
    }

    /// Returns a handle that adds keys and sources while the controller runs.
    pub fn handle(&self) -> ControllerHandle<Q> {
        self.core.handle.clone()
    }

    /// Runs the controller until `stop` is cancelled or leadership is lost. See
    /// [`Controller::run`](crate::Controller::run).
    ///
    /// # Errors
    /// Returns a [`ControllerError`] if an informer stops before the controller, or if a predicate, a
    /// mapper or a stream panics.
    ///
    /// # Panics
    /// Panics if the rate limiter panics.
    ///
    /// # Cancel safety
    /// If the future is dropped, running reconciles are dropped at their current `await`, as in a
    /// crash.
    pub async fn run<F, R, E>(
        self,
        reconcile: F,
        leadership: Leadership,
        stop: CancellationToken,
    ) -> Result<(), ControllerError>
    where
        F: Fn(KeyRequest<Q>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<Failure> + 'static,
    {
        self.prepare(reconcile, &Metrics::default()).run(leadership, stop).await
    }

    pub(crate) fn prepare<F, R, E>(self, reconcile: F, metrics: &Metrics) -> PreparedController
    where
        F: Fn(KeyRequest<Q>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Into<Failure> + 'static,
    {
        let name = Arc::clone(&self.core.options.name);
        self.core.prepare(name, KeyWork(reconcile), SlotSources::None, metrics)
    }
}
