//! The environment of the checks: the server, the proxy, the informers and the writer.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube_client::{Api, Client};
use kube_informer::{Informer, ListWatch, ReflectorOptions};
use kube_informer_e2e::proxy::Proxy;
use kube_informer_e2e::real::{Backup, RealServer};
use tokio::time::{Instant, sleep, timeout};

use crate::requests::{Budget, Requests};
use crate::subject::{MARK, Subject};
use kube_informer_e2e::load::cluster;
use kube_informer_e2e::load::truth::{Scope, States};
use kube_informer_e2e::load::writer::{CHOSEN, NAMESPACES, Writer};

/// The deadline for recovery after a fault. The slowest recovery consists of two silent watches after a
/// restore, a rejected list, a delay, and a list.
const HEALED: Duration = Duration::from_secs(60);
/// The interval between lists of the expected state. The server itself also writes.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// A fresh list takes no longer.
const LISTED: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Returns options with short times, for which a test can wait.
fn options(seed: u64) -> ReflectorOptions {
    ReflectorOptions {
        streaming_lists: true,
        streaming_deadline: Duration::from_secs(5),
        list_deadline: Duration::from_secs(15),
        watch_timeout: Duration::from_secs(5),
        watch_grace: Duration::from_secs(2),
        bookmark_deadline: Duration::from_secs(5),
        backoff_initial: Duration::from_millis(500),
        backoff_max: Duration::from_secs(4),
        backoff_reset: Duration::from_secs(10),
        seed: Some(seed),
        ..ReflectorOptions::default()
    }
}

/// The environment of the checks.
pub(crate) struct Suite {
    pub(crate) server: RealServer,
    /// The client of the administrator, without the proxy.
    pub(crate) admin: Client,
    pub(crate) proxy: Proxy,
    pub(crate) writer: Writer,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) backup: Option<(Backup, u64)>,
    pub(crate) budget: Budget,
    began: Instant,
    /// The cost of the faults of the present check.
    cost: Cost,
}

impl Suite {
    /// A server with ten thousand objects, and informers that have not been started.
    pub(crate) async fn start(server: RealServer) -> Result<Self> {
        let mut config = server.config().await?;
        config.default_retry = false;
        let admin = Client::try_from(config)?;
        cluster::prepare(&admin).await?;
        let (config_maps, gadgets) = (ApiResource::erase::<ConfigMap>(&()), cluster::gadgets());
        let writer = Writer::start(&admin, &config_maps, &gadgets).await?;
        let address = server.address().context("the parts of this cluster can't be stopped")?;
        let proxy = Proxy::start(address)?;
        let mut suite = Self {
            server,
            admin,
            proxy,
            writer,
            subjects: Vec::new(),
            backup: None,
            budget: Budget::of(&options(0)),
            began: Instant::now(),
            cost: Cost::default(),
        };
        suite.add_subjects(&config_maps, &gadgets).await?;
        Ok(suite)
    }

    async fn add_subjects(&mut self, config_maps: &ApiResource, gadgets: &ApiResource) -> Result<()> {
        let all = || Scope::all(config_maps.clone());

        let (requests, client) = self.connect().await?;
        let typed = Informer::<ConfigMap>::builder(Api::all(client));
        let typed = typed.reflector_options(options(1)).coalesce_threshold(MARK).build();
        self.subjects.push(Subject::new("typed", all(), requests, typed)?);

        let (requests, client) = self.connect().await?;
        let metadata = Informer::<PartialObjectMeta<ConfigMap>>::builder(Api::all(client));
        let metadata = metadata.reflector_options(options(2)).coalesce_threshold(MARK).build();
        self.subjects.push(Subject::new("metadata", all(), requests, metadata)?);

        let (requests, client) = self.connect().await?;
        let paging = ReflectorOptions { page_size: Some(400), streaming_lists: false, ..options(3) };
        let pages = Informer::<ConfigMap>::builder(Api::all(client));
        let pages = pages.reflector_options(paging).coalesce_threshold(MARK).build();
        self.subjects.push(Subject::new("pages", all(), requests, pages)?);

        let (requests, client) = self.connect().await?;
        let chosen = ListWatch::<ConfigMap>::new(Api::all(client)).labels(CHOSEN);
        let chosen =
            Informer::from_source(chosen).reflector_options(options(4)).coalesce_threshold(MARK).build();
        let scope = Scope { labels: Some(CHOSEN), ..all() };
        self.subjects.push(Subject::new("label selector", scope, requests, chosen)?);

        let (requests, client) = self.connect().await?;
        let second = Informer::<ConfigMap>::builder(Api::namespaced(client, NAMESPACES[1]));
        let second = second.reflector_options(options(5)).coalesce_threshold(MARK).build();
        let scope = Scope { namespace: Some(NAMESPACES[1]), ..all() };
        self.subjects.push(Subject::new("one namespace", scope, requests, second)?);

        let (requests, client) = self.connect().await?;
        let dynamic = ListWatch::<DynamicObject>::dynamic(Api::all_with(client, gadgets), gadgets);
        let dynamic =
            Informer::from_source(dynamic).reflector_options(options(6)).coalesce_threshold(MARK).build();
        let scope = Scope::all(gadgets.clone());
        self.subjects.push(Subject::new("custom resource", scope, requests, dynamic)?);
        Ok(())
    }

