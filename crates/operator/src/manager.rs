//! `Manager`: starts the parts of an operator in order, and stops them in the reverse order.

mod added;
mod clusters;
mod controllers;
mod error;
mod exit;
#[cfg(feature = "http")]
mod http;
mod optional;
mod options;
pub(crate) mod permissions;
mod rights;
mod runnables;
mod shards;
pub(crate) mod signals;
mod stages;
mod task_group;
#[cfg(feature = "webhooks")]
mod webhooks;

pub use added::{AddControllerError, AddedController, ManagerHandle};
pub use error::ManagerError;
pub(crate) use optional::OptionalInformers;
#[cfg(feature = "tls")]
pub use options::{CertificateSource, SecureServing};
pub use options::{ManagerOptions, RunsOn};
pub use rights::{WriteKind, offline_client};
#[cfg(feature = "webhooks")]
pub use webhooks::WebhookOptions;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    time::Duration,
};

use futures_util::FutureExt;
use kube_client::Client;
use kube_informer::{Cached, Informer, InformerFactory};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "http")]
use self::http::HttpServers;
use self::{
    rights::DeclaredPermissions,
    runnables::{TaskKind, TaskSpec},
    shards::ShardsStage,
    stages::{CacheStage, Stages, StartPlan},
    task_group::{Stage, TaskFailure},
};
#[cfg(any(feature = "http", feature = "metrics"))]
use crate::observe::ManagerView;
use crate::{
    CachedClient, CachedSlots, Election, EventRecorder, Failure, Leadership, OwnedSlots, RecorderError,
    controller::state::ControllerStates,
    election::hostname,
    observe::{ManagerPhase, changes::ChangeLog, metrics::Metrics},
    shards::gate::SlotGate,
};
#[cfg(feature = "metrics")]
use prometheus_client::registry::Registry;

/// Runs the HTTP pages, caches, election, controllers and tasks of an operator.
///
/// The parts start in this order and stop in the reverse order. The manager releases the lease only
/// after all controllers and tasks have stopped. The next leader therefore starts only after this
/// process has finished its work.
///
/// ```no_run
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
/// use kube_operator::{
///     Action, Controller, ElectionOptions, Failure, Manager, ManagerOptions, Request, WriteKind,
///     shutdown_signal,
/// };
///
/// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let options = ManagerOptions {
///     election: Some(ElectionOptions::new("shop", "web-operator")),
///     ..ManagerOptions::default()
/// };
/// let mut manager = Manager::new(client, options)?;
/// let writer = manager.client(); // writes only while this process is the leader
/// manager.require_writes::<Pod>(&[WriteKind::Create, WriteKind::Delete]);
/// let deployments = manager.factory().informer::<Deployment>()?;
/// let pods = manager.factory().informer::<Pod>()?;
/// let controller = Controller::new(&deployments).owns(&pods);
/// manager.add_controller(controller, move |request: Request<Deployment>| {
///     let writer = writer.clone();
///     async move {
///         // Create or delete Pods with `writer`.
///         # drop((writer, request));
///         Ok::<_, Failure>(Action::Done)
///     }
/// });
/// manager.run(shutdown_signal()).await?; // until SIGTERM
/// # Ok(()) }
/// ```
#[must_use = "a manager does nothing until `run` is called"]
pub struct Manager {
    options: ManagerOptions,
    /// Not guarded: for requests before this process is the leader.
    client: Client,
    factory: InformerFactory,
    election: Option<Election>,
    leadership: Leadership,
    shards: Option<ShardsStage>,
    /// `None` without shards.
    gate: Option<SlotGate>,
    #[cfg(feature = "http")]
    http: HttpServers,
    #[cfg(feature = "webhooks")]
    webhooks: Option<webhooks::WebhookServer>,
    #[cfg(all(feature = "http", feature = "metrics"))]
    registry: Registry,
    metrics: Metrics,
    #[cfg(any(feature = "http", feature = "metrics"))]
    view: ManagerView,
    recorders: BTreeMap<String, EventRecorder>,
    permissions: DeclaredPermissions,
    optional_informers: OptionalInformers,
    runnables: Vec<TaskSpec>,
    controllers: ControllerStates,
    handle: Option<ManagerHandle>,
}

