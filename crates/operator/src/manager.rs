//! `Manager`: what an operator consists of, started in order and stopped in the reverse one.

mod error;
mod options;
pub(crate) mod permissions;
pub(crate) mod signals;
mod task_group;

pub use error::ManagerError;
pub use options::{ManagerOptions, RunsOn};

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use futures_util::{FutureExt, TryFutureExt};
use kube_client::Client;
use kube_informer::{Cached, InformerFactory};
use prometheus_client::registry::Registry;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use self::{
    permissions::MissingRule,
    task_group::{Group, Kind, LAST_MOMENT, Part, Parts, Rest, Trouble, Work},
};
use crate::{
    Controller, Election, EventRecorder, Failure, Leadership, Reconciler, RecorderError,
    election::host,
    observe::{
        collector::Shown,
        metrics::Metrics,
        pages::{self, Checks, Site, Stage},
        serve::{listen, serve},
    },
};

/// Starts what an operator consists of, in order: its pages, its caches, the election, its controllers. Ends it in the
/// reverse order, the lease last, so that nobody else begins before this process has ended what it did.
///
/// ```no_run
/// # use std::time::Duration;
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
/// # use kube_operator::{Action, Controller, ElectionOptions, Failure, Manager, ManagerOptions, Request, shutdown_signal};
/// # async fn example(client: kube_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut manager = Manager::new(client, ManagerOptions {
///     election: Some(ElectionOptions::new("shop", "web-operator")),
///     ..ManagerOptions::default()
/// })?;
/// let writer = manager.client(); // writes only while this process leads
/// manager.require_permissions(&["create", "delete"], "", "pods", None);
/// let deployments = manager.factory().informer::<Deployment>()?;
/// let pods = manager.factory().informer::<Pod>()?;
/// manager.add_controller(Controller::new(&deployments).owns(&pods), move |request: Request<Deployment>| {
///     let writer = writer.clone();
///     async move {
///         // ... make it so ...
///         # drop((writer, request));
///         Ok::<_, Failure>(Action::Done)
///     }
/// });
/// manager.run(shutdown_signal()).await?; // until SIGTERM
/// # Ok(()) }
/// ```
#[must_use = "it does nothing before `run`"]
pub struct Manager {
    options: ManagerOptions,
    /// For questions that are asked before this process leads.
    client: Client,
    factory: InformerFactory,
    election: Option<Election>,
    leadership: Leadership,
    listener: Option<(TcpListener, SocketAddr)>,
    probes: Option<(TcpListener, SocketAddr)>,
    registry: Registry,
    metrics: Metrics,
    shown: Shown,
    checks: Checks,
    recorders: BTreeMap<String, EventRecorder>,
    needs: BTreeSet<MissingRule>,
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
        let leadership = election.as_ref().map_or_else(Leadership::always, Election::leadership);
        let listening = |address: Option<SocketAddr>| {
            let Some(address) = address else { return Ok(None) };
            listen(address).map(Some).map_err(|source| ManagerError::Bind { address, source })
        };
        let (listener, probes) = (listening(options.bind_address)?, listening(options.probe_address)?);
        let mut registry = Registry::default();
        let metrics = Metrics::default();
        metrics.register(&mut registry);
        let elected = election.as_ref().map(|election| election.shown());
        let shown = Shown { factory: factory.clone(), controllers: Vec::new(), election: elected };
        Ok(Self {
            options,
            client,
            factory,
            election,
            leadership,
            listener,
            probes,
            registry,
            metrics,
            shown,
            checks: Checks::default(),
            recorders: BTreeMap::new(),
            needs: BTreeSet::new(),
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
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|(_, address)| *address)
    }

    /// Where the probes are served, likewise.
    pub fn local_probe_address(&self) -> Option<SocketAddr> {
        self.probes.as_ref().map(|(_, address)| *address)
    }

    /// For metrics of one's own, which `/metrics` then shows, too.
    pub fn metrics_registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// A recorder of events by a controller of this name, of a process that is named as in the election; without one as its
    /// host (`HOSTNAME`, which in a Pod is the Pod's name), or as the controller where that is not known. It writes while
    /// this process leads, and at the end what is left when the controllers have ended. It is made once for each name.
    ///
    /// # Errors
    /// A name that servers refuse.
    pub fn event_recorder(&mut self, controller: &str) -> Result<EventRecorder, RecorderError> {
        if let Some(recorder) = self.recorders.get(controller) {
            return Ok(recorder.clone());
        }
        let identity = self.options.election.as_ref().map(|election| election.identity.clone());
        let instance = identity.or_else(host).unwrap_or_else(|| controller.to_owned());
        let (recorder, broadcaster) = EventRecorder::new(self.client(), controller, &instance)?;
        self.add_task(format!("events of {controller}"), RunsOn::EveryReplica, |stop| async {
            broadcaster.run(stop).await;
            Ok(())
        });
        self.recorders.insert(controller.to_owned(), recorder.clone());
        Ok(recorder)
    }

