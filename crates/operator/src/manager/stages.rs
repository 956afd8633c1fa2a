//! `Stages` starts and stops the parts of a manager. They start in this order and stop in the reverse order:
//!
//! 1. HTTP servers, because probes and metrics must work during the start and the stop.
//! 2. Caches. A follower has filled caches and can take over quickly.
//! 3. The election. A process without caches must not become leader.
//! 4. Controllers and tasks.
//!
//! The lease is released at the end. At that time, all leader-only work has stopped.

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use futures_util::FutureExt;
use kube_client::Client;
use kube_informer::{InformerFactory, InformerStatus};
use tokio::time::{Instant, sleep, timeout};

use super::{
    ManagerError, ManagerOptions, OptionalInformers,
    permissions::{self, RbacPermission},
    runnables::{Runnables, StopReport, TaskSpec},
    shards::ShardsStage,
    task_group::{ABORT_TIMEOUT, FailureReporter, Failures, Stage, TaskFn, TaskGroup},
};
use crate::{Election, Leadership, controller::state::ControllerStates};

/// Number of internal tasks: two HTTP servers, the sampler of their charts, the webhook server and its
/// certificate, the permission check, the election and the shard group.
const OWN_TASKS: usize = 8;

/// Time for the last two requests of the election and for the HTTP responses in progress.
const FINAL_TIMEOUT: Duration = Duration::from_secs(4);

/// Time limit for the permission check after a cache sync timeout.
const PERMISSION_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval of the log lines about informers that are not synced during the start.
const SYNC_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The stages of one manager.
pub(super) struct Stages {
    /// The HTTP servers.
    pub(super) http: TaskGroup,
    caches: CacheStage,
    election: ElectionStage,
    runnables: Runnables,
}

/// Input of [`Stages::start`].
pub(super) struct StartPlan {
    pub(super) options: ManagerOptions,
    pub(super) election: Option<Election>,
    pub(super) shards: Option<ShardsStage>,
    /// The rules that the program needs.
    pub(super) required_rules: BTreeSet<RbacPermission>,
    pub(super) runnables: Vec<TaskSpec>,
}

impl Stages {
    /// Creates stages that have not started. All failures of their tasks arrive at the returned receiver.
    pub(super) fn new(
        caches: CacheStage,
        runnables: usize,
        controllers: ControllerStates,
    ) -> (Self, Failures) {
        // A controller may report a failure early, and again when it ends.
        let (reporter, failures) = Failures::channel(2 * runnables + OWN_TASKS);
        let stages = Self {
            http: TaskGroup::new(reporter(Stage::Http)),
            caches,
            election: ElectionStage::new(reporter(Stage::Election)),
            runnables: Runnables::new(reporter(Stage::Runnables), controllers),
        };
        (stages, failures)
    }

    /// Starts the stages after the HTTP servers. `on_synced` is called when the caches are filled.
    pub(super) async fn start(
        &mut self,
        plan: StartPlan,
        on_synced: impl FnOnce(),
    ) -> Result<(), ManagerError> {
        let StartPlan { options, election, mut shards, required_rules, runnables } = plan;
        if let Some(shards) = &mut shards {
            shards.check(&self.caches.factory)?;
        }
        self.caches.factory.start();
        self.election.start_permission_check(self.caches.client.clone(), required_rules.clone());
        self.caches.wait_for_sync(options.cache_sync_timeout, required_rules).await?;
        on_synced();
        if let Some(election) = election {
            self.election.start(election);
        }
        if let Some(shards) = shards {
            self.election.start_shards(shards, &self.caches);
        }
        self.runnables.start(runnables);
        Ok(())
    }

    /// Stops all stages in the reverse of the start order. Returns the names of tasks that are still running.
    pub(super) async fn stop(mut self, grace_period: Duration) -> Vec<String> {
        let StopReport { mut still_running, all_completed } = self.runnables.stop(grace_period).await;
        if !self.caches.stop().await {
            still_running.push("an informer handler".to_owned());
        }
        let release = still_running.is_empty() && all_completed;
        let deadline = Instant::now() + FINAL_TIMEOUT;
        tokio::join!(self.election.stop(release, deadline), self.http.stop(deadline));
        still_running
    }
}

/// The informers of the factory and of the controllers. They stop also if this is dropped, because
/// handlers and listers of the program would keep them alive.
pub(super) struct CacheStage {
    factory: InformerFactory,
    client: Client,
    optional: OptionalInformers,
}

impl CacheStage {
    pub(super) fn new(factory: InformerFactory, client: Client, optional: OptionalInformers) -> Self {
        Self { factory, client, optional }
    }