impl Manager {
    /// Creates a manager whose caches cover the entire cluster. The manager binds its sockets
    /// immediately. All other work starts in [`Manager::run`].
    ///
    /// # Errors
    /// Returns a [`ManagerError`] if an address cannot be bound, the TLS certificate cannot be loaded or the
    /// options of the election or of the shards are unsafe.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime, like `Client::new`.
    pub fn new(client: Client, options: ManagerOptions) -> Result<Self, ManagerError> {
        let mut metrics = Metrics::default();
        let client = metrics.count_requests(client);
        let (followed, changes) = ChangeLog::attach(&client, options.explain_changes);
        metrics.changes = changes;
        let mut factory = InformerFactory::new(followed);
        if let Some(shards) = options.shards.as_ref().filter(|shards| shards.caches == CachedSlots::Own) {
            factory = factory.sharded(shards.key, shards.count);
        }
        Self::assemble(client, factory, options, metrics)
    }

    /// Creates a manager with a configured factory, for example a factory that covers a single namespace.
    ///
    /// The metrics `rest_client_*` do not contain the requests of this factory. They contain only the
    /// requests of the manager and of [`Manager::client`].
    ///
    /// # Errors
    /// Returns the errors of [`Manager::new`].
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime, like `Client::new`.
    pub fn with_factory(
        client: Client,
        factory: InformerFactory,
        options: ManagerOptions,
    ) -> Result<Self, ManagerError> {
        let metrics = Metrics::default();
        Self::assemble(metrics.count_requests(client), factory, options, metrics)
    }

    fn assemble(
        client: Client,
        factory: InformerFactory,
        options: ManagerOptions,
        metrics: Metrics,
    ) -> Result<Self, ManagerError> {
        let election = match &options.election {
            Some(options) => Some(Election::new(client.clone(), options.clone())?),
            None => None,
        };
        let leadership = election.as_ref().map_or_else(Leadership::always, Election::leadership);
        let shards = match &options.shards {
            Some(shards) => Some(ShardsStage::new(client.clone(), shards.clone(), election.as_ref())?),
            None => None,
        };
        let controllers = ControllerStates::default();
        #[cfg(any(feature = "http", feature = "metrics"))]
        let view = ManagerView {
            factory: factory.clone(),
            controllers: controllers.clone(),
            recorders: BTreeMap::new(),
            election: election.as_ref().map(Election::view),
            shards: shards.as_ref().map(ShardsStage::owned_slots),
            clusters: None,
        };
        Ok(Self {
            #[cfg(feature = "http")]
            http: HttpServers::bind(&options, &client)?,
            #[cfg(feature = "webhooks")]
            webhooks: None,
            #[cfg(all(feature = "http", feature = "metrics"))]
            registry: Registry::default(),
            options,
            client,
            factory,
            election,
            leadership,
            gate: shards.as_ref().map(ShardsStage::gate),
            shards,
            metrics,
            #[cfg(any(feature = "http", feature = "metrics"))]
            view,
            recorders: BTreeMap::new(),
            permissions: DeclaredPermissions::default(),
            optional_informers: OptionalInformers::default(),
            runnables: Vec::new(),
            controllers,
            handle: None,
        })
    }

    /// Returns the factory that creates informers for the controllers. The manager starts and stops
    /// the informers of this factory.
    pub fn factory(&self) -> &InformerFactory {
        &self.factory
    }

    /// Makes an informer optional, for example the informer of a CRD that may be absent, or of a
    /// remote cluster.
    ///
    /// - The manager starts before the cache of the informer is synced. A controller that reconciles,
    ///   owns or watches its objects starts when it is synced. All other controllers start without it.
    /// - `/readyz` reports the state of the informer, but does not fail.
    ///
    /// By default, all informers of the factory and of the controllers are required. This method
    /// selects informers by their [name](Informer::name). If an informer of another cluster has the same
    /// name, both become optional.
    pub fn make_optional<T: Cached>(&mut self, informer: &Informer<T>) {
        self.optional_informers.add(informer.name());
    }

    /// Returns a client that writes only while this process is the leader; see [`Leadership::guard`]. With
    /// [`ManagerOptions::shards`], a write in a reconcile requires the slot of the reconciled object instead.
    pub fn client(&self) -> Client {
        self.leadership.guard(self.client.clone())
    }

    /// Returns a client that reads the objects of all types from caches, and writes only while this process
    /// is the leader. `field_manager` is the name of the program in `managedFields`.
    pub fn cached_client(&self, field_manager: &str) -> CachedClient {
        CachedClient::new(&self.factory, self.client(), field_manager)
    }

