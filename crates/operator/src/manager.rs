//! `Manager`: what an operator consists of, started in order and stopped in the reverse one.

use std::{
    collections::BTreeSet,
    future::Future,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use kube_client::Client;
use kube_informer::{Cached, InformerFactory, NotSynced};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    Controller, Election, ElectionError, ElectionOptions, EventRecorder, Failure, Leadership, MissingRule,
    Reconciler, RecorderError,
    collect::Shown,
    metrics::Metrics,
    pages::{self, Check, Site, Stage},
    parts::{Ended, Kind, Part, Parts, Served},
    preflight,
};

/// What a manager is told.
#[derive(Clone, Debug)]
pub struct ManagerOptions {
    /// Where metrics, health and debug pages are served: port 8080 of the loopback address unless set, so that nobody else
    /// sees them; `None` for nowhere. Port 0 is one that is free: see [`Manager::address`].
    pub address: Option<SocketAddr>,
    /// The election that decides which process works; none unless set, and each works.
    pub election: Option<ElectionOptions>,
    /// How long the first lists of all caches may take: two minutes unless set.
    pub start_within: Duration,
    /// How long runs that are under way are waited for at the end: 30 seconds unless set, as the kubelet has it.
    pub grace: Duration,
}

impl Default for ManagerOptions {
    fn default() -> Self {
        Self {
            address: Some((Ipv4Addr::LOCALHOST, 8080).into()),
            election: None,
            start_within: Duration::from_secs(120),
            grace: Duration::from_secs(30),
        }
    }
}

/// A manager could not begin, or has ended before it was told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// The pages can't be served there.
    #[error("can't listen on {address}; choose another address, or none: {source}")]
    Address {
        /// Where they should have been.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The election can't be held like this.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// Two controllers, or tasks, have one name, by which metrics and pages could not tell them apart.
    #[error("two parts are named {0}; name one of them otherwise")]
    SameName(String),
    /// Some caches were not filled in time.
    #[error("{source}{}", hint(missing))]
    NotSynced {
        /// Which, and what they have met last.
        source: NotSynced,
        /// What the server says that this account may not do, and has to.
        missing: Vec<MissingRule>,
    },
    /// Somebody else may lead now: the process has to end, so that nothing that was begun before goes on.
    #[error("the lease {0} could not be renewed in time: this process leads no more, and has to end")]
    LeadershipLost(String),
    /// A task has failed.
    #[error("{name} has failed: {failure}")]
    Failed {
        /// Its name.
        name: String,
        /// What it says.
        failure: Failure,
    },
    /// A controller or a task has panicked, outside of a run.
    #[error("{0} has panicked")]
    Panicked(String),
}

fn hint(missing: &[MissingRule]) -> String {
    missing.iter().map(|rule| format!("; this account {rule}")).collect()
}

/// Which processes a controller or a task is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsOn {
    /// The one that leads.
    Leader,
    /// Each of them.
    All,
}

/// Starts what an operator consists of, in order: its pages, its caches, the election, its controllers. Ends it in the
/// reverse order, the lease last, so that nobody else begins before this process has ended what it did.
///
/// ```no_run
/// # use std::time::Duration;
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
/// # use kube_operator::{Action, Controller, ElectionOptions, Failure, LeaseTimes, Manager, ManagerOptions, Request, terminated};
/// # async fn example(client: kube_client::Client, identity: String) -> Result<(), Box<dyn std::error::Error>> {
/// let mut manager = Manager::new(client, ManagerOptions {
///     election: Some(ElectionOptions {
///         namespace: "shop".to_owned(),
///         name: "web-operator".to_owned(),
///         identity, // another one in each process
///         times: LeaseTimes::default(),
///     }),
///     ..ManagerOptions::default()
/// })?;
/// let writer = manager.client(); // writes only while this process leads
/// let deployments = manager.factory().informer::<Deployment>()?;
/// let pods = manager.factory().informer::<Pod>()?;
/// manager.add(Controller::new(&deployments).owns(&pods), move |request: Request<Deployment>| {
///     let writer = writer.clone();
///     async move {
///         // ... make it so ...
///         # drop((writer, request));
///         Ok::<_, Failure>(Action::Done)
///     }
/// });
/// manager.run(terminated()).await?; // until SIGTERM
/// # Ok(()) }
/// ```
pub struct Manager {
    options: ManagerOptions,
    /// For questions that are asked before this process leads.
    client: Client,
    factory: InformerFactory,
    election: Option<Election>,
    leadership: Leadership,
    listener: Option<(TcpListener, SocketAddr)>,
    registry: Registry,
    metrics: Metrics,
    shown: Shown,
    checks: Vec<(String, Check)>,
    parts: Vec<Part>,
}

