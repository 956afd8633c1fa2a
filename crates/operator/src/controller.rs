//! `Controller`: which objects are worked on, what makes a run necessary, and how many runs there are at once.

pub(crate) mod action;
pub(crate) mod predicate;
pub(crate) mod reason;
pub(crate) mod reconcile;
pub(crate) mod source;
pub(crate) mod state;
pub(crate) mod worker;

use std::{panic::resume_unwind, pin::pin, sync::Arc, time::Duration};

use futures_util::{
    FutureExt, Stream,
    future::{BoxFuture, join_all, select_all},
};
use kube_client::Resource;
use kube_informer::{Cached, Event, Informer, InformerFactory, ObjectKey, Scope};
use kube_workqueue::{ItemExponentialFailureRateLimiter, RateLimiter};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::{
    predicate::Predicate,
    reconcile::Reconciler,
    source::{Asked, Ending, Events, Keys, Owned, OwnerKind, Source, called, owners},
    state::ControllerState,
    worker::{Left, Worker},
};
use crate::{Leadership, observe::metrics::Metrics};

/// How long a key waits after its first failure; twice as long after each one that follows.
const FIRST_DELAY: Duration = Duration::from_millis(5);

/// No key waits longer.
const LONGEST_DELAY: Duration = Duration::from_secs(1000);

/// A controller has ended before it was told to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// Somebody has stopped an informer of its: stop the controller first.
    #[error("the informer {0} was stopped while a controller needs it; its changes would go unnoticed")]
    InformerStopped(String),
    /// A filter, a function of a watch or a stream: keys may be missing, so that only a new start finds all that is to be done.
    #[error("what leads from {0} to keys has panicked; some are missing")]
    SourcePanicked(String),
}

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
/// controller.run(reconcile, Leadership::always(), stop).await?;
/// # Ok(()) }
/// ```
#[must_use = "it does nothing before `run`, or before a manager has it"]
pub struct Controller<T: Cached> {
    informer: Informer<T>,
    owner: OwnerKind,
    filter: Predicate<T>,
    sources: Vec<Box<dyn Source>>,
    options: Options,
    limiter: Box<dyn RateLimiter<ObjectKey>>,
}

/// What a controller was told about its runs.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) reconcile_timeout: Option<Duration>,
    pub(crate) requeue_after_success: Option<Duration>,
}

impl<T: Cached> Controller<T> {
    /// A controller of the objects that this informer holds, which is named by their kind.
    pub fn new(informer: &Informer<T>) -> Self
    where
        <T::Resource as Resource>::DynamicType: Default,
        <T::Resource as Resource>::Scope: 'static,
    {
        let scope = Scope::of::<T::Resource>().unwrap_or(Scope::Namespaced);
        Self::dynamic(informer, &Default::default(), scope)
    }

    /// The same, for a type that is known only at run time.
    pub fn dynamic(
        informer: &Informer<T>,
        resource: &<T::Resource as Resource>::DynamicType,
        scope: Scope,
    ) -> Self {
        let kind = T::Resource::kind(resource).into_owned();
        let options = Options {
            name: kind.to_lowercase().into(),
            concurrency: 1,
            reconcile_timeout: None,
            requeue_after_success: None,
        };
        Self {
            informer: informer.clone(),
            owner: OwnerKind { group: T::Resource::group(resource).into_owned(), kind, scope },
            filter: Predicate::always(),
            sources: Vec::new(),
            options,
            limiter: Box::new(ItemExponentialFailureRateLimiter::new(FIRST_DELAY, LONGEST_DELAY)),
        }
    }

