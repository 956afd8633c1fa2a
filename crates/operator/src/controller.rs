//! `Controller`: which objects are worked on, what makes a run necessary, and how many runs there are at once.

use std::{any::TypeId, panic::resume_unwind, sync::Arc, time::Duration};

use futures_util::{FutureExt, Stream, future::BoxFuture, future::join_all};
use kube_client::{Resource, core::ClusterResourceScope};
use kube_informer::{Cached, Event, Informer, ObjectKey};
use kube_workqueue::{RateLimiter, default_rate_limiter};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    Leadership, Predicate, Reconciler,
    ledger::Ledger,
    metrics::Metrics,
    source::{OwnerKind, Source, Started, events, owners, stream},
    worker::Worker,
};

/// Runs a [`Reconciler`] for each object of a type whenever something has changed that concerns it.
///
/// ```no_run
/// # use std::time::Duration;
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Pod}};
/// # use kube_informer::InformerFactory;
/// # use kube_operator::{Action, Controller, Failure, Leadership, Predicate, Request};
/// # use tokio_util::sync::CancellationToken;
/// # async fn example(client: kube_client::Client, stop: CancellationToken) -> Result<(), Box<dyn std::error::Error>> {
/// async fn reconcile(request: Request<Deployment>) -> Result<Action, Failure> {
///     let Some(deployment) = request.object else { return Ok(Action::AwaitChange) }; // it is gone
///     // ... make it so ...
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
/// controller.run(reconcile, Leadership::alone(), stop).await;
/// # Ok(()) }
/// ```
pub struct Controller<T: Cached> {
    informer: Informer<T>,
    owner: OwnerKind,
    filter: Predicate<T>,
    sources: Vec<Source>,
    options: Options,
    limiter: Box<dyn RateLimiter<ObjectKey>>,
}

/// What a controller was told about its runs.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) time_out: Option<Duration>,
    pub(crate) look_again: Option<Duration>,
}

