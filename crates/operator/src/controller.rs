//! `Controller`: maps events to keys, queues the keys, and calls the reconciler for them.

pub(crate) mod action;
pub(crate) mod predicate;
pub(crate) mod reason;
pub(crate) mod reconcile;
mod run;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod worker;

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture, stream};
use kube_client::Resource;
use kube_informer::{Cached, Event, Informer, InformerFactory, ObjectKey, Scope};
use kube_workqueue::{ItemExponentialFailureRateLimiter, Priority, RateLimiter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::{
    predicate::Predicate,
    reconcile::Reconciler,
    run::run,
    source::{EventSource, OwnerKind, OwnerMatch, RequestQueue, Source, StreamSource, kind_name, owners},
    state::ControllerState,
    worker::Worker,
};
use crate::{Leadership, observe::metrics::Metrics};

/// The delay of a key after its first failure. The delay doubles with each further failure.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(5);

/// The longest delay of a key after a failure.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1000);

/// The capacity of the channel from the workers to the task that waits for parked keys. The number of
/// parked keys is bounded by the number of keys that this process has just written.
const PARK_CAPACITY: usize = 64;

/// The default of [`Controller::reconcile_timeout`]. A reconcile that only sends requests is much faster.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(600);

/// Describes the reason why a controller failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// An informer stopped while its controller was running. Stop the controller before its informers.
    #[error("informer {0} stopped while the controller was running; stop the controller before the informer")]
    InformerStopped(String),
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
/// # async fn example(client: kube_client::Client, stop: CancellationToken) -> Result<(), Box<dyn std::error::Error>> {
/// async fn reconcile(request: Request<Deployment>) -> Result<Action, Failure> {
///     let Some(deployment) = request.object else { return Ok(Action::AwaitChange) }; // deleted
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
    informer: Informer<T>,
    owner: OwnerKind,
    filter: Predicate<T>,
    sources: Vec<Box<dyn Source>>,
    options: ControllerOptions,
    limiter: Box<dyn RateLimiter<ObjectKey>>,
}

/// Holds the settings of a controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerOptions {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) reconcile_timeout: Option<Duration>,
    pub(crate) requeue_after_success: Option<Duration>,
    pub(crate) debounce: Duration,
}

