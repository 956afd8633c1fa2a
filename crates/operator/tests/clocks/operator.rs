//! The operator under test: a complete program on a `Manager`.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams},
};
use kube_informer::{CachedApi, InformerFactory, ReflectorOptions};
use kube_operator::{
    Action, Cleanup, Controller, ElectionOptions, EventRecorder, EventType, Failure, Finalizer, LeaseExpired,
    LeaseTimes, Manager, ManagerError, ManagerOptions, NotLeading, Reconciler, Request, RunsOn,
    create_or_update, set_controller_reference, update_status,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    judge::Coverage,
    process::ProcessContext,
    support::{Site, SiteStatus},
};

pub(crate) const LEASE: &str = "site-operator";
const SOON: Duration = Duration::from_millis(100);

/// Copies the message of each site to a ConfigMap and to its status.
struct Operator {
    me: ProcessContext,
    rng: Mutex<Rng>,
    sites: CachedApi<Site>,
    maps: CachedApi<ConfigMap>,
    finalizer: Finalizer,
    recorder: EventRecorder,
}

impl Reconciler<Site> for Operator {
    async fn reconcile(&self, request: Request<Site>) -> Result<Action, Failure> {
        self.me.judge.count(Coverage::Reconcile);
        self.me.check_action("a reconcile started");
        self.reconcile_site(request).await
    }
}

impl Operator {
    /// Simulates work that takes time.
    async fn work(&self) {
        let millis = self.rng.lock().u64(..800);
        sleep(Duration::from_millis(millis)).await;
    }

    async fn reconcile_site(&self, request: Request<Site>) -> Result<Action, Failure> {
        let Some(site) = request.object.present() else { return Ok(Action::AwaitChange) };
        let clean_up = async |_| {
            self.work().await;
            Ok(Cleanup::Done)
        };
        self.finalizer.reconcile(&self.sites, site, |site| self.apply(site), clean_up).await
    }

    async fn apply(&self, site: Arc<Site>) -> Result<Action, Failure> {
        self.work().await;
        let mut map = ConfigMap::default();
        map.metadata.name.clone_from(&site.metadata.name);
        map.metadata.namespace.clone_from(&site.metadata.namespace);
        let says = [("says".to_owned(), site.spec.says.clone())];
        create_or_update(&self.maps, map, |map| {
            map.data = Some(says.clone().into());
            Ok(set_controller_reference(&*site, &(), map)?)
        })
        .await?;
        self.recorder.event(&*site, EventType::Normal, "Said", "Update", "the message changed");
        self.work().await;
        let status = SiteStatus { said: site.spec.says.clone() };
        update_status(&self.sites, site, |site| {
            site.status = Some(status);
            Ok(())
        })
        .await?;
        // In many cases, the cache does not contain the write when the next reconcile starts.
        if self.rng.lock().u8(..2) == 0 {
            return Ok(Action::Done);
        }
        *self.me.reconciles_soon.lock() = Some(Instant::now() + 8 * SOON);
        Ok(Action::RequeueAfter(SOON))
    }
}

/// Writes repeatedly without a check of leadership. The guarded client must reject the writes of followers.
async fn write_repeatedly(me: ProcessContext, maps: Api<ConfigMap>, mut rng: Rng) -> Result<(), Failure> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"by": *me.identity}});
    loop {
        sleep(Duration::from_millis(rng.u64(..2000))).await;
        if let Err(error) = maps.patch("note", &PatchParams::apply("note").force(), &Patch::Apply(&map)).await
        {
            count_error(&me, &error);
        }
    }
}

fn count_error(me: &ProcessContext, error: &kube_client::Error) {
    let kube_client::Error::Service(error) = error else { return };
    if error.is::<NotLeading>() {
        me.judge.count(Coverage::NotLeading);
    }
    if error.is::<LeaseExpired>() {
        me.judge.count(Coverage::LeaseExpired);
    }
}

pub(crate) async fn run(
    me: ProcessContext,
    client: Client,
    is_guarded: bool,
    stop: CancellationToken,
    mut rng: Rng,
) -> Result<(), ManagerError> {
    let options = ReflectorOptions { seed: Some(rng.u64(..)), ..ReflectorOptions::default() };
    let factory = InformerFactory::new(client.clone()).namespace("default").reflector_options(options);
    let election = ElectionOptions {
        namespace: "default".to_owned(),
        name: LEASE.to_owned(),
        identity: me.identity.to_string(),
        times: LeaseTimes::default(),
    };
    let options =
        ManagerOptions { bind_address: None, election: Some(election), ..ManagerOptions::default() };
    let mut manager = Manager::with_factory(client.clone(), factory.clone(), options).unwrap();
    me.leadership.set(manager.leadership()).unwrap();
    let (sites, maps) = (factory.informer::<Site>().unwrap(), factory.informer::<ConfigMap>().unwrap());
    let writer = if is_guarded { manager.client() } else { client };
    let workers = rng.usize(1..=2);
    let (notes, note_rng) = (Api::default_namespaced(writer.clone()), rng.fork());
    let note_writer = me.clone();
    manager.add_task("notes", RunsOn::EveryReplica, |stop| async move {
        stop.run_until_cancelled(write_repeatedly(note_writer, notes, note_rng)).await.unwrap_or(Ok(()))
    });
    let operator = Operator {
        me,
        rng: Mutex::new(rng),
        sites: CachedApi::new(Api::default_namespaced(writer.clone()), &sites),
        maps: CachedApi::new(Api::default_namespaced(writer), &maps),
        finalizer: Finalizer::new("shop.example.com/site"),
        recorder: manager.event_recorder("site-operator").unwrap(),
    };
    manager.add_controller(Controller::new(&sites).owns(&maps).concurrency(workers), operator);
    manager.run(stop.cancelled()).await
}