    /// What logs and metrics call it; the kind in lower case, unless set.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.options.name = name.into();
        self
    }

    /// Which events of the objects themselves are worth a run; all, unless set.
    pub fn filter(mut self, filter: Predicate<T>) -> Self {
        self.filter = filter;
        self
    }

    /// How many runs there may be at once, of different keys; one, unless set.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.options.concurrency = runs.max(1);
        self
    }

    /// A run that takes longer is dropped and has failed. None is, unless set: a run that hangs holds up its key, and with as
    /// many as may run at once all others. Requests of an `Api` have no time limit of their own; those of the helpers of this
    /// crate have.
    pub fn reconcile_timeout(mut self, after: Duration) -> Self {
        self.options.reconcile_timeout = Some(after);
        self
    }

    /// After a run that ended in [`Action::Done`](crate::Action::Done) another one follows after this time, or earlier if
    /// something changes; never, unless set.
    pub fn requeue_after_success(mut self, after: Duration) -> Self {
        self.options.requeue_after_success = Some(after);
        self
    }

    /// How long a key waits after a run that has failed; as controller-runtime has it, unless set: from 5 ms doubling to
    /// 1000 s, each key by itself. [`default_rate_limiter`](kube_workqueue::default_rate_limiter) is client-go's: no more than
    /// 10 a second of all keys as well, after a burst of 100.
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<ObjectKey>) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Events of objects that an object of this controller owns, as their controller, lead to a run of the owner.
    pub fn owns<O: Cached + Resource>(self, informer: &Informer<O>) -> Self {
        self.owns_filtered(informer, Predicate::always())
    }

    /// The same, for the events that this lets pass.
    pub fn owns_filtered<O: Cached + Resource>(self, informer: &Informer<O>, filter: Predicate<O>) -> Self {
        self.owned(Owned::AsController, informer, filter)
    }

    /// The same, for objects that have several owners of which none need be their controller: events lead to all owners of
    /// this controller's type (controller-runtime's `MatchEveryOwner`).
    pub fn owns_any_reference<O: Cached + Resource>(
        self,
        informer: &Informer<O>,
        filter: Predicate<O>,
    ) -> Self {
        self.owned(Owned::InAnyWay, informer, filter)
    }

    fn owned<O: Cached + Resource>(
        mut self,
        owned: Owned,
        informer: &Informer<O>,
        filter: Predicate<O>,
    ) -> Self {
        let name = format!("owned {}", called(informer)).into();
        let owner = self.owner.clone();
        let keys =
            move |event: &Event<O>, found: &mut dyn FnMut(ObjectKey)| owners(event, &owner, owned, found);
        let informer = informer.clone();
        self.sources.push(Box::new(Events { name, informer, filter, keys, are_its_own: false }));
        self
    }

    /// Events of any other objects lead to runs of the keys that `keys` gives for them: from an index, from a name that is in
    /// the object, from anything that can be looked up without waiting. Of an update both states can be asked.
    pub fn watches<O, I>(self, informer: &Informer<O>, keys: impl Fn(&Event<O>) -> I + Send + 'static) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = ObjectKey>,
    {
        self.watches_filtered(informer, Predicate::always(), keys)
    }

    /// The same, for the events that this lets pass.
    pub fn watches_filtered<O, I>(
        mut self,
        informer: &Informer<O>,
        filter: Predicate<O>,
        keys: impl Fn(&Event<O>) -> I + Send + 'static,
    ) -> Self
    where
        O: Cached,
        I: IntoIterator<Item = ObjectKey>,
    {
        let name = called(informer).into();
        let keys =
            move |event: &Event<O>, found: &mut dyn FnMut(ObjectKey)| keys(event).into_iter().for_each(found);
        let informer = informer.clone();
        self.sources.push(Box::new(Events { name, informer, filter, keys, are_its_own: false }));
        self
    }

    /// Keys from anywhere else; `name` is what reasons call it. It is asked for keys while this process leads. The end of the
    /// stream ends nothing else.
    pub fn watches_stream(
        mut self,
        name: impl Into<Arc<str>>,
        keys: impl Stream<Item = ObjectKey> + Send + 'static,
    ) -> Self {
        self.sources.push(Box::new(Asked { name: name.into(), keys }));
        self
    }

    /// Starts the informers, waits until all is cached and this process leads, and works until it is told to stop, and then
    /// waits for the runs that are under way; or until it leads no more, and then drops them where they wait. If it is to
    /// work again for a later term, it is made anew, and so are the finalizers and appliers of its runs.
    ///
    /// # Errors
    /// An informer of its was stopped before, or a function that leads to keys has panicked; runs that were under way have
    /// ended.
    ///
    /// # Cancel safety
    /// Dropped, it ends as if it had crashed: runs are dropped where they wait, and its handlers are removed.
    pub async fn run(
        self,
        reconciler: impl Reconciler<T>,
        leadership: Leadership,
        stop: CancellationToken,
    ) -> Result<(), ControllerError> {
        self.prepare(reconciler, &Metrics::default()).run(leadership, stop).await
    }

    /// All that it takes to run, with the type forgotten.
    pub(crate) fn prepare(self, reconciler: impl Reconciler<T>, metrics: &Metrics) -> Prepared {
        let Self { informer, owner, filter, mut sources, options, limiter } = self;
        let kind: Arc<str> = owner.kind.into();
        let keys = |event: &Event<T>, found: &mut dyn FnMut(ObjectKey)| found(event.key().clone());
        let (name, all) = (Arc::clone(&kind), informer.clone());
        sources.insert(0, Box::new(Events { name, informer: all, filter, keys, are_its_own: true }));
        let state = Arc::new(ControllerState::new(options, limiter, metrics));
        let seen = Arc::clone(&state);
        let work = move |sources, leadership, stop: CancellationToken| {
            let worker = Worker { state, kind, informer, reconciler, leadership, stop: stop.child_token() };
            run(Arc::new(worker), sources).boxed()
        };
        Prepared { state: seen, sources, work: Box::new(work) }
    }
}

