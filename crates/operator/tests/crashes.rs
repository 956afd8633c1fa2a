//! An operator that is killed anywhere, again and again, under a paused clock: nothing that it has made outlives its object,
//! nothing is cleaned up twice once that was said, and what is left has what it asks for.
//!
//! Its lives end at any moment, or with a request: one that never came to the server, or one whose answer never came back. Each
//! begins with empty caches, before a replica that may be behind what the life before has seen and done. What is made is kept
//! outside of the cluster, where no garbage collector looks.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use fastrand::Rng;
use http::{Method, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Api, Client, client::Body};
use kube_informer::{CachedApi, InformerFactory, ReflectorOptions};
use kube_operator::{
    Action, Applier, Controller, Failure, Finalizer, FinalizerEvent, Leadership, Reconciler,
    create_or_update, set_controller_reference,
};
use kube_testserver::{ApiService, Lag, Plan, Replica, Server};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use support::{Site, VERSION, site};

mod support;

const SECOND: Duration = Duration::from_secs(1);
const OURS: &str = "shop.example.com/site";
const OTHER: &str = "other.example.com/hold";
/// So many worlds, and so many things that are done to the objects of each.
const SEEDS: u64 = 40;
const STEPS: usize = 60;
/// After all troubles all has to be well within so many seconds.
const CONVERGES: usize = 600;
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// A server, what was made outside of it, and what should not have happened.
struct World {
    server: Server,
    /// What is said outside of the cluster, by the uid of the site that asks for it.
    outside: Mutex<BTreeMap<String, String>>,
    wrongs: Mutex<Vec<String>>,
    cleanups: AtomicUsize,
}

impl World {
    fn new(seed: u64) -> Arc<Self> {
        let server = support::server(Some(Plan::usual(seed).rate(0.05)));
        let (outside, wrongs, cleanups) = Default::default();
        Arc::new(Self { server, outside, wrongs, cleanups })
    }

    fn site(&self, name: &str) -> Option<Value> {
        self.server.get(VERSION, "Site", Some("default"), name).ok()
    }

    /// Whether the server has this very site now, with the finalizer.
    fn holds(&self, site: &Site) -> bool {
        let there = self.site(site.metadata.name.as_deref().unwrap_or_default()).unwrap_or_default();
        let is_ours = |names: &Vec<Value>| names.iter().any(|name| name == OURS);
        there["metadata"]["uid"].as_str() == site.metadata.uid.as_deref()
            && there["metadata"]["finalizers"].as_array().is_some_and(is_ours)
    }

    fn judge(&self, site: &Site, what: &str) {
        if !self.holds(site) {
            let (name, uid) = (&site.metadata.name, &site.metadata.uid);
            self.wrongs.lock().push(format!("{what} without its finalizer: {name:?} {uid:?}"));
        }
    }

    fn make(&self, site: &Site) {
        self.judge(site, "something was made for a site");
        self.outside.lock().insert(site.metadata.uid.clone().unwrap(), site.spec.says.clone());
    }

    fn clean_up(&self, site: &Site) {
        self.judge(site, "a site was cleaned up");
        self.cleanups.fetch_add(1, SeqCst);
        self.outside.lock().remove(site.metadata.uid.as_ref().unwrap());
    }

    /// What is not as it should be in the end.
    fn amiss(&self) -> Vec<String> {
        let (sites, maps) = (self.list(VERSION, "Site"), self.list("v1", "ConfigMap"));
        let mut outside = self.outside.lock().clone();
        let mut amiss = Vec::new();
        let mut expected = Vec::new();
        for site in &sites {
            let (meta, says) = (&site["metadata"], &site["spec"]["says"]);
            if !meta["deletionTimestamp"].is_null() {
                amiss.push(format!("{} is still being deleted", meta["name"]));
            }
            if outside.remove(meta["uid"].as_str().unwrap()).as_deref() != says.as_str() {
                amiss.push(format!("{} does not have what it asks for outside", meta["name"]));
            }
            for kind in ["updated", "applied"] {
                let name = format!("{}-{kind}", meta["name"].as_str().unwrap());
                expected.push(json!([name, says, meta["uid"]]));
            }
        }
        amiss.extend(outside.keys().map(|uid| format!("what was made for {uid} is left")));
        let is = maps.iter().map(|map| {
            let meta = &map["metadata"];
            json!([meta["name"], map["data"]["says"], meta["ownerReferences"][0]["uid"]])
        });
        let is: Vec<Value> = is.collect();
        amiss.extend(expected.iter().filter(|map| !is.contains(map)).map(|map| format!("{map} is missing")));
        amiss.extend(is.iter().filter(|map| !expected.contains(map)).map(|map| format!("{map} is left")));
        amiss
    }

    fn list(&self, version: &str, kind: &str) -> Vec<Value> {
        self.server.list(version, kind, Some("default")).unwrap()
    }
}

