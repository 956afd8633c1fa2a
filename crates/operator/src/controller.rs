//! `Controller`: maps events to keys, queues the keys, and calls the reconciler for them.

pub(crate) mod action;
mod core;
pub(crate) mod handle;
pub(crate) mod history;
pub(crate) mod informers;
pub(crate) mod key_controller;
pub(crate) mod keys;
pub(crate) mod predicate;
pub(crate) mod reason;
#[cfg(feature = "page")]
pub(crate) mod recent;
pub(crate) mod reconcile;
mod run;
mod running_sources;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod stuck;
mod unselected;
mod watches;
pub(crate) mod work;
pub(crate) mod worker;

use std::{sync::Arc, time::Duration};

use kube_client::Resource;
use kube_informer::{Cached, Event, ObjectKey, Scope};
use kube_workqueue::RateLimiter;
use tokio_util::sync::CancellationToken;

pub(crate) use self::core::{ControllerCore, ControllerOptions, PreparedController};
use self::{
    core::RunResult,
    handle::ControllerHandle,
    informers::Informers,
    predicate::Predicate,
    reason::Reason,
    reconcile::Reconciler,
    source::{EventSource, OwnerKind, RequestQueue},
    unselected::UnselectedKeys,
    work::{ObjectWork, ObserveUncached},
};
use crate::{
    Leadership,
    observe::metrics::Metrics,
    shards::gate::{ShardedWork, SlotGate, SlotSources},
};

/// Describes the reason why a controller failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// An informer stopped while its controller was running. Stop the controller before its informers.
    #[error("informer {0} stopped while the controller was running; stop the controller before the informer")]
    InformerStopped(String),
    /// The informer of [`Controller::reconcile_unselected`] is not the only informer of the reconciled
    /// objects. The controller could otherwise clean up objects that another informer selects.
    #[error(
        "the controller {controller} does not reconcile exactly the objects of the informer {informer}; create the controller from the `CachedApi` that you pass to `reconcile_unselected`"
    )]
    OtherInformer {
        /// The name of the controller.
        controller: String,
        /// The name of the informer.
        informer: String,
    },
    /// A predicate, a mapper or a stream panicked, so some objects may not be reconciled. A new
    /// controller reconciles all objects.
    #[error(
        "source {0} panicked, so some objects may not be reconciled; restart the program or run a new controller"
    )]
    SourcePanicked(String),
}

/// Calls a [`Reconciler`] for each object of a type, and again when the object or a related object
/// changes.
///
/// ```no_run
/// # use std::time::Duration;
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Pod}};
/// # use kube_informer::InformerFactory;
/// # use kube_operator::{Action, Controller, Failure, Leadership, Predicate, Request};
/// # use tokio_util::sync::CancellationToken;
/// # async fn example(client: kube_client::Client, stop: CancellationToken) -> Result<(), Box<dyn
/// std::error::Error>> {
/// async fn reconcile(request: Request<Deployment>) -> Result<Action, Failure> {
///     let Some(deployment) = request.object.present() else { return Ok(Action::AwaitChange) }; // deleted
///     // ... bring actual state closer to desired state ...
///     Ok(Action::RequeueAfter(Duration::from_secs(600)))
/// }
///
/// let factory = InformerFactory::new(client);
/// let controller = Controller::new(&factory.informer::<Deployment>()?)
///     .filter(Predicate::generation_changed())
///     .owns(&factory.informer::<Pod>()?)
///     .watches(&factory.informer::<ConfigMap>()?, |event| {
///         event.key().namespace().map(|namespace| format!("{namespace}/web").parse().ok()).flatten()
///     })
///     .concurrency(4);
/// controller.run(reconcile, Leadership::always(), stop).await?;
/// # Ok(()) }
/// ```
#[must_use = "a controller does nothing until `run` is called or a manager runs it"]
pub struct Controller<T: Cached> {
    informers: Informers<T>,
    owner: OwnerKind,
    filter: Predicate<T>,
    observe_uncached: Option<ObserveUncached<T>>,
    unselected: Vec<UnselectedKeys>,
    core: ControllerCore<ObjectKey>,
}

