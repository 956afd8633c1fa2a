//! The operator under test: a complete program on a `Manager`.

use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{CachedApi, InformerFactory, ReflectorOptions, ShardKey};
use kube_operator::{
    Action, Applier, Cleanup, Controller, ElectionOptions, EventRecorder, EventType, Failure, Finalizer,
    LeaseTimes, Manager, ManagerError, ManagerOptions, OperationResult, Reconciler, ShardOptions,
    create_or_update, set_controller_reference, update_status,
};
use kube_testserver::ApiService;
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::{
    process::{CrashPoint, Process, Step},
    support::{Site, SiteStatus},
    world::{FINALIZER, LEASE, SECOND, Sharing},
};

/// Shorter than the default, because a world runs many processes. The usual faults delay a request by 2
/// s. A request in flight at the renew deadline therefore arrives before another process becomes
/// leader.
const TIMES: LeaseTimes = LeaseTimes {
    lease_duration: Duration::from_secs(8),
    renew_deadline: Duration::from_secs(5),
    retry_period: SECOND.saturating_mul(2),
};

/// An end without a crash.
pub(crate) const LOST_LEASE: &str = "lost its lease";

/// Time for which a disconnected process may run. During this time, another process becomes leader.
const DISCONNECTED_TIME: Duration = Duration::from_secs(30);

/// Copies the message of each site to an external resource, two ConfigMaps and its status.
struct Operator {
    process: Process,
    seed: u64,
    /// A random generator per site. The values of one site therefore do not depend on the order of
    /// other sites.
    rngs: Mutex<BTreeMap<String, Rng>>,
    sites: CachedApi<Site>,
    maps: CachedApi<ConfigMap>,
    finalizer: Finalizer,
    applier: Applier,
    recorder: EventRecorder,
}

impl Reconciler<Site> for Operator {
    async fn reconcile(&self, request: kube_operator::Request<Site>) -> Result<Action, Failure> {
        let site = request.key.name().to_owned();
        let version =
            request.object.clone().present().and_then(|site| site.metadata.resource_version.clone());
        let _running = self.process.world.start_reconcile(&self.process, &site, version.as_deref());
        self.process.run_reconcile(self.reconcile_site(request)).await
    }
}

impl Operator {
    fn draw(&self, site: &Site, below: u64) -> u64 {
        let name = site.metadata.name.clone().unwrap_or_default();
        let seed = self.seed ^ name.bytes().map(u64::from).sum::<u64>();
        self.rngs.lock().entry(name).or_insert_with(|| Rng::with_seed(seed)).u64(..below)
    }

    /// Simulates work that takes time. The process may crash in this time.
    async fn work(&self, site: &Site) {
        sleep(Duration::from_millis(self.draw(site, 200))).await;
    }

    async fn reconcile_site(&self, request: kube_operator::Request<Site>) -> Result<Action, Failure> {
        let Some(site) = request.object.present() else { return Ok(Action::AwaitChange) };
        let (apply, clean_up) = (|site| self.apply(site), |site| self.clean_up(site));
        self.finalizer.reconcile(&self.sites, site, apply, clean_up).await
    }

    async fn apply(&self, site: Arc<Site>) -> Result<Action, Failure> {
        let says = [("says".to_owned(), site.spec.says.clone())];
        self.work(&site).await;
        self.process.take_step(Step::MakeOutside, async { self.process.world.make(&site) }).await;
        self.work(&site).await;
        let updated = create_or_update(&self.maps, map(&site, "updated"), |map| {
            map.data = Some(says.clone().into());
            Ok(set_controller_reference(&*site, &(), map)?)
        })
        .await?;
        self.work(&site).await;
        let mut applied = map(&site, "applied");
        applied.data = Some(says.clone().into());
        set_controller_reference(&*site, &(), &mut applied)?;
        self.applier.apply(&self.maps, &applied).await?;
        if updated.result != OperationResult::Unchanged {
            self.recorder.event(&*site, EventType::Normal, "Said", "Update", "the message changed");
        }
        self.work(&site).await;
        let status = SiteStatus { said: site.spec.says.clone() };
        update_status(&self.sites, site, |site| {
            site.status = Some(status);
            Ok(())
        })
        .await?;
        Ok(Action::Done)
    }