/// What people do to the objects.
async fn workload(world: &World, mut rng: Rng) {
    let server = &world.server;
    for step in 0..STEPS {
        sleep(Duration::from_millis(rng.u64(..1500))).await;
        let name = ["a", "b", "c"][rng.usize(..3)];
        let child = format!("{name}-{}", ["updated", "applied"][rng.usize(..2)]);
        let says = json!({"says": step.to_string()});
        // Much of it is not possible just then.
        let _done = match rng.u8(..10) {
            0..=2 => {
                let others: &[&str] = if rng.bool() { &[OTHER] } else { &[] };
                server.create(site(name, &step.to_string(), others))
            }
            3..=4 => server.patch(VERSION, "Site", Some("default"), name, &json!({"spec": says})),
            5..=6 => server.delete(VERSION, "Site", Some("default"), name),
            7 => server.patch("v1", "ConfigMap", Some("default"), &child, &json!({"data": says})),
            8 => server.delete("v1", "ConfigMap", Some("default"), &child),
            _ => {
                release(world, name);
                continue;
            }
        };
    }
}

/// The other finalizer is taken away.
fn release(world: &World, name: &str) {
    let Some(there) = world.site(name) else { return };
    let mut finalizers = there["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|name| name != OTHER);
    let patch = json!({"metadata": {"finalizers": finalizers}});
    world.server.patch(VERSION, "Site", Some("default"), name, &patch).unwrap();
}

/// Where in a request a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Sent,
    Answered,
}

/// One life of the operator, as its client sees it.
#[derive(Clone)]
struct Life {
    requests: Arc<AtomicUsize>,
    /// It ends with this one of its own requests; those of its caches do not count.
    ends_at: Option<(usize, Moment)>,
    over: CancellationToken,
}

impl Life {
    fn new(ends_at: Option<(usize, Moment)>) -> Self {
        Self { requests: Arc::default(), ends_at, over: CancellationToken::new() }
    }

    fn client(&self, service: ApiService) -> Client {
        let life = self.clone();
        let send = tower::service_fn(move |request: Request<Body>| {
            let (life, service) = (life.clone(), service.clone());
            async move {
                let number = (!is_of_a_cache(&request)).then(|| life.requests.fetch_add(1, SeqCst));
                life.reaches(number, Moment::Sent).await;
                let answer = service.oneshot(request).await;
                life.reaches(number, Moment::Answered).await;
                answer
            }
        });
        Client::new(send, "default")
    }