    /// Returns a handle that reports whether this process is the leader. Without an election, this
    /// process is always the leader.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Returns a handle that reports the slots of this process. Returns `None` without
    /// [`ManagerOptions::shards`].
    pub fn owned_slots(&self) -> Option<OwnedSlots> {
        self.shards.as_ref().map(ShardsStage::owned_slots)
    }

    /// Returns the registry of the page `/metrics`. A program can register its own metrics in this
    /// registry.
    #[cfg(all(feature = "http", feature = "metrics"))]
    pub fn metrics_registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Registers the metrics of this manager in another registry. Use this method if the program
    /// serves metrics itself.
    ///
    /// Call this method after all controllers were added. Otherwise some metrics of later
    /// controllers are missing.
    #[cfg(feature = "metrics")]
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
        let collector = crate::observe::collector::ManagerCollector(self.view.clone());
        registry.register_collector(Box::new(collector));
    }

    /// Returns a recorder of Kubernetes Events. `controller` becomes the reporting controller of the
    /// Events. It must be a qualified name, such as `example.com/website-operator`, and need not be the
    /// name of a [`Controller`](crate::Controller). Calls with the same name return the same recorder.
    ///
    /// The program needs permission to create and patch `events`. The manager checks it at the start.
    ///
    /// The reporting instance of the Events is the election identity. Without an election, it is
    /// the environment variable `HOSTNAME`, which in a Pod contains the name of the Pod. If
    /// `HOSTNAME` is not set, it is the controller name.
    ///
    /// The recorder also writes if this process is not the leader, so that tasks and controllers of
    /// followers can report Events. After the controllers have stopped, the recorder writes the
    /// remaining Events.
    ///
    /// # Errors
    /// Returns a [`RecorderError`] if servers would reject the controller name or the instance.
    pub fn event_recorder(&mut self, controller: &str) -> Result<EventRecorder, RecorderError> {
        if let Some(recorder) = self.recorders.get(controller) {
            return Ok(recorder.clone());
        }
        let identity = self.options.election.as_ref().map(|election| election.identity.clone());
        let instance = identity.or_else(hostname).unwrap_or_else(|| controller.to_owned());
        // Not guarded: controllers and tasks of followers also report events.
        let client = Leadership::always().guard(self.client.clone());
        let stop = CancellationToken::new();
        let (recorder, writer) = EventRecorder::new(client, controller, &instance, stop.clone())?;
        self.require_events();
        self.add_task(
            format!("events of {controller}"),
            RunsOn::EveryReplica,
            move |manager_stop| async move {
                let mut writer = writer;
                tokio::select! {
                    () = &mut writer => return Ok(()),
                    () = manager_stop.cancelled() => stop.cancel(),
                }
                writer.await;
                Ok(())
            },
        );
        #[cfg(any(feature = "http", feature = "metrics"))]
        self.view.recorders.insert(controller.to_owned(), recorder.clone());
        self.recorders.insert(controller.to_owned(), recorder.clone());
        Ok(recorder)
    }

    /// Adds a task. A leader-only task starts when this process becomes the leader.
    ///
    /// After all controllers have stopped, the manager cancels the token of the task, and the task
    /// must return. The task may also return earlier. If it returns an error or panics, the manager
    /// stops.
    pub fn add_task<F>(
        &mut self,
        name: impl Into<String>,
        runs_on: RunsOn,
        task: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.runnables.push(TaskSpec {
            name: name.into(),
            leadership: self.leadership_for(runs_on),
            kind: TaskKind::Task,
            run: Box::new(move |leadership, stop| {
                async move {
                    match stop.run_until_cancelled(leadership.acquired()).await {
                        Some(true) => task(stop).await,
                        Some(false) | None => Ok(()),
                    }
                }
                .boxed()
            }),
        });
    }

    fn leadership_for(&self, runs_on: RunsOn) -> Leadership {
        match runs_on {
            RunsOn::LeaderOnly | RunsOn::EachShard => self.leadership.clone(),
            RunsOn::EveryReplica => Leadership::always(),
        }
    }

    /// Runs the operator until `stop` completes or a part fails. `stop` is usually
    /// [`shutdown_signal`](crate::shutdown_signal).
    ///
    /// Running reconciles and tasks can then complete within the grace period
    /// [`graceful_shutdown_timeout`](ManagerOptions::graceful_shutdown_timeout). If the lease is
    /// lost, the manager drops leader-only controllers and tasks at their next `await`, even during
    /// the grace period.
    ///
    /// # Errors
    /// Returns a [`ManagerError`] if the start fails, or if a part fails or does not stop in time.
    /// After an error, the process should exit. All parts have stopped, with two exceptions: the
    /// parts in [`ManagerError::ShutdownTimeout`], and a health check that blocks its thread.
    ///
    /// # Cancel safety
    /// If the future is dropped, the manager stops without a graceful shutdown, as in a crash.
    /// Reconciles are dropped at their current `await`. The lease is not released, so the next
    /// leader waits until it expires.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ManagerError> {
        self.run_until_stopped(stop, |_| ()).await
    }

    /// Calls `on_stop` with the grace period when the stop starts.
    async fn run_until_stopped(
        mut self,
        stop: impl Future<Output = ()>,
        on_stop: impl FnOnce(Duration),
    ) -> Result<(), ManagerError> {
        // The stage is created first, because it stops the informers when it is dropped.
        let caches =
            CacheStage::new(self.factory.clone(), self.client.clone(), self.optional_informers.clone());
        let controllers = self.controllers.current();
        let names = controllers.iter().map(|state| &*state.options.name);
        let others = self.runnables.iter().filter(|spec| !matches!(spec.kind, TaskKind::Controller(_)));
        if let Some(name) = duplicate_name(names.chain(others.map(|spec| &*spec.name))) {
            let error = ManagerError::DuplicateName(name);
            tracing::error!(%error, "manager cannot start");
            return Err(error);
        }
        let phase = watch::Sender::new(ManagerPhase::Starting);
        let (mut stages, mut failures) = Stages::new(caches, self.runnables.len(), self.controllers.clone());
        self.start_http(&mut stages.http, phase.subscribe());
        let (slots, required_rules) = (self.owned_slots(), self.required_rules());
        let Self { options, election, shards, runnables, .. } = self;
        let election_view = election.as_ref().map(Election::view);
        let plan = StartPlan { options: options.clone(), election, shards, required_rules, runnables };
        let start = async {
            let started = stages.start(plan, || _ = phase.send_replace(ManagerPhase::Running)).await;
            match started {
                Ok(()) => std::future::pending().await,
                Err(error) => error,
            }
        };
        let outcome = tokio::select! {
            biased;
            () = stop => Ok(None),
            failure = failures.next() => Ok(Some(failure)),
            error = start => Err(error),
        };
        phase.send_replace(ManagerPhase::Stopping);
        if let Some(slots) = slots {
            slots.drain();
        }
        let grace_period = match &outcome {
            Ok(Some(TaskFailure::LeadershipLost)) => Duration::ZERO,
            _ => options.graceful_shutdown_timeout,
        };
        on_stop(grace_period);
        let error_of = |failure| ManagerError::from_failure(failure, election_view.as_ref());
        let result = match outcome {
            Ok(None) => Ok(()),
            Ok(Some(failure)) => Err(error_of(failure)),
            Err(error) => Err(error),
        };
        log_shutdown_start(&result, grace_period);
        let started = Instant::now();
        let still_running = stages.stop(grace_period).await;
        // After the stop signal, only failures of controllers and tasks are errors.
        let result = result.and_then(|()| {
            failures.reported(Stage::Runnables).map_or(Ok(()), |late| {
                let error = error_of(late);
                tracing::error!(%error, "a controller or task failed while the manager stopped");
                Err(error)
            })
        });
        if still_running.is_empty() {
            tracing::info!(took = ?started.elapsed(), "manager stopped");
            return result;
        }
        tracing::error!(?still_running, "shutdown timed out; this process must exit");
        Err(ManagerError::ShutdownTimeout { still_running, cause: result.err().map(Box::new) })
    }

    #[cfg(not(feature = "http"))]
    fn start_http(&mut self, _: &mut task_group::TaskGroup, _: watch::Receiver<ManagerPhase>) {}
}

fn log_shutdown_start(cause: &Result<(), ManagerError>, grace_period: Duration) {
    match cause {
        Ok(()) => tracing::info!(?grace_period, "stop signal received; manager stops"),
        Err(error) if grace_period.is_zero() => tracing::error!(%error, "manager stops after a failure"),
        Err(error) => tracing::error!(%error, ?grace_period, "manager stops after a failure"),
    }
}

/// Returns a name that two runnables share.
fn duplicate_name<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut known = BTreeSet::new();
    names.find(|name| !known.insert(*name)).map(str::to_owned)
}
