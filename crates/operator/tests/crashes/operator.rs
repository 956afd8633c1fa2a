//! The operator: a whole one, as `Manager` runs it.

use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client};
use kube_informer::{CachedApi, InformerFactory, ReflectorOptions};
use kube_operator::{
    Action, Applier, Controller, ElectionOptions, EventRecorder, EventType, Failure, Finalizer,
    FinalizerEvent, LeaseTimes, Manager, ManagerError, ManagerOptions, OperationResult, Reconciler,
    create_or_update, set_controller_reference, update_status,
};
use kube_testserver::ApiService;
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::{
    life::{Fate, Life, Step},
    support::{Site, SiteStatus},
    world::{FINALIZER, LEASE, SECOND},
};

/// Shorter than usual, so that a world sees many lives. The usual faults delay a request by 2 s: one that is on its way when its
/// sender leads no more arrives before anybody else leads.
const TIMES: LeaseTimes = LeaseTimes {
    lease_duration: Duration::from_secs(8),
    renew_deadline: Duration::from_secs(5),
    retry_period: SECOND.saturating_mul(2),
};

/// An end that is not death.
pub(crate) const LOST: &str = "by itself, since it has lost its lease";

/// So long a life goes on that is cut off from its lease, unless it sees that itself: others lead meanwhile.
const CUT_OFF: Duration = Duration::from_secs(30);

/// Sees to it that each site says what it is to say, outside, in two ConfigMaps and in its status.
struct Operator {
    life: Life,
    seed: u64,
    /// A row of chances for each site, so that those of one don't depend on what others do at the same moment.
    chances: Mutex<BTreeMap<String, Rng>>,
    sites: CachedApi<Site>,
    maps: CachedApi<ConfigMap>,
    finalizer: Finalizer,
    applier: Applier,
    recorder: EventRecorder,
}

impl Reconciler<Site> for Operator {
    async fn reconcile(&self, request: kube_operator::Request<Site>) -> Result<Action, Failure> {
        self.life.runs(self.run(request)).await
    }
}

impl Operator {
    fn draws(&self, site: &Site, below: u64) -> u64 {
        let name = site.metadata.name.clone().unwrap_or_default();
        let seed = self.seed ^ name.bytes().map(u64::from).sum::<u64>();
        self.chances.lock().entry(name).or_insert_with(|| Rng::with_seed(seed)).u64(..below)
    }

    /// Work that takes time, in which it may end.
    async fn pauses(&self, site: &Site) {
        sleep(Duration::from_millis(self.draws(site, 200))).await;
    }

    async fn run(&self, request: kube_operator::Request<Site>) -> Result<Action, Failure> {
        let Some(site) = request.object else {
            self.finalizer.forget(&request.key);
            return Ok(Action::AwaitChange);
        };
        let run = async |event| match event {
            FinalizerEvent::Apply(site) => self.apply(site).await,
            FinalizerEvent::Cleanup(site) => self.clean_up(&site).await,
        };
        self.finalizer.reconcile(&self.sites, site, run).await
    }

    async fn apply(&self, site: Arc<Site>) -> Result<Action, Failure> {
        let says = [("says".to_owned(), site.spec.says.clone())];
        self.pauses(&site).await;
        self.life.takes(Step::MakeOutside, async { self.life.world.make(&site) }).await;
        self.pauses(&site).await;
        let updated = create_or_update(&self.maps, map(&site, "updated"), |map| {
            map.data = Some(says.clone().into());
            Ok(set_controller_reference(&*site, &(), map)?)
        })
        .await?;
        self.pauses(&site).await;
        let mut applied = map(&site, "applied");
        applied.data = Some(says.clone().into());
        set_controller_reference(&*site, &(), &mut applied)?;
        self.applier.apply(&self.maps, &applied).await?;
        if updated.result != OperationResult::Unchanged {
            self.recorder.event(&*site, EventType::Normal, "Said", "Update", "it says something else");
        }
        self.pauses(&site).await;
        let status = SiteStatus { said: site.spec.says.clone() };
        update_status(&self.sites, site, |site| {
            site.status = Some(status);
            Ok(())
        })
        .await?;
        Ok(Action::Done)
    }