impl<T: Cached> Controller<T> {
    /// Creates a controller that reconciles the objects of this informer. The default name of the
    /// controller is the kind in lower case.
    pub fn new(informer: &Informer<T>) -> Self
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        let scope = Scope::of::<T::Resource>().unwrap_or(Scope::Namespaced);
        Self::dynamic(informer, &Default::default(), scope)
    }

    /// Creates a controller for a type that is known only at run time. `resource` contains the
    /// group and the kind of the objects. `scope` states whether the objects have a namespace.
    pub fn dynamic(
        informer: &Informer<T>,
        resource: &<T::Resource as Resource>::DynamicType,
        scope: Scope,
    ) -> Self {
        let kind = T::Resource::kind(resource).into_owned();
        let options = ControllerOptions {
            name: kind.to_lowercase().into(),
            concurrency: 1,
            reconcile_timeout: Some(RECONCILE_TIMEOUT),
            requeue_after_success: None,
            debounce: Duration::ZERO,
        };
        Self {
            informer: informer.clone(),
            owner: OwnerKind { group: T::Resource::group(resource).into_owned(), kind, scope },
            filter: Predicate::always(),
            sources: Vec::new(),
            options,
            limiter: Box::new(ItemExponentialFailureRateLimiter::new(MIN_RETRY_DELAY, MAX_RETRY_DELAY)),
        }
    }

    /// Sets the name of the controller in logs, metrics and debug pages. The default is the kind in
    /// lower case. The controllers and tasks of a [`Manager`](crate::Manager) must have unique
    /// names.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.options.name = name.into();
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
        self.options.concurrency = runs.max(1);
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
        self.options.reconcile_timeout = limit.into();
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
        self.options.debounce = delay;
        self
    }

    /// Requeues an existing object after this delay if its reconcile returns
    /// [`Action::Done`](crate::Action::Done). By default, the object is not requeued.
    ///
    /// If the object or a related object changes before the delay expires, the reconcile starts
    /// earlier.
    pub fn requeue_after_success(mut self, after: Duration) -> Self {
        self.options.requeue_after_success = Some(after);
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
        self.limiter = Box::new(limiter);
        self
    }

    /// Reconciles the controlling owner of each object of `informer` when the object changes.
    ///
    /// The controlling owner is the owner in the reference with `controller: true`. The controller
    /// ignores owners of types that it does not reconcile.
    pub fn owns<O: Cached + Resource>(self, informer: &Informer<O>) -> Self {
        self.owns_filtered(informer, Predicate::always())
    }

    /// Does the same as [`owns`](Self::owns), but only for the events that the predicate accepts.
    pub fn owns_filtered<O: Cached + Resource>(self, informer: &Informer<O>, filter: Predicate<O>) -> Self {
        self.owned(OwnerMatch::Controller, informer, filter)
    }

    /// Does the same as [`owns_filtered`](Self::owns_filtered), but reconciles all owners of this
    /// controller's type. The owner reference need not have `controller: true`. This method
    /// corresponds to `MatchEveryOwner` in controller-runtime.
    pub fn owns_any_reference<O: Cached + Resource>(
        self,
        informer: &Informer<O>,
        filter: Predicate<O>,
    ) -> Self {
        self.owned(OwnerMatch::AnyReference, informer, filter)
    }

    fn owned<O: Cached + Resource>(
        mut self,
        owned: OwnerMatch,
        informer: &Informer<O>,
        filter: Predicate<O>,
    ) -> Self {
        let name = format!("owned {}", kind_name(informer)).into();
        let owner = self.owner.clone();
        let keys = move |event: &Event<O>, queue: &RequestQueue<'_>| owners(event, &owner, owned, queue);
        let informer = informer.clone();
        self.sources.push(Box::new(EventSource { name, informer, filter, keys, is_primary: false }));
        self
    }

    /// Reconciles the keys that `keys` returns for each event of `informer`.
    ///
    /// `keys` must not block. For example, it can use an index, or read a name from the object. For
    /// an update, the event contains the old and the new state of the object.
    pub fn watches<O, I>(self, informer: &Informer<O>, keys: impl Fn(&Event<O>) -> I + Send + 'static) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = ObjectKey>,
    {
        self.watches_filtered(informer, Predicate::always(), keys)
    }

    /// Does the same as [`watches`](Self::watches), but only for the events that the predicate
    /// accepts.
    pub fn watches_filtered<O, I>(
        self,
        informer: &Informer<O>,
        filter: Predicate<O>,
        keys: impl Fn(&Event<O>) -> I + Send + 'static,
    ) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = ObjectKey>,
    {
        self.watches_handler(informer, filter, move |event, queue| {
            keys(event).into_iter().for_each(|key| queue.add(key));
        })
    }

    /// Calls `handler` for each event of `informer` that the predicate accepts. The handler queues
    /// keys of the reconciled type, and selects their delay and priority. It must not block, because
    /// the cache of the informer waits for it.
    ///
    /// The handler receives events only while this process is the leader. If it panics, the controller
    /// fails with [`ControllerError::SourcePanicked`].
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
    /// # use kube_informer::{Informer, ObjectKey};
    /// # use kube_operator::{Controller, Predicate};
    /// # fn example(deployments: Informer<Deployment>, secrets: Informer<Secret>) -> Controller<Deployment> {
    /// Controller::new(&deployments).watches_handler(&secrets, Predicate::always(), |event, queue| {
    ///     let key = ObjectKey::new(event.key().namespace(), "web");
    ///     queue.add_after(key, Duration::from_secs(10));
    /// })
    /// # }
    /// ```
    pub fn watches_handler<O: Cached>(
        mut self,
        informer: &Informer<O>,
        filter: Predicate<O>,
        handler: impl Fn(&Event<O>, &RequestQueue<'_>) + Send + 'static,
    ) -> Self {
        let name = kind_name(informer).into();
        let keys = handler;
        let informer = informer.clone();
        self.sources.push(Box::new(EventSource { name, informer, filter, keys, is_primary: false }));
        self
    }

    /// Reconciles the keys that the stream yields. `name` is the source in the
    /// [`Reason`](crate::Reason) of these reconciles.
    ///
    /// The controller polls the stream only while this process is the leader. If the stream ends,
    /// the controller continues to run.
    pub fn watches_stream(
        mut self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) -> Self {
        self.sources.push(Box::new(StreamSource { name: name.into(), keys, priority: Priority::NORMAL }));
        self
    }

    /// Reconciles all objects in the cache of the reconciled type each time that the stream yields. For
    /// example, the stream yields when the configuration of the program changes. The keys have the
    /// priority [`Priority::LOW`], and the [filter](Self::filter) does not apply.
    ///
    /// The controller polls the stream only while this process is the leader. If the stream ends, the
    /// controller continues to run.
    pub fn reconcile_all_on(mut self, trigger: impl Stream<Item = ()> + Send + 'static) -> Self {
        let lister = self.informer.lister();
        let keys = trigger.map(move |()| stream::iter(lister.keys())).flatten();
        let source = StreamSource { name: "reconcile_all_on".into(), keys, priority: Priority::LOW };
        self.sources.push(Box::new(source));
        self
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
        self.prepare(reconciler, &Metrics::default()).run(leadership, stop).await
    }

    /// Combines the controller with its reconciler and erases the object type.
    pub(crate) fn prepare(self, reconciler: impl Reconciler<T>, metrics: &Metrics) -> PreparedController {
        let Self { informer, owner, filter, mut sources, options, limiter } = self;
        let kind: Arc<str> = owner.kind.into();
        let keys = |event: &Event<T>, queue: &RequestQueue<'_>| queue.add(event.key().clone());
        let (name, primary) = (Arc::clone(&kind), informer.clone());
        sources.insert(0, Box::new(EventSource { name, informer: primary, filter, keys, is_primary: true }));
        let state = Arc::new(ControllerState::new(options, limiter, metrics));
        let worker_state = Arc::clone(&state);
        let run = move |sources, leadership, stop: CancellationToken| {
            let (park, parked) = mpsc::channel(PARK_CAPACITY);
            let worker = Worker {
                state: worker_state,
                kind,
                informer,
                reconciler,
                leadership,
                stop: stop.child_token(),
                park,
            };
            run(Arc::new(worker), sources, parked).boxed()
        };
        PreparedController { state, sources, run: Box::new(run) }
    }
}

type Sources = Vec<Box<dyn Source>>;
type RunResult = Result<(), ControllerError>;

/// Holds a controller and its reconciler before they run. The type of the objects is erased.
pub(crate) struct PreparedController {
    pub(crate) state: Arc<ControllerState>,
    sources: Sources,
    run: Box<dyn FnOnce(Sources, Leadership, CancellationToken) -> BoxFuture<'static, RunResult> + Send>,
}

impl PreparedController {
    /// Adds the informers of the sources to the factory, which then starts, reports and stops them.
    pub(crate) fn join(&self, factory: &InformerFactory) {
        self.sources.iter().for_each(|source| source.join(factory));
    }

    pub(crate) async fn run(self, leadership: Leadership, stop: CancellationToken) -> RunResult {
        (self.run)(self.sources, leadership, stop).await
    }
}