    /// Waits until the required caches are filled. An error contains the missing ones of these rules, for
    /// example rules without which the conversion webhook of a cache has no certificate.
    async fn wait_for_sync(
        &self,
        limit: Duration,
        mut required_rules: BTreeSet<RbacPermission>,
    ) -> Result<(), ManagerError> {
        let started = Instant::now();
        let is_required = |informer: &InformerStatus| !self.optional.contains(informer);
        let synced = tokio::select! {
            biased;
            synced = self.factory.wait_for_sync_of(limit, is_required) => synced,
            never = self.log_waiting(limit) => match never {},
        };
        let Err(error) = synced else {
            self.log_synced(started);
            return Ok(());
        };
        let informers = self.factory.status();
        let rules_of = |required| {
            let informers = informers.iter().filter(move |informer| is_required(informer) == required);
            permissions::rules_of_informers(informers)
        };
        let optional = &rules_of(false) - &rules_of(true);
        required_rules.retain(|rule| !optional.contains(rule));
        let check = permissions::missing_rules(&self.client, required_rules);
        let missing = timeout(PERMISSION_CHECK_TIMEOUT, check).await.unwrap_or_default();
        Err(ManagerError::CacheSync { error, missing })
    }

    fn log_synced(&self, started: Instant) {
        let (synced, waiting): (Vec<_>, Vec<_>) =
            self.factory.status().into_iter().partition(|informer| informer.synced);
        let objects: usize = synced.iter().map(|informer| informer.objects).sum();
        tracing::info!(informers = synced.len(), objects, took = ?started.elapsed(), "caches synced");
        for informer in waiting {
            let (error, informer) = (sync_error(&informer), &informer.name);
            tracing::warn!(%informer, error, "optional cache is not synced; its controllers start later");
        }
    }

    /// Logs the informers that are not synced, until the future is dropped.
    async fn log_waiting(&self, timeout: Duration) -> Infallible {
        let started = Instant::now();
        loop {
            sleep(SYNC_LOG_INTERVAL).await;
            for informer in self.factory.status().iter().filter(|informer| !informer.synced) {
                let (error, waited) = (sync_error(informer), started.elapsed());
                let informer = &informer.name;
                tracing::warn!(%informer, error, ?waited, ?timeout, "cache is not synced yet");
            }
        }
    }

    /// Stops the informers. Returns `false` if a handler blocks its thread.
    async fn stop(&self) -> bool {
        timeout(ABORT_TIMEOUT, self.factory.shutdown()).await.is_ok()
    }
}

impl Drop for CacheStage {
    fn drop(&mut self) {
        // The first poll stops the informers.
        let _stopped = self.factory.shutdown().now_or_never();
    }
}

/// Returns why an informer is not synced.
fn sync_error(informer: &InformerStatus) -> &str {
    // Without an error, the server or a proxy holds the response back.
    let no_error = "waiting for a complete list from the server";
    informer.reflector.last_error.as_deref().unwrap_or(no_error)
}

/// Runs the election and the permission check.
struct ElectionStage {
    tasks: TaskGroup,
    /// `None` before the election starts, and without an election.
    leadership: Option<Leadership>,
}

impl ElectionStage {
    fn new(reporter: FailureReporter) -> Self {
        Self { tasks: TaskGroup::new(reporter), leadership: None }
    }

    /// Starts to log missing rules. They may still be granted until the caches time out, and a user
    /// should see them early.
    fn start_permission_check(&mut self, client: Client, rules: BTreeSet<RbacPermission>) {
        let check: TaskFn = Box::new(move |_, stop| {
            async move {
                let _stopped = stop.run_until_cancelled(log_missing_rules(&client, rules)).await;
                Ok(())
            }
            .boxed()
        });
        self.tasks.spawn("the permission check".to_owned(), Leadership::always(), check);
    }

    fn start(&mut self, election: Election) {
        let leadership = election.leadership();
        self.leadership = Some(leadership.clone());
        let run: TaskFn = Box::new(move |_, stop| election.run(stop).map(Ok).boxed());
        self.tasks.spawn("the election".to_owned(), leadership, run);
    }

    fn start_shards(&mut self, shards: ShardsStage, caches: &CacheStage) {
        let (factory, optional) = (caches.factory.clone(), caches.optional.clone());
        let run: TaskFn = Box::new(move |_, stop| shards.run(factory, optional, stop).map(Ok).boxed());
        self.tasks.spawn("the shard group".to_owned(), Leadership::always(), run);
    }

    /// Stops the election. If `release` is false, lets the lease expire, because an aborted task may
    /// have a request in flight.
    async fn stop(&mut self, release: bool, deadline: Instant) {
        let was_leader = self.leadership.as_ref().is_some_and(Leadership::is_leader);
        let is_released = if release {
            self.tasks.stop(deadline).await
        } else {
            self.tasks.abort().await;
            false
        };
        if was_leader && !is_released {
            tracing::warn!(
                "lease was not released, because requests of controllers and tasks may be in flight; other candidates wait until it expires"
            );
        }
    }
}

async fn log_missing_rules(client: &Client, rules: BTreeSet<RbacPermission>) {
    for rule in permissions::missing_rules(client, rules).await {
        tracing::warn!(%rule, "RBAC permission is missing");
    }
}