    /// These verbs on this resource (`pods`, `pods/status`) of this API group (`""` for the core group) are needed, too: where
    /// the server says at the start that they are not allowed, a log does. What informers and the election need is asked
    /// for in any case; what controllers write and recorders (`create` and `patch` of `events` of `events.k8s.io`) only a
    /// program knows. `None` is the whole cluster.
    pub fn require_permissions(
        &mut self,
        verbs: &[&str],
        group: &str,
        resource: &str,
        namespace: Option<&str>,
    ) {
        self.needs.extend(permissions::needed_for(verbs, group, resource, namespace));
    }

    /// A check of one's own for `/readyz`, which says what is wrong. It must not block.
    pub fn add_readyz_check(
        &mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.checks.ready.push((name.into(), Box::new(check)));
    }

    /// The same for `/healthz`: where it is answered with an error for long enough, the kubelet starts the process anew.
    pub fn add_healthz_check(
        &mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.checks.healthy.push((name.into(), Box::new(check)));
    }

    /// Runs a controller in the process that leads.
    pub fn add_controller<T: Cached>(&mut self, controller: Controller<T>, reconciler: impl Reconciler<T>) {
        self.add_controller_on(RunsOn::LeaderOnly, controller, reconciler);
    }

    /// Runs a controller. Its informers are started, waited for and stopped with those of the factory, wherever they are
    /// from.
    pub fn add_controller_on<T: Cached>(
        &mut self,
        runs_on: RunsOn,
        controller: Controller<T>,
        reconciler: impl Reconciler<T>,
    ) {
        let prepared = controller.prepare(reconciler, &self.metrics);
        prepared.join(&self.factory);
        let state = Arc::clone(&prepared.state);
        self.shown.controllers.push(Arc::clone(&state));
        self.parts.push(Part {
            name: state.options.name.to_string(),
            leadership: self.leadership_for(runs_on),
            kind: Kind::Controller(state),
            work: Box::new(move |leadership, stop| {
                prepared.run(leadership, stop).map_err(Failure::from).boxed()
            }),
        });
    }