impl<T: Cached> Controller<T> {
    /// A controller of the objects that this informer holds, which is named by their kind.
    pub fn new(informer: &Informer<T>) -> Self
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        Self::dynamic(informer, &Default::default())
    }

    /// The same, for a type that is known only at run time. Where its objects have no namespace, what they own does not lead
    /// to them: see [`Controller::watches`].
    pub fn dynamic(informer: &Informer<T>, resource: &<T::Resource as Resource>::DynamicType) -> Self
    where
        <T::Resource as Resource>::Scope: 'static,
    {
        let kind = T::Resource::kind(resource).into_owned();
        let scope = TypeId::of::<<T::Resource as Resource>::Scope>();
        let options =
            Options { name: kind.to_lowercase().into(), concurrency: 1, time_out: None, look_again: None };
        Self {
            informer: informer.clone(),
            owner: OwnerKind {
                group: T::Resource::group(resource).into_owned(),
                kind,
                is_namespaced: scope != TypeId::of::<ClusterResourceScope>(),
            },
            filter: Predicate::always(),
            sources: Vec::new(),
            options,
            limiter: Box::new(default_rate_limiter()),
        }
    }

    /// What logs and metrics call it; the kind in lower case, unless set.
    #[must_use]
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.options.name = name.into();
        self
    }

    /// Which events of the objects themselves are worth a run; all, unless set.
    #[must_use]
    pub fn filter(mut self, filter: Predicate<T>) -> Self {
        self.filter = filter;
        self
    }

    /// How many runs there may be at once, of different keys; one, unless set.
    #[must_use]
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.options.concurrency = runs.max(1);
        self
    }

    /// A run that takes longer is dropped and has failed. None is, unless set: a run that hangs holds up its key.
    #[must_use]
    pub fn time_out(mut self, after: Duration) -> Self {
        self.options.time_out = Some(after);
        self
    }

    /// After a run that ended in [`Action::Done`](crate::Action::Done) another one follows after this time, or earlier if
    /// something changes; never, unless set.
    #[must_use]
    pub fn look_again(mut self, after: Duration) -> Self {
        self.options.look_again = Some(after);
        self
    }

    /// How long a key waits after a run that has failed; as client-go has it, unless set: from 5 ms doubling to 1000 s, and
    /// at most 10 a second of all keys after a burst of 100.
    #[must_use]
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ObjectKey>) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Events of objects that an object of this controller owns, as their controller, lead to a run of the owner.
    #[must_use]
    pub fn owns<O>(self, informer: &Informer<O>) -> Self
    where
        O: Cached + Resource,
        O::DynamicType: Default,
    {
        self.owns_filtered(informer, Predicate::always())
    }

    /// The same, for the events that this lets pass.
    #[must_use]
    pub fn owns_filtered<O>(mut self, informer: &Informer<O>, filter: Predicate<O>) -> Self
    where
        O: Cached + Resource,
        O::DynamicType: Default,
    {
        let name = format!("owned {}", O::kind(&Default::default()));
        let owner = self.owner.clone();
        let keys = move |event: &Event<O>, found: &mut dyn FnMut(ObjectKey)| owners(event, &owner, found);
        self.sources.push(events(name.into(), informer.clone(), filter, keys, false));
        self
    }

    /// Events of any other objects lead to runs of the keys that `keys` gives for them: from an index, from a name that is in
    /// the object, from anything that can be looked up without waiting. Of an update both states can be asked.
    #[must_use]
    pub fn watches<O, I>(
        mut self,
        informer: &Informer<O>,
        keys: impl Fn(&Event<O>) -> I + Send + 'static,
    ) -> Self
    where
        O: Cached,
        <O::Resource as Resource>::DynamicType: Default,
        I: IntoIterator<Item = ObjectKey>,
    {
        let name = O::Resource::kind(&Default::default()).into_owned();
        let keys =
            move |event: &Event<O>, found: &mut dyn FnMut(ObjectKey)| keys(event).into_iter().for_each(found);
        self.sources.push(events(name.into(), informer.clone(), Predicate::always(), keys, false));
        self
    }

    /// Keys from anywhere else; `name` is what reasons call it. The end of the stream ends nothing else.
    #[must_use]
    pub fn watches_stream(
        mut self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) -> Self {
        self.sources.push(stream(name.into(), keys));
        self
    }

    /// Starts the informers, waits until all is cached and this process leads, and works until it is told to stop or leads no
    /// more. A run that is under way then is waited for.
    ///
    /// # Cancel safety
    /// Dropped, it ends as if it had crashed: runs are dropped where they wait.
    pub async fn run(self, reconciler: impl Reconciler<T>, leadership: Leadership, stop: CancellationToken) {
        self.prepare(reconciler, &Metrics::default()).run(leadership, stop).await;
    }

    /// All that it takes to run, with the type forgotten.
    pub(crate) fn prepare(self, reconciler: impl Reconciler<T>, metrics: &Metrics) -> Prepared {
        let Self { informer, owner, filter, mut sources, options, limiter } = self;
        let kind: Arc<str> = owner.kind.into();
        let itself = |event: &Event<T>, found: &mut dyn FnMut(ObjectKey)| found(event.key().clone());
        sources.insert(0, events(Arc::clone(&kind), informer.clone(), filter, itself, true));
        let ledger = Arc::new(Ledger::new(options, limiter, metrics));
        let seen = Arc::clone(&ledger);
        let work = move |leadership: Leadership, stop: CancellationToken| {
            let stop = stop.child_token();
            let worker = Worker { ledger, kind, informer, reconciler, leadership, stop };
            run(Arc::new(worker), sources).boxed()
        };
        Prepared { ledger: seen, work: Box::new(work) }
    }
}

/// A controller with its reconciler, which has not begun.
pub(crate) struct Prepared {
    pub(crate) ledger: Arc<Ledger>,
    work: Box<dyn FnOnce(Leadership, CancellationToken) -> BoxFuture<'static, ()> + Send>,
}

impl Prepared {
    pub(crate) async fn run(self, leadership: Leadership, stop: CancellationToken) {
        (self.work)(leadership, stop).await;
    }
}

async fn run<T: Cached, R: Reconciler<T>>(worker: Arc<Worker<T, R>>, sources: Vec<Source>) {
    let stop = &worker.stop;
    let started: Vec<Started> =
        sources.into_iter().map(|source| source(worker.ledger.keys.clone(), stop.clone())).collect();
    let (synced, ends): (Vec<_>, Vec<_>) =
        started.into_iter().map(|Started { synced, end }| (synced, end)).unzip();
    let ready = async {
        join_all(synced).await;
        worker.leadership.acquired().await
    };
    if stop.run_until_cancelled(ready).await == Some(true) {
        let mut workers: JoinSet<()> =
            (0..worker.ledger.options.concurrency).map(|_| Arc::clone(&worker).work()).collect();
        while let Some(ended) = workers.join_next().await {
            // A limiter of the user's, perhaps: with fewer workers than were asked for it would go on in silence.
            if let Err(Ok(panicked)) = ended.map_err(JoinError::try_into_panic) {
                resume_unwind(panicked);
            }
        }
    }
    stop.cancel();
    join_all(ends).await;
}
