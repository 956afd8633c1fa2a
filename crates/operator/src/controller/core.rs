//! `ControllerCore`: the parts of a controller that do not depend on the type of the objects.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, Stream, future::BoxFuture};
use kube_informer::InformerFactory;
use kube_workqueue::{ItemExponentialFailureRateLimiter, Priority, RateLimiter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    ControllerError,
    handle::{ControllerHandle, HandleReceiver},
    keys::{ClusterOf, KeyFilter, KeyQueue, RequestKey},
    reason::Reason,
    run::{Inbox, run},
    source::{QueueKeys, StreamSource},
    state::ControllerState,
    work::Work,
    worker::Worker,
};
use crate::{
    Leadership,
    observe::metrics::Metrics,
    shards::gate::{Gate, SlotSources, SourceInformers},
};

/// The delay of a key after its first failure. The delay doubles with each further failure.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(5);

/// The longest delay of a key after a failure.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1000);

/// The capacity of the channel from the workers to the task that waits for parked keys. The number of
/// parked keys is bounded by the number of keys that this process has just written.
const PARK_CAPACITY: usize = 64;

/// The default of [`Controller::reconcile_timeout`](super::Controller::reconcile_timeout). A reconcile
/// that only sends requests is much faster.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(600);

/// Holds the settings of a controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerOptions {
    pub(crate) name: Arc<str>,
    pub(crate) concurrency: usize,
    pub(crate) reconcile_timeout: Option<Duration>,
    pub(crate) requeue_after_success: Option<Duration>,
    pub(crate) debounce: Duration,
}

/// Holds the sources and the settings of a controller.
pub(crate) struct ControllerCore<Q: RequestKey> {
    pub(crate) sources: Vec<Box<dyn QueueKeys<Q>>>,
    pub(crate) options: ControllerOptions,
    pub(crate) limiter: Box<dyn RateLimiter<Q>>,
    pub(crate) filter: Option<KeyFilter<Q>>,
    pub(crate) cluster_of: Option<ClusterOf<Q>>,
    pub(crate) handle: ControllerHandle<Q>,
    handles: HandleReceiver<Q>,
}

impl<Q: RequestKey> ControllerCore<Q> {
    pub(crate) fn new(name: impl Into<Arc<str>>) -> Self {
        let options = ControllerOptions {
            name: name.into(),
            concurrency: 1,
            reconcile_timeout: Some(RECONCILE_TIMEOUT),
            requeue_after_success: None,
            debounce: Duration::ZERO,
        };
        let (handle, handles) = ControllerHandle::new();
        Self {
            sources: Vec::new(),
            options,
            limiter: Box::new(ItemExponentialFailureRateLimiter::new(MIN_RETRY_DELAY, MAX_RETRY_DELAY)),
            filter: None,
            cluster_of: None,
            handle,
            handles,
        }
    }

    /// Returns the informers of all sources.
    pub(crate) fn informers(&self) -> impl Iterator<Item = SourceInformers> {
        self.sources.iter().map(|source| source.informers())
    }

    /// Queues only keys whose slots are open. `keys` are these keys when their slots become open.
    pub(crate) fn restrict<K>(&mut self, gate: impl Gate<Q>, keys: K)
    where
        K: Stream<Item = Q> + Send + 'static,
    {
        let filter = self.filter.take();
        self.filter = Some(Arc::new(move |key: &Q, reason: &Reason| {
            gate.is_open(key) && filter.as_ref().is_none_or(|filter| filter(key, reason))
        }));
        self.sources.push(Box::new(StreamSource { name: "slots".into(), keys, priority: Priority::LOW }));
    }

    /// Combines the controller with its work and erases the type of the keys. `name` is the source of
    /// retries and requeues in the reasons. `allowed` selects the informers that may lack objects.
    pub(crate) fn prepare(
        self,
        name: Arc<str>,
        work: impl Work<Q>,
        allowed: SlotSources,
        metrics: &Metrics,
    ) -> PreparedController {
        let Self { sources, options, limiter, filter, cluster_of, handles, handle: _ } = self;
        let of_clusters =
            |source: &dyn QueueKeys<Q>| matches!(source.informers(), SourceInformers::Clusters(_));
        let mut others = sources.iter().filter(|source| match allowed {
            SlotSources::None => true,
            SlotSources::Reconciled => !source.is_primary(),
            SlotSources::Clusters => !of_clusters(&***source),
            SlotSources::All => of_clusters(&***source),
        });
        let incomplete_informer = others.find_map(|source| source.sharded_informer());
        let (state, keys) = ControllerState::new(options, limiter, filter, cluster_of, metrics);
        let parts = Parts { state: Arc::clone(&state), keys, name, work, sources, handles };
        PreparedController { state, incomplete_informer, parts: Box::new(parts) }
    }
}

pub(super) type RunResult = Result<(), ControllerError>;

/// Holds a controller and its reconciler before they run. The types of the objects and keys are erased.
pub(crate) struct PreparedController {
    pub(crate) state: Arc<ControllerState>,
    /// An informer that lacks objects that the controller needs, because it caches only some slots.
    pub(crate) incomplete_informer: Option<String>,
    parts: Box<dyn ErasedParts>,
}

impl PreparedController {
    /// Adds the informers of the sources to the factory, which then starts, reports and stops them.
    pub(crate) fn join(&self, factory: &InformerFactory) {
        self.parts.join(factory);
    }

    pub(crate) async fn run(self, leadership: Leadership, stop: CancellationToken) -> RunResult {
        self.parts.run(leadership, stop).await
    }
}

struct Parts<Q: RequestKey, W> {
    state: Arc<ControllerState>,
    keys: KeyQueue<Q>,
    name: Arc<str>,
    work: W,
    sources: Vec<Box<dyn QueueKeys<Q>>>,
    handles: HandleReceiver<Q>,
}

/// [`Parts`] without their types.
trait ErasedParts: Send {
    fn join(&self, factory: &InformerFactory);
    fn run(self: Box<Self>, leadership: Leadership, stop: CancellationToken)
    -> BoxFuture<'static, RunResult>;
}

impl<Q: RequestKey, W: Work<Q>> ErasedParts for Parts<Q, W> {
    fn join(&self, factory: &InformerFactory) {
        self.sources.iter().for_each(|source| source.join(factory));
    }

    fn run(
        self: Box<Self>,
        leadership: Leadership,
        stop: CancellationToken,
    ) -> BoxFuture<'static, RunResult> {
        let Self { state, keys, name, work, sources, handles } = *self;
        let (park, parked) = mpsc::channel(PARK_CAPACITY);
        let worker = Worker { state, keys, name, work, leadership, stop: stop.child_token(), park };
        run(Arc::new(worker), sources, Inbox { parked, handles }).boxed()
    }
}