impl<T: Cached> Controller<T> {
    /// Creates a controller that reconciles the objects of an informer, or of several informers of one
    /// type; see [`Informers`]. The default name of the controller is the kind in lower case.
    pub fn new(informers: impl Into<Informers<T>>) -> Self
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        let scope = Scope::of::<T::Resource>().unwrap_or(Scope::Namespaced);
        Self::dynamic(informers, &Default::default(), scope)
    }

    /// Creates a controller for a type that is known only at run time. `resource` contains the
    /// group and the kind of the objects. `scope` states whether the objects have a namespace.
    pub fn dynamic(
        informers: impl Into<Informers<T>>,
        resource: &<T::Resource as Resource>::DynamicType,
        scope: Scope,
    ) -> Self {
        let kind = T::Resource::kind(resource).into_owned();
        Self {
            informers: informers.into(),
            core: ControllerCore::new(kind.to_lowercase()),
            owner: OwnerKind { group: T::Resource::group(resource).into_owned(), kind, scope },
            filter: Predicate::always(),
            observe_uncached: None,
            unselected: Vec::new(),
        }
    }

    /// Sets the name of the controller in logs, metrics and debug pages. The default is the kind in
    /// lower case. The controllers and tasks of a [`Manager`](crate::Manager) must have unique
    /// names.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.core.options.name = name.into();
        self
    }

    /// Filters the additions, updates and deletions of the reconciled objects. The default accepts every
    /// event, so a status update of the reconciler causes another reconcile; see
    /// [`Predicate::generation_changed`]. After several calls, an event must pass all predicates.
    ///
    /// The filter does not apply to owned and watched objects, streams, retries and requeues.
    pub fn filter(mut self, filter: Predicate<T>) -> Self {
        self.filter = self.filter.and(filter);
        self
    }

    /// Sets the maximum number of concurrent reconciles. Reconciles of one key never overlap. The
    /// default is 1, and 0 has the effect of 1.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.core.options.concurrency = runs.max(1);
        self
    }

    /// Sets the maximum duration of one reconcile. If a reconcile takes longer, the controller
    /// drops its future, and retries the key as after a failure. The default is 10 minutes.
    ///
    /// `None` removes the limit. A reconcile that hangs then blocks its key, and occupies one of the
    /// [concurrent reconciles](Self::concurrency).
    ///
    /// A reconcile that blocks its thread cannot be dropped. If a reconcile is still running one minute
    /// after its timeout, the page `/healthz` of the manager fails, and a liveness probe restarts the
    /// process.
    pub fn reconcile_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.core.options.reconcile_timeout = limit.into();
        self
    }

    /// Delays each key of an event or of a stream, so that several changes cause only one reconcile. A
    /// key waits for `delay` after its first change. Further changes do not extend the delay. The default
    /// is zero.
    ///
    /// The delay also applies to the initial list and to [`reconcile_all_on`](Self::reconcile_all_on).
    /// If a [`RequestQueue`] selects a longer delay, the longer delay applies. Retries and requeues are
    /// not delayed further.
    pub fn debounce(mut self, delay: Duration) -> Self {
        self.core.options.debounce = delay;
        self
    }

    /// Requeues an existing object after this delay if its reconcile returns
    /// [`Action::Done`](crate::Action::Done). By default, the object is not requeued.
    ///
    /// If the object or a related object changes before the delay expires, the reconcile starts
    /// earlier.
    pub fn requeue_after_success(mut self, after: Duration) -> Self {
        self.core.options.requeue_after_success = Some(after);
        self
    }

    /// Sets the rate limiter, which decides the delay of a key after a failed reconcile.
    ///
    /// The default is the same as in controller-runtime. The delay of a key is 5 ms after its first
    /// failure, and doubles with each further failure up to 1000 s.
    ///
    /// The default of client-go is
    /// [`default_rate_limiter`](crate::workqueue::default_rate_limiter). In addition, it limits the
    /// retries of all keys together to 10 per second after a burst of 100.
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ObjectKey>) -> Self {
        self.core.limiter = Box::new(limiter);
        self
    }

    /// Filters the keys of all sources, including owned and watched objects and streams. The
    /// function receives the key and the reason, and returns false to skip the key. For example, it skips
    /// [`Change::Resynced`](crate::Change::Resynced), or the keys of a namespace.
    ///
    /// The filter does not apply to retries and requeues. This method corresponds to `WithEventFilter` of
    /// controller-runtime. To filter by the objects of one type, use [`filter`](Self::filter).
    pub fn filter_all(
        mut self,
        filter: impl Fn(&ObjectKey, &Reason) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.core.filter = Some(Arc::new(filter));
        self
    }

    /// Returns a handle that adds keys and sources while the controller runs.
    pub fn handle(&self) -> ControllerHandle {
        self.core.handle.clone()
    }

    /// Runs the controller until `stop` is cancelled or leadership is lost.
    ///
    /// The controller first starts its informers. It waits until their caches are synced and this
    /// process is the leader, and then starts to reconcile. After `stop` is cancelled, the method
    /// waits for running reconciles. If leadership is lost, the method drops running reconciles at
    /// their next `await`.
    ///
    /// A controller runs for one term of leadership. For the next term, create a new controller
    /// with new [`Finalizer`](crate::Finalizer)s and [`Applier`](crate::Applier)s, because another
    /// leader may have changed the objects.
    ///
    /// # Errors
    /// Returns [`ControllerError::InformerStopped`] if an informer stops before the controller.
    /// Returns [`ControllerError::SourcePanicked`] if a predicate, a mapper or a stream panics. In
    /// both cases, the method first waits for running reconciles.
    ///
    /// # Panics
    /// Panics if the rate limiter panics.
    ///
    /// # Cancel safety
    /// If the future is dropped, running reconciles are dropped at their current `await`, as in a
    /// crash. The last request of each reconcile may have taken effect. The informers no longer call
    /// the handlers of this controller.
    pub async fn run(
        self,
        reconciler: impl Reconciler<T>,
        leadership: Leadership,
        stop: CancellationToken,
    ) -> Result<(), ControllerError> {
        self.prepare(reconciler, &Metrics::default(), None).run(leadership, stop).await
    }

    /// Returns the URL paths of objects that the controller reads one by one.
    pub(crate) fn read_paths(&self) -> impl Iterator<Item = &str> {
        self.unselected.iter().map(UnselectedKeys::path)
    }

    /// Combines the controller with its reconciler and erases the object type. With a gate, the controller
    /// reconciles only the objects in the slots of this process.
    pub(crate) fn prepare(
        self,
        reconciler: impl Reconciler<T>,
        metrics: &Metrics,
        gate: Option<SlotGate>,
    ) -> PreparedController {
        let Self { informers, owner, filter, observe_uncached, unselected, mut core } = self;
        let kind: Arc<str> = owner.kind.into();
        let keys = |event: &Event<T>, queue: &RequestQueue<'_>| queue.add(event.key().clone());
        let primary = EventSource {
            name: Arc::clone(&kind),
            group: Some(owner.group.into()),
            informers: informers.clone(),
            filter,
            keys,
            is_primary: true,
        };
        core.sources.insert(0, Box::new(primary));
        let work = ObjectWork { informers: informers.clone(), observe_uncached, reconciler };
        let gate = gate.map(|gate| {
            let allowed = gate.slot_sources(owner.scope);
            let gate = gate.of(core.informers());
            core.restrict(gate.clone(), gate.keys(informers));
            (gate, allowed)
        });
        for keys in unselected {
            core.sources.push(Box::new(keys.into_source(gate.as_ref().map(|(gate, _)| gate))));
        }
        match gate {
            None => core.prepare(kind, work, SlotSources::None, metrics),
            Some((gate, allowed)) => core.prepare(kind, ShardedWork { work, gate }, allowed, metrics),
        }
    }
}