    /// Runs anything else: what it is given tells it to stop, which is when the controllers have ended. It may end before; if
    /// it fails the manager ends. One for the leader begins when this process leads.
    pub fn add_task<F>(
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
            RunsOn::LeaderOnly => self.leadership.clone(),
            RunsOn::EveryReplica => Leadership::always(),
        }
    }

    /// Runs all of it until `stop` comes, such as [`shutdown_signal`](crate::shutdown_signal); then ends it, with the grace that the
    /// options give to what is under way. What runs for the leader is dropped where it waits when the lease is lost, also
    /// within the grace.
    ///
    /// # Errors
    /// See [`ManagerError`]. But for [`ManagerError::ShutdownTimeout`], and a check of one's own that blocks, all is ended by then; the
    /// process should end, too.
    ///
    /// # Cancel safety
    /// Dropped, it ends as if it had crashed: runs are dropped where they wait, and the lease is left to expire.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let _stops = Caches(self.factory.clone());
        if let Some(name) = self.name_used_twice() {
            return Err(ManagerError::DuplicateName(name));
        }
        let Self { options, client, factory, election, leadership, listener, probes, .. } = self;
        let stage = watch::Sender::new(Stage::Starting);
        let site = site(self.registry, self.shown, self.checks, stage.subscribe());
        let mut pages = Group::default();
        pages.start(
            "the pages".to_owned(),
            Leadership::always(),
            served(listener, pages::router(site.clone())),
        );
        pages.start("the probes".to_owned(), Leadership::always(), served(probes, pages::probes(site)));
        let mut elected = Group::default();
        let mut running = Parts::default();
        let works = async {
            factory.start();
            let for_caches = needed_for_caches(&factory);
            let leases = options
                .election
                .iter()
                .flat_map(|of| permissions::needed_for_leases(&of.namespace, &of.name));
            let rights = for_caches.iter().cloned().chain(self.needs).chain(leases).collect();
            elected.start("rights".to_owned(), Leadership::always(), asked(client.clone(), rights));
            if let Err(source) = factory.wait_for_sync(options.cache_sync_timeout).await {
                let asked = timeout(PATIENCE, permissions::missing(&client, for_caches)).await;
                return Err(ManagerError::NotSynced { source, missing: asked.unwrap_or_default() });
            }
            stage.send_replace(Stage::Running);
            if let Some(election) = election {
                elected.start("the election".to_owned(), leadership, held(election));
            }
            running.start(self.parts);
            Ok::<_, ManagerError>(tokio::select! {
                trouble = elected.trouble() => trouble,
                trouble = running.trouble() => trouble,
            })
        };
        let ended = tokio::select! {
            biased;
            () = stop => Ok(None),
            trouble = pages.trouble() => Ok(Some(trouble)),
            ended = works => ended.map(Some),
        };
        stage.send_replace(Stage::Stopping);
        let grace = match &ended {
            Ok(Some(Trouble::LeadershipLost)) => Duration::ZERO,
            _ => options.graceful_shutdown_timeout,
        };
        let Rest { trouble, mut at_it, all_ended } = running.stop(grace).await;
        if timeout(LAST_MOMENT, factory.shutdown()).await.is_err() {
            at_it.push("a handler of an informer".to_owned());
        }
        let farewell = Instant::now() + FAREWELL;
        let release = async {
            match at_it.is_empty() && all_ended {
                true => _ = elected.stop(farewell).await,
                // Whoever comes next has to wait until the lease has expired: what was dropped may have a request on its way.
                false => elected.abandon().await,
            }
        };
        tokio::join!(release, pages.stop(farewell));
        let ended = match ended.map(|ended| ended.or(trouble)) {
            Ok(None) => Ok(()),
            Ok(Some(trouble)) => Err(error::error(trouble, options.election.as_ref())),
            Err(error) => Err(error),
        };
        match at_it.is_empty() {
            true => ended,
            false => {
                Err(ManagerError::ShutdownTimeout { still_running: at_it, cause: ended.err().map(Box::new) })
            }
        }
    }

    fn name_used_twice(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        self.parts.iter().map(|part| &part.name).find(|name| !names.insert(*name)).cloned()
    }
}

/// Stops its informers also where nobody waits for that: handlers and listers of the program would keep them alive.
struct Caches(InformerFactory);

impl Drop for Caches {
    fn drop(&mut self) {
        // The first poll stops them.
        let _stopped = self.0.shutdown().now_or_never();
    }
}

/// To answer what was asked, and to give back the lease: two requests.
const FAREWELL: Duration = Duration::from_secs(4);

fn site(mut registry: Registry, shown: Shown, checks: Checks, stage: watch::Receiver<Stage>) -> Arc<Site> {
    let shown = Arc::new(shown);
    registry.register_collector(Box::new(Arc::clone(&shown)));
    Arc::new(Site { registry, shown, checks, stage })
}

fn served(listener: Option<(TcpListener, SocketAddr)>, router: Router) -> Work {
    Box::new(move |_, stop| {
        async move {
            let Some((listener, address)) = listener else { return Ok(()) };
            tracing::info!(%address, "serves pages");
            Ok(serve(listener, router, stop).await?)
        }
        .boxed()
    })
}

fn held(election: Election) -> Work {
    Box::new(move |_, stop| election.run(stop).map(Ok).boxed())
}

/// Warns of rights that are missing. Those of caches may still be given until the deadline: a person should know long before.
fn asked(client: Client, rights: BTreeSet<MissingRule>) -> Work {
    Box::new(move |_, stop| {
        async move {
            let _stopped = stop.run_until_cancelled(warn_of_missing(&client, rights)).await;
            Ok(())
        }
        .boxed()
    })
}

/// What informers of this cluster need. One object by its name takes another rule than its path tells; what was made
/// elsewhere may be of another cluster.
fn needed_for_caches(factory: &InformerFactory) -> BTreeSet<MissingRule> {
    let informers = factory.status();
    let whole =
        informers.iter().filter(|informer| !informer.name.contains("metadata.name=") && !informer.adopted);
    permissions::needed(whole.map(|informer| informer.path.as_str()))
}

async fn warn_of_missing(client: &Client, needed: BTreeSet<MissingRule>) {
    for rule in permissions::missing(client, needed).await {
        tracing::warn!(%rule, "a right is missing");
    }
}

/// So long the server is asked for reasons when the start has failed.
const PATIENCE: Duration = Duration::from_secs(5);