    async fn clean_up(&self, site: &Site) -> Result<Action, Failure> {
        self.life.world.judge_cleanup(site);
        self.pauses(site).await;
        let luck = self.draws(site, 6);
        match luck {
            0 => return Err(Failure::message("no luck")),
            1 => return Ok(Action::RequeueAfter(SECOND)),
            _ => {}
        }
        self.life.takes(Step::CleanUpOutside, async { self.life.world.clean_up(site) }).await;
        self.recorder.event(site, EventType::Normal, "CleanedUp", "Delete", "nothing is left of it");
        self.pauses(site).await;
        Ok(Action::Done)
    }
}

fn map(site: &Site, kind: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = site.metadata.name.as_ref().map(|name| format!("{name}-{kind}"));
    map.metadata.namespace.clone_from(&site.metadata.namespace);
    map
}

/// A life, from a start with empty caches to its end.
pub(crate) async fn live(life: &Life, service: ApiService, mut rng: Rng) {
    // Long enough for its fate, in most cases.
    let least = if matches!(life.fate, Fate::At(..)) { 20_000 } else { 0 };
    let lasts = Duration::from_millis(least + rng.u64(..15_000));
    let time = async {
        match life.fate {
            Fate::Last => pending::<()>().await,
            Fate::Told => {
                sleep(lasts).await;
                life.stop.cancel();
                pending::<()>().await;
            }
            Fate::CutOff => {
                sleep(lasts).await;
                life.cut_off.cancel();
                sleep(CUT_OFF).await;
            }
            _ => sleep(lasts).await,
        }
    };
    let client = life.client(service);
    let options = ReflectorOptions { seed: Some(rng.u64(..)), ..ReflectorOptions::default() };
    let factory = InformerFactory::new(client.clone()).namespace("default").reflector_options(options);
    let manager = manager(life, client, &factory, rng);
    life.world.begins(&life.identity, manager.leadership());
    life.world.tell(format_args!("{} begins: {:?}", life.identity, life.fate));
    tokio::select! {
        biased;
        () = life.over.cancelled() => {}
        ended = manager.run(life.stop.cancelled()) => judge_end(life, ended),
        () = time => match life.world.leads(&life.identity) {
            true => life.dies("Waiting while it leads"),
            false => life.dies("Waiting while another one leads"),
        }
    }
    life.over.cancel();
    life.world.is_over(&life.identity);
    // Caches do nothing to the world: they need not be killed.
    factory.shutdown().await;
}

fn manager(life: &Life, client: Client, factory: &InformerFactory, mut rng: Rng) -> Manager {
    let election = ElectionOptions {
        namespace: "default".to_owned(),
        name: LEASE.to_owned(),
        identity: life.identity.to_string(),
        times: TIMES,
    };
    let options =
        ManagerOptions { bind_address: None, election: Some(election), ..ManagerOptions::default() };
    let mut manager = Manager::with_factory(client, factory.clone(), options).unwrap();
    let (sites, maps) = (factory.informer::<Site>().unwrap(), factory.informer::<ConfigMap>().unwrap());
    let operator = Operator {
        life: life.clone(),
        seed: rng.u64(..),
        chances: Mutex::default(),
        sites: CachedApi::new(Api::default_namespaced(manager.client()), &sites),
        maps: CachedApi::new(Api::default_namespaced(manager.client()), &maps),
        finalizer: Finalizer::new(FINALIZER),
        applier: Applier::new("site-operator").force(),
        recorder: manager.event_recorder("site-operator").unwrap(),
    };
    manager.add_controller(Controller::new(&sites).owns(&maps).concurrency(2), operator);
    manager
}

/// It may end by itself where it can't go on; then another one begins, as after a crash.
fn judge_end(life: &Life, ended: Result<(), ManagerError>) {
    life.world.tell(format_args!("{} has ended: {ended:?}", life.identity));
    match ended {
        Ok(()) if life.stop.is_cancelled() => {}
        Err(ManagerError::LeadershipLost(_)) => life.world.ends(&life.identity, LOST),
        Err(ManagerError::CacheSync { .. }) => {}
        other => life.world.wrong(format!("{} has ended: {other:?}", life.identity)),
    }
}