    /// Goes on, unless this life is over.
    async fn reaches(&self, number: Option<usize>, moment: Moment) {
        if self.ends_at.is_some() && self.ends_at == number.map(|number| (number, moment)) {
            self.over.cancel();
        }
        if self.over.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

fn is_of_a_cache(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    request.method() == Method::GET && (path.ends_with("/sites") || path.ends_with("/configmaps"))
}

/// Sees to it that each site says what it is to say, outside and in two ConfigMaps.
struct Operator {
    world: Arc<World>,
    rng: Mutex<Rng>,
    sites: CachedApi<Site>,
    maps: CachedApi<ConfigMap>,
    finalizer: Finalizer,
    applier: Applier,
}

impl Reconciler<Site> for Operator {
    async fn reconcile(&self, request: kube_operator::Request<Site>) -> Result<Action, Failure> {
        let Some(site) = request.object else {
            self.finalizer.forget(&request.key);
            return Ok(Action::AwaitChange);
        };
        let run = async |event| match event {
            FinalizerEvent::Apply(site) => self.apply(&site).await,
            FinalizerEvent::Cleanup(site) => self.clean_up(&site).await,
        };
        self.finalizer.reconcile(&self.sites, site, run).await
    }
}

impl Operator {
    /// Time in which the operator may end.
    async fn pause(&self) {
        let pause = self.rng.lock().u64(..200);
        sleep(Duration::from_millis(pause)).await;
    }

    async fn apply(&self, site: &Site) -> Result<Action, Failure> {
        self.pause().await;
        self.world.make(site);
        self.pause().await;
        create_or_update(&self.maps, map(site, "updated"), |map| {
            map.data = Some([("says".to_owned(), site.spec.says.clone())].into());
            Ok(set_controller_reference(site, &(), map)?)
        })
        .await?;
        self.pause().await;
        let mut applied = map(site, "applied");
        applied.data = Some([("says".to_owned(), site.spec.says.clone())].into());
        set_controller_reference(site, &(), &mut applied)?;
        self.applier.apply(&self.maps, &applied).await?;
        Ok(Action::Done)
    }

    async fn clean_up(&self, site: &Site) -> Result<Action, Failure> {
        self.world.judge(site, "the cleanup of a site has begun");
        self.pause().await;
        let luck = self.rng.lock().u8(..6);
        match luck {
            0 => return Err(Failure::message("no luck")),
            1 => return Ok(Action::RequeueAfter(SECOND)),
            _ => self.world.clean_up(site),
        }
        self.pause().await;
        Ok(Action::Done)
    }
}

fn map(site: &Site, kind: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = site.metadata.name.as_ref().map(|name| format!("{name}-{kind}"));
    map.metadata.namespace.clone_from(&site.metadata.namespace);
    map
}

/// A life, which takes so long at most. Whether it has ended before.
async fn live(world: &Arc<World>, service: ApiService, seed: u64, life: Life, lasts: Duration) -> bool {
    let client = life.client(service);
    let options = ReflectorOptions { seed: Some(seed), ..ReflectorOptions::default() };
    let factory = InformerFactory::new(client.clone()).reflector(options);
    let (sites, maps) = (factory.informer::<Site>().unwrap(), factory.informer::<ConfigMap>().unwrap());
    let operator = Operator {
        world: Arc::clone(world),
        rng: Mutex::new(Rng::with_seed(seed)),
        sites: CachedApi::new(Api::default_namespaced(client.clone()), &sites),
        maps: CachedApi::new(Api::default_namespaced(client), &maps),
        finalizer: Finalizer::new(OURS),
        applier: Applier::new("site-operator").force(),
    };
    let controller = Controller::new(&sites).owns(&maps).concurrency(2);
    let ended = tokio::select! {
        biased;
        () = life.over.cancelled() => true,
        _ = controller.run(operator, Leadership::alone(), CancellationToken::new()) => false,
        () = sleep(lasts) => false,
    };
    life.over.cancel();
    // Caches do nothing to the world: they need not be killed.
    factory.shutdown().await;
    ended
}

/// Lives one after the other, until this is told to end. How many of them there were, and ended with a request.
async fn lives(
    world: &Arc<World>,
    replicas: &[Replica],
    mut rng: Rng,
    end: &CancellationToken,
) -> (usize, usize) {
    let (mut lives, mut ended) = (0, 0);
    while !end.is_cancelled() {
        let replica = &replicas[rng.usize(..replicas.len())];
        replica.set_lag(match rng.u8(..3) {
            0 => Lag::None,
            1 => Lag::Time(Duration::from_millis(rng.u64(..3000))),
            _ => Lag::Revisions(rng.u64(..10)),
        });
        let moment = if rng.bool() { Moment::Sent } else { Moment::Answered };
        let ends_at = (rng.u8(..4) > 0).then(|| (rng.usize(..10), moment));
        let lasts = Duration::from_millis(rng.u64(..6000));
        let life = Life::new(ends_at);
        ended += usize::from(live(world, replica.service(), rng.u64(..), life, lasts).await);
        lives += 1;
    }
    (lives, ended)
}

/// Waits until all has been well for a minute, or too long.
async fn settle(world: &World) {
    let mut well = 0;
    for _ in 0..CONVERGES {
        sleep(SECOND).await;
        well = if world.amiss().is_empty() { well + 1 } else { 0 };
        if well == 60 {
            return;
        }
    }
}

/// Troubles, and then peace. How many lives there were, how many of them ended with a request, and how many cleanups.
async fn simulate(seed: u64) -> Result<[usize; 3], String> {
    let (world, mut rng) = (World::new(seed), Rng::with_seed(seed));
    let replicas = [world.server.itself(), world.server.replica(Lag::None), world.server.replica(Lag::None)];
    let (work, end) = (rng.fork(), CancellationToken::new());
    let working = async {
        workload(&world, work).await;
        end.cancel();
    };
    let ((lives, ended), ()) = tokio::join!(lives(&world, &replicas, rng.fork(), &end), working);

    world.server.plan().unwrap().stop();
    replicas.iter().for_each(|replica| replica.set_lag(Lag::None));
    ["a", "b", "c"].iter().for_each(|name| release(&world, name));
    let last = Life::new(None);
    let over = last.over.clone();
    let settling = async {
        settle(&world).await;
        over.cancel();
    };
    tokio::join!(live(&world, world.server.service(), seed, last, FOR_EVER), settling);
    let mut wrongs = world.wrongs.lock().clone();
    wrongs.extend(world.amiss());
    match wrongs.is_empty() {
        true => Ok([lives, ended, world.cleanups.load(SeqCst)]),
        false => Err(wrongs.join("\n")),
    }
}

#[tokio::test(start_paused = true)]
async fn however_often_an_operator_dies_nothing_is_orphaned_forgotten_or_cleaned_up_too_late() {
    let mut counts = [0; 3];
    for seed in 0..SEEDS {
        let counted = simulate(seed).await.unwrap_or_else(|wrongs| panic!("seed {seed}:\n{wrongs}"));
        counts.iter_mut().zip(counted).for_each(|(sum, count)| *sum += count);
    }
    let [lives, ended, cleanups] = counts;
    assert!(lives > 400 && ended > 150 && cleanups > 150, "too little has happened: {counts:?}");
}