type Sources = Vec<Box<dyn Source>>;
type Ended = Result<(), ControllerError>;

/// A controller with its reconciler, which has not begun.
pub(crate) struct Prepared {
    pub(crate) state: Arc<ControllerState>,
    sources: Sources,
    work: Box<dyn FnOnce(Sources, Leadership, CancellationToken) -> BoxFuture<'static, Ended> + Send>,
}

impl Prepared {
    /// Its informers start, are waited for, shown and stopped with those of this factory.
    pub(crate) fn join(&self, factory: &InformerFactory) {
        self.sources.iter().for_each(|source| source.join(factory));
    }

    pub(crate) async fn run(self, leadership: Leadership, stop: CancellationToken) -> Ended {
        (self.work)(self.sources, leadership, stop).await
    }
}

async fn run<T: Cached, R: Reconciler<T>>(worker: Arc<Worker<T, R>>, sources: Sources) -> Ended {
    let stop = worker.stop.clone();
    let mut trouble = pin!(trouble(&worker.state.keys, &sources));
    let begun = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        error = &mut trouble => return Err(error),
        begun = begin(&worker, sources) => begun,
    };
    let Some(endings) = begun else { return Ok(()) };
    let mut workers: JoinSet<Left> =
        (0..worker.state.options.concurrency).map(|_| Arc::clone(&worker).work()).collect();
    let mut lost = pin!(worker.leadership.lost().fuse());
    let name = &worker.state.options.name;
    let mut ended = Ok(());
    loop {
        let joined = tokio::select! {
            biased;
            () = &mut lost => {
                stop.cancel();
                worker.state.cut_short();
                workers.abort_all();
                continue;
            }
            joined = workers.join_next() => joined,
            error = &mut trouble, if ended.is_ok() && !stop.is_cancelled() => {
                stop.cancel();
                tracing::error!(controller = %name, %error, "takes no more keys");
                worker.state.trouble.send_replace(Some(error.clone()));
                ended = Err(error);
                continue;
            }
        };
        match joined {
            None => break,
            Some(Ok(Left::WasTold)) => {}
            // It may have asked the clock before the timer comes. This process may lead again before the others' runs end, which
            // were begun for another term.
            Some(Ok(Left::LeadsNoMore)) => {
                stop.cancel();
                worker.state.cut_short();
                workers.abort_all();
            }
            // A limiter of the user's, perhaps: with fewer workers than were asked for it would go on in silence.
            Some(Err(error)) => {
                if let Ok(panicked) = error.try_into_panic() {
                    resume_unwind(panicked);
                }
            }
        }
    }
    stop.cancel();
    join_all(endings.into_iter().map(|ending| ending.0)).await;
    ended
}

/// Comes when keys are missing, or will be.
fn trouble(keys: &Keys, sources: &Sources) -> impl Future<Output = ControllerError> + use<> {
    let stopped = select_all(sources.iter().map(|source| source.stopped()));
    let mut broken = keys.broken.subscribe();
    async move {
        let broken = async {
            match broken.wait_for(Option::is_some).await.ok().and_then(|source| source.clone()) {
                Some(source) => source.to_string(),
                None => std::future::pending().await, // nobody is left who could tell
            }
        };
        tokio::select! {
            source = broken => ControllerError::SourcePanicked(source),
            (informer, ..) = stopped => ControllerError::InformerStopped(informer),
        }
    }
}

/// Comes when all is queued that is there in the beginning; with nothing if this process never leads.
async fn begin<T: Cached, R>(worker: &Worker<T, R>, sources: Sources) -> Option<Vec<Ending>> {
    join_all(sources.iter().map(|source| source.cached())).await;
    if !worker.leadership.acquired().await {
        return None;
    }
    let begin = |source: Box<dyn Source>| source.begin(worker.state.keys.clone(), worker.stop.clone());
    Some(join_all(sources.into_iter().map(begin)).await)
}