    async fn clean_up(&self, site: Arc<Site>) -> Result<Cleanup, Failure> {
        let site = &*site;
        self.process.world.check_cleanup(site);
        self.work(site).await;
        let chance = self.draw(site, 6);
        match chance {
            0 => return Err(Failure::from("random failure")),
            1 => return Ok(Cleanup::RetryAfter(SECOND)),
            _ => {}
        }
        self.process.take_step(Step::CleanUpOutside, async { self.process.world.clean_up(site) }).await;
        self.recorder.event(site, EventType::Normal, "CleanedUp", "Delete", "all resources are deleted");
        self.work(site).await;
        Ok(Cleanup::Done)
    }
}

fn map(site: &Site, kind: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = site.metadata.name.as_ref().map(|name| format!("{name}-{kind}"));
    map.metadata.namespace.clone_from(&site.metadata.namespace);
    map
}

/// Runs a process from its start to its crash or stop.
pub(crate) async fn run(process: &Process, service: ApiService, mut rng: Rng) {
    // In most cases, this is long enough to reach the crash point. Slots move only after a lease duration.
    let minimum = match (process.crash_point, process.world.sharing) {
        (_, Sharing::Shards) => 25_000,
        (CrashPoint::At(..), Sharing::Election) => 20_000,
        _ => 0,
    };
    let duration = Duration::from_millis(minimum + rng.u64(..15_000));
    let time = async {
        match process.crash_point {
            CrashPoint::Never => pending::<()>().await,
            CrashPoint::Stopped => {
                sleep(duration).await;
                process.stop.cancel();
                pending::<()>().await;
            }
            CrashPoint::Disconnected => {
                sleep(duration).await;
                process.disconnected.cancel();
                sleep(DISCONNECTED_TIME).await;
            }
            _ => sleep(duration).await,
        }
    };
    let client = process.client(service);
    let options = ReflectorOptions { seed: Some(rng.u64(..)), ..ReflectorOptions::default() };
    let factory = InformerFactory::new(client.clone()).namespace("default").reflector_options(options);
    let manager = manager(process, client, &factory, rng);
    process.world.add_process(&process.identity, manager.leadership(), manager.owned_slots());
    process.world.log(format_args!("{} starts: {:?}", process.identity, process.crash_point));
    tokio::select! {
        biased;
        () = process.ended.cancelled() => {}
        result = manager.run(process.stop.cancelled()) => check_end(process, result),
        () = time => {
            let is_leader = process.world.has_work(&process.identity);
            process.crash(if is_leader { "waiting as leader" } else { "waiting as follower" });
        }
    }
    process.ended.cancel();
    process.world.remove_process(&process.identity);
    // Caches have no effect on the world and may stop in order.
    factory.shutdown().await;
}

fn manager(process: &Process, client: Client, factory: &InformerFactory, mut rng: Rng) -> Manager {
    let options = match process.world.sharing {
        Sharing::Election => {
            ManagerOptions { election: Some(election(process)), ..ManagerOptions::default() }
        }
        // All sites are in one namespace.
        Sharing::Shards => {
            let shards =
                ShardOptions { key: ShardKey::Name, times: TIMES, ..ShardOptions::new("default", LEASE) };
            ManagerOptions { shards: Some(shards), ..ManagerOptions::default() }
        }
    };
    let options = ManagerOptions { bind_address: None, ..options };
    let mut manager = Manager::with_factory(client, factory.clone(), options).unwrap();
    let (sites, maps) = (factory.informer::<Site>().unwrap(), factory.informer::<ConfigMap>().unwrap());
    let operator = Operator {
        process: process.clone(),
        seed: rng.u64(..),
        rngs: Mutex::default(),
        sites: CachedApi::new(Api::default_namespaced(manager.client()), &sites),
        maps: CachedApi::new(Api::default_namespaced(manager.client()), &maps),
        finalizer: Finalizer::new(FINALIZER),
        applier: Applier::new("site-operator").force(),
        recorder: manager.event_recorder("site-operator").unwrap(),
    };
    manager.add_controller(Controller::new(&sites).owns(&maps).concurrency(2), operator);
    manager
}

fn election(process: &Process) -> ElectionOptions {
    ElectionOptions {
        namespace: "default".to_owned(),
        name: LEASE.to_owned(),
        identity: process.identity.to_string(),
        times: TIMES,
    }
}

/// Checks the result of a manager. After an error, a new process starts, as after a crash.
fn check_end(process: &Process, result: Result<(), ManagerError>) {
    process.world.log(format_args!("{} stopped: {result:?}", process.identity));
    match result {
        Ok(()) if process.stop.is_cancelled() => {}
        Err(ManagerError::LeadershipLost { .. }) => process.world.record_end(&process.identity, LOST_LEASE),
        Err(ManagerError::CacheSync { .. }) => {}
        other => process.world.violation(format!("{} stopped: {other:?}", process.identity)),
    }
}