    /// A client of a user with the rights of an informer, through the proxy.
    async fn connect(&self) -> Result<(Requests, Client)> {
        let mut config = self.server.config_of_nobody().await?;
        config.default_retry = false;
        config.cluster_url = format!("https://{}", self.proxy.address()).parse()?;
        let requests = Requests::default();
        let client = requests.client(config)?;
        Ok((requests, client))
    }

    /// Starts a fault while ten thousand objects change.
    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
        self.writer.go();
    }

    /// Waits after a fault until each cache is equal to a new list and each handler has received all
    /// changes. Then checks the properties and the request budget. All writes have stopped when this
    /// returns.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        self.writer.pause().await?;
        let over = Instant::now();
        let deadline = over + HEALED;
        let truths = loop {
            let truths = timeout(LISTED, self.truths()).await.context("no fresh list")?;
            let behind = match &truths {
                Ok(truths) => self.catch_up(truths).await?,
                Err(error) => Some(format!("no fresh list: {error:#}")),
            };
            match (behind, truths) {
                (None, Ok(truths)) => break truths,
                (behind, _) => {
                    ensure!(Instant::now() < deadline, "{} after {HEALED:?}", behind.unwrap_or_default());
                }
            }
        };
        self.cost.healing = self.cost.healing.max(over.elapsed());
        for subject in &mut self.subjects {
            let truth = truth_of(&truths, &subject.scope)?;
            subject.conclude(truth).await.with_context(|| subject.name)?;
            let asked = subject.requests.check(self.began, self.budget);
            let (lists, watches) = asked.with_context(|| subject.name)?;
            self.cost.lists = self.cost.lists.max(lists);
            self.cost.watches = self.cost.watches.max(watches);
        }
        Ok(())
    }

    /// Returns the cost of the faults since the last call.
    pub(crate) fn take_cost(&mut self) -> Cost {
        std::mem::take(&mut self.cost)
    }

    /// Waits until all informers have the state of the server. Returns the remaining differences after
    /// a timeout.
    async fn catch_up(&mut self, truths: &[(Scope, States)]) -> Result<Option<String>> {
        let deadline = Instant::now() + ASK_AGAIN;
        let mut at = 0;
        loop {
            let Some(subject) = self.subjects.get_mut(at) else { return Ok(None) };
            let truth = truth_of(truths, &subject.scope)?;
            match subject.behind(truth).with_context(|| subject.name)? {
                None => at += 1,
                Some(why) if Instant::now() >= deadline => {
                    return Ok(Some(format!("{} has not caught up: {why}", subject.name)));
                }
                Some(_) => sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Returns the state of the server in each scope.
    async fn truths(&self) -> Result<Vec<(Scope, States)>> {
        let mut truths: Vec<(Scope, States)> = Vec::new();
        for subject in &self.subjects {
            if truths.iter().all(|(scope, _)| *scope != subject.scope) {
                truths.push((subject.scope.clone(), subject.scope.list(&self.admin).await?));
            }
        }
        Ok(truths)
    }

    /// Waits until the condition holds for each informer.
    pub(crate) async fn each(&self, what: &str, is: impl Fn(&Subject) -> bool) -> Result<()> {
        let deadline = Instant::now() + HEALED;
        while let Some(not) = self.subjects.iter().find(|subject| !is(subject)) {
            if Instant::now() >= deadline {
                bail!("{}: the condition {what} does not hold after {HEALED:?}", not.name);
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Stops both servers, does this with etcd's data, and starts both.
    pub(crate) async fn while_stopped<R>(
        &mut self,
        work: impl FnOnce(&RealServer) -> Result<R>,
    ) -> Result<R> {
        self.server.stop_apiserver().await?;
        self.server.stop_etcd().await?;
        let done = work(&self.server)?;
        self.server.start_etcd().await?;
        self.server.start_apiserver().await?;
        Ok(done)
    }

    /// Stops all parts.
    pub(crate) async fn stop(self) -> Result<()> {
        self.writer.stop().await;
        for subject in &self.subjects {
            subject.informer.stop().await;
        }
        drop(self.proxy);
        self.server.stop().await
    }
}

fn truth_of<'a>(truths: &'a [(Scope, States)], scope: &Scope) -> Result<&'a States> {
    truths.iter().find(|(of, _)| of == scope).map(|(_, states)| states).context("the scope was not listed")
}

/// The cost of a fault: the requests of the informer with the most requests, and time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) lists: usize,
    pub(crate) watches: usize,
    /// The time from the last write until all informers have the state of the server, including a new
    /// list.
    pub(crate) healing: Duration,
}