impl Manager {
    /// A manager whose factory covers the whole cluster. Listens at once, and does nothing else before [`Manager::run`].
    ///
    /// # Errors
    /// The address is taken, or the election can't be held like this.
    pub fn new(client: Client, options: ManagerOptions) -> Result<Self, ManagerError> {
        Self::with_factory(client.clone(), InformerFactory::new(client), options)
    }

    /// The same with a factory that covers less, or is otherwise configured.
    ///
    /// # Errors
    /// As [`Manager::new`].
    pub fn with_factory(
        client: Client,
        factory: InformerFactory,
        options: ManagerOptions,
    ) -> Result<Self, ManagerError> {
        let election = match &options.election {
            Some(options) => Some(Election::new(client.clone(), options.clone())?),
            None => None,
        };
        let leadership = election.as_ref().map_or_else(Leadership::alone, Election::leadership);
        let listener = match options.address {
            Some(address) => {
                Some(listen(address).map_err(|source| ManagerError::Address { address, source })?)
            }
            None => None,
        };
        let mut registry = Registry::default();
        let metrics = Metrics::default();
        metrics.register(&mut registry);
        let elected = options.election.as_ref().map(|options| (options.name.clone(), leadership.clone()));
        let shown = Shown { factory: factory.clone(), controllers: Vec::new(), election: elected };
        Ok(Self {
            options,
            client,
            factory,
            election,
            leadership,
            listener,
            registry,
            metrics,
            shown,
            checks: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// Where its controllers' informers come from; it starts and stops them.
    pub fn factory(&self) -> &InformerFactory {
        &self.factory
    }

    /// A client that writes only while this process leads: see [`Leadership::guard`].
    pub fn client(&self) -> Client {
        self.leadership.guard(self.client.clone())
    }

    /// Whether this process leads; without an election it always does.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Where the pages are served, with the port that port 0 has become.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }

    /// For metrics of one's own, which `/metrics` then shows, too.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// A recorder of events by a controller of this name, of a process that is named as in the election. It writes while this
    /// process leads, and at the end what is left when the controllers have ended.
    ///
    /// # Errors
    /// A name that servers refuse.
    pub fn event_recorder(&mut self, controller: &str) -> Result<EventRecorder, RecorderError> {
        let instance = self.options.election.as_ref().map_or(controller, |election| &election.identity);
        let (recorder, broadcaster) = EventRecorder::new(self.client(), controller, instance)?;
        self.task(format!("events of {controller}"), RunsOn::All, |stop| async {
            broadcaster.run(stop).await;
            Ok(())
        });
        Ok(recorder)
    }

    /// A check of one's own for `/readyz`, which says what is wrong. It must not block.
    pub fn check(
        &mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.checks.push((name.into(), Box::new(check)));
    }

    /// Runs a controller in the process that leads.
    pub fn add<T: Cached>(&mut self, controller: Controller<T>, reconciler: impl Reconciler<T>) {
        self.add_on(RunsOn::Leader, controller, reconciler);
    }

    /// Runs a controller.
    pub fn add_on<T: Cached>(
        &mut self,
        runs_on: RunsOn,
        controller: Controller<T>,
        reconciler: impl Reconciler<T>,
    ) {
        let prepared = controller.prepare(reconciler, &self.metrics);
        let ledger = Arc::clone(&prepared.ledger);
        self.shown.controllers.push(Arc::clone(&ledger));
        self.parts.push(Part {
            name: ledger.options.name.to_string(),
            leadership: self.leadership_for(runs_on),
            kind: Kind::Controller(ledger.runs.clone()),
            work: Box::new(move |leadership, stop| prepared.run(leadership, stop).map(Ok).boxed()),
        });
    }

    /// Runs anything else: what it is given tells it to stop, which is when the controllers have ended. It may end before; if
    /// it fails the manager ends. One for the leader begins when this process leads.
    pub fn task<F>(
        &mut self,
        name: impl Into<String>,
        runs_on: RunsOn,
        task: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.parts.push(Part {
            name: name.into(),
            leadership: self.leadership_for(runs_on),
            kind: Kind::Task,
            work: Box::new(move |leadership, stop| {
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
            RunsOn::Leader => self.leadership.clone(),
            RunsOn::All => Leadership::alone(),
        }
    }

    /// Runs all of it until `stop` comes, such as [`terminated`](crate::terminated); then ends it, with the grace that the
    /// options give to what is under way.
    ///
    /// # Errors
    /// See [`ManagerError`]. All is ended by then; the process should end, too.
    ///
    /// # Cancel safety
    /// Dropped, it ends as if it had crashed: runs are dropped where they wait, and the lease is left to expire.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let twice = self.name_used_twice();
        let Self {
            options,
            client,
            factory,
            election,
            leadership,
            listener,
            mut registry,
            shown,
            checks,
            parts,
            ..
        } = self;
        if let Some(name) = twice {
            return Err(ManagerError::SameName(name));
        }
        let stage = watch::Sender::new(Stage::Starting);
        let shown = Arc::new(shown);
        registry.register_collector(Box::new(Arc::clone(&shown)));
        let site = Site { registry, shown, checks, stage: stage.subscribe() };

        let mut pages = Served::default();
        pages.serve(listener, pages::router(Arc::new(site)));
        let mut elected = Served::default();
        let mut running = Parts::default();
        let works = async {
            start_caches(&client, &factory, &options).await?;
            stage.send_replace(Stage::Running);
            elected.elect(election);
            running.start(parts);
            Err(match running.ended(&leadership).await {
                Ended::LeadershipLost => {
                    ManagerError::LeadershipLost(options.election.as_ref().map_or_else(String::new, lease))
                }
                Ended::Failed(name, failure) => ManagerError::Failed { name, failure },
                Ended::Panicked(name) => ManagerError::Panicked(name),
            })
        };
        let ended = tokio::select! {
            biased;
            () = stop => Ok(()),
            ended = works => ended,
        };
        stage.send_replace(Stage::Stopping);
        let grace = match &ended {
            Err(ManagerError::LeadershipLost(_)) => Duration::ZERO,
            _ => options.grace,
        };
        let all_ended = running.stop(grace).await;
        factory.shutdown().await;
        pages.stop().await;
        match all_ended {
            true => elected.stop().await,
            // Somebody is still at it: whoever comes next has to wait until the lease has expired.
            false => elected.abandon().await,
        }
        ended
    }

    fn name_used_twice(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        self.parts.iter().map(|part| &part.name).find(|name| !names.insert(*name)).cloned()
    }
}

fn lease(options: &ElectionOptions) -> String {
    format!("{}/{}", options.namespace, options.name)
}

/// Without blocking: it is a runtime's later.
fn listen(address: SocketAddr) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn start_caches(
    client: &Client,
    factory: &InformerFactory,
    options: &ManagerOptions,
) -> Result<(), ManagerError> {
    factory.start();
    let paths: Vec<String> = factory.status().into_iter().map(|informer| informer.path).collect();
    let mut needed = preflight::needed(paths.iter().map(String::as_str));
    if let Some(election) = &options.election {
        needed.extend(preflight::needed_for_leases(&election.namespace));
    }
    let synced = tokio::select! {
        biased;
        synced = factory.wait_for_sync(options.start_within) => synced,
        never = warn_of_missing(client, needed.clone()) => never,
    };
    let Err(source) = synced else { return Ok(()) };
    let asked = tokio::time::timeout(PATIENCE, preflight::missing(client, needed)).await;
    Err(ManagerError::NotSynced { source, missing: asked.unwrap_or_default() })
}

/// Long before the deadline; rights may still be given until then.
async fn warn_of_missing<T>(client: &Client, needed: BTreeSet<MissingRule>) -> T {
    for rule in preflight::missing(client, needed).await {
        tracing::warn!(%rule, "a right is missing");
    }
    std::future::pending().await
}

/// So long the server is asked for reasons when the start has failed.
const PATIENCE: Duration = Duration::from_secs(5);
