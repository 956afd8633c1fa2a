//! A fleet of 50 clusters that are added and removed at random, under faults, in virtual time. No event of a
//! cluster is lost or attributed to another cluster. No key, task or memory of a removed cluster remains.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fastrand::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{Client, client::Body};
use kube_informer::Event;
use kube_operator::{
    Action, ClusterController, ClusterEngager, ClusterHandlerRegistration, ClusterInformer, ClusterKey,
    ClusterName, ClusterRequest, Clusters, Failure, Manager, ManagerError, ManagerOptions,
    prometheus_client::{encoding::text, registry::Registry},
    workqueue::{ItemExponentialFailureRateLimiter, RateLimiter},
};
use kube_testserver::{FaultPlan, Server};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const CLUSTERS: usize = 50;
const ACTIONS: usize = 2000;
const SECOND: Duration = Duration::from_secs(1);

/// After this time without faults, all caches are up to date, and all failed keys were retried.
const SETTLE_TIME: Duration = Duration::from_secs(1200);

/// The number of each object, by its cluster and name.
type Objects = BTreeMap<String, BTreeMap<String, u64>>;

/// A cluster of the fleet, which exists while it is not engaged.
struct Member {
    name: ClusterName,
    server: Server,
    objects: BTreeMap<String, u64>,
    is_engaged: bool,
    /// Each client of the cluster holds a clone.
    alive: Arc<()>,
}

impl Member {
    fn new(number: usize, seed: u64) -> Self {
        let name = ClusterName::new(format!("c{number}")).unwrap();
        let plan = FaultPlan::common_faults(seed);
        let server = Server::builder().seed(seed).plan(plan).build();
        Self { name, server, objects: BTreeMap::new(), is_engaged: false, alive: Arc::default() }
    }

    fn client(&self) -> Client {
        let (service, alive) = (self.server.service(), Arc::clone(&self.alive));
        let send = tower::service_fn(move |request: http::Request<Body>| {
            let _alive = &alive;
            service.clone().oneshot(request)
        });
        Client::new(send, "default")
    }

    /// Creates, updates or deletes an object.
    fn change(&mut self, number: u64, random: &mut Rng) {
        let name = format!("map-{}", random.u8(0..5));
        let data = json!({"cluster": self.name.as_str(), "number": number.to_string()});
        let metadata = json!({"name": name, "namespace": "default"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        let of = |map: &Value| map["data"].clone();
        if !self.objects.contains_key(&name) {
            self.server.create(&map).unwrap();
        } else if random.bool() {
            self.server.delete_untyped("v1", "ConfigMap", Some("default"), &name).unwrap();
            self.objects.remove(&name);
            return;
        } else {
            let patch = json!({"data": of(&map)});
            self.server.patch_untyped("v1", "ConfigMap", Some("default"), &name, &patch).unwrap();
        }
        self.objects.insert(name, number);
    }
}

/// Returns the number of an object, after a check that it belongs to the cluster.
fn number_in(cluster: &ClusterName, map: &ConfigMap) -> u64 {
    let data = map.data.as_ref().unwrap();
    assert_eq!(data["cluster"], cluster.as_str(), "an object of another cluster");
    data["number"].parse().unwrap()
}

/// Records the keys of which the limiter remembers failures.
struct Remembered {
    limiter: ItemExponentialFailureRateLimiter<ClusterKey>,
    keys: Arc<Mutex<BTreeSet<ClusterKey>>>,
}

impl RateLimiter<ClusterKey> for Remembered {
    fn when(&self, key: &ClusterKey, now: Instant) -> Duration {
        self.keys.lock().insert(key.clone());
        self.limiter.when(key, now)
    }

    fn forget(&self, key: &ClusterKey) {
        self.keys.lock().remove(key);
        self.limiter.forget(key);
    }

    fn num_requeues(&self, key: &ClusterKey) -> u32 {
        self.limiter.num_requeues(key)
    }
}

/// The last observed number of each object: as a handler and as the reconciler observe it.
#[derive(Clone, Default)]
struct Observed {
    by_handler: Arc<Mutex<Objects>>,
    by_reconciler: Arc<Mutex<Objects>>,
}

fn set_number(objects: &Mutex<Objects>, cluster: &ClusterName, name: &str, number: Option<u64>) {
    let mut objects = objects.lock();
    let of_cluster = objects.entry(cluster.to_string()).or_default();
    match number {
        Some(number) => _ = of_cluster.insert(name.to_owned(), number),
        None => _ = of_cluster.remove(name),
    }
    objects.retain(|_, of_cluster| !of_cluster.is_empty());
}

struct Fleet {
    members: Vec<Member>,
    set: ClusterEngager,
    random: Rng,
}

impl Fleet {
    async fn act(&mut self, number: u64) {
        let index = self.random.usize(0..CLUSTERS);
        let member = &mut self.members[index];
        match self.random.u8(0..10) {
            0 => self.toggle(index),
            1 => {
                // Leaves and returns without a pause.
                self.toggle(index);
                self.toggle(index);
            }
            2 => sleep(Duration::from_millis(self.random.u64(0..20_000))).await,
            _ => member.change(number, &mut self.random),
        }
    }

    fn toggle(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.is_engaged = !member.is_engaged;
        if member.is_engaged {
            self.set.engage(&member.name, member.client());
        } else {
            self.set.disengage(&member.name);
        }
    }

    /// Returns the objects of the engaged clusters.
    fn truth(&self) -> Objects {
        let engaged = self.members.iter().filter(|member| member.is_engaged && !member.objects.is_empty());
        engaged.map(|member| (member.name.to_string(), member.objects.clone())).collect()
    }
}

/// An operator that reconciles the ConfigMaps of the fleet.
struct Operator {
    set: ClusterEngager,
    clusters: Clusters,
    maps: ClusterInformer<ConfigMap>,
    observed: Observed,
    /// The keys of which the rate limiter remembers failures.
    remembered: Arc<Mutex<BTreeSet<ClusterKey>>>,
    registry: Registry,
    _registration: ClusterHandlerRegistration<ConfigMap>,
    stop: CancellationToken,
    running: JoinHandle<Result<(), ManagerError>>,
}

impl Operator {
    async fn start(seed: u64) -> Self {
        let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
        let mut manager = Manager::new(Client::new(Server::new().service(), "default"), options).unwrap();
        let (sender, set) = oneshot::channel();
        let clusters = manager.clusters(async move |clusters: ClusterEngager, stop: CancellationToken| {
            sender.send(clusters).unwrap();
            stop.cancelled().await;
            Ok::<_, Failure>(())
        });
        let (maps, observed) = (clusters.informer::<ConfigMap>(), Observed::default());
        let of_handler = Arc::clone(&observed.by_handler);
        let registration = maps.add_handler(move |cluster, event: &Event<ConfigMap>| {
            let number = number_in(cluster.name(), event.entry());
            let number = Some(number).filter(|_| !matches!(event, Event::Deleted { .. }));
            set_number(&of_handler, cluster.name(), event.key().name(), number);
        });
        // This function is called after the last reconcile. A later reconcile would add objects again.
        let of_reconciler = Arc::clone(&observed.by_reconciler);
        clusters.on_disengage(move |cluster| _ = of_reconciler.lock().remove(cluster.name().as_str()));
        let remembered = add_controller(&mut manager, &maps, &observed, seed);
        let mut registry = Registry::default();
        manager.register_metrics(&mut registry);
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
        let set = set.await.unwrap();
        sleep(SECOND).await;
        Self {
            set,
            clusters,
            maps,
            observed,
            remembered,
            registry,
            _registration: registration,
            stop,
            running,
        }
    }

    /// Checks that all events of the fleet arrived.
    fn assert_observed(&self, truth: &Objects, seed: u64) {
        assert_eq!(*self.observed.by_handler.lock(), *truth, "the handler, seed {seed}");
        assert_eq!(*self.observed.by_reconciler.lock(), *truth, "the reconciler, seed {seed}");
        let mut listed = Objects::new();
        for key in self.maps.keys() {
            let number = number_in(&key.cluster, &self.maps.get(&key).unwrap());
            listed.entry(key.cluster.to_string()).or_default().insert(key.key.name().to_owned(), number);
        }
        assert_eq!(listed, *truth, "the lister, seed {seed}");
    }

    /// Checks that no part of a cluster that has left remains.
    fn assert_empty(&self, fleet: &Fleet, seed: u64) {
        self.assert_observed(&Objects::new(), seed);
        assert_eq!(self.clusters.status().len(), 0, "seed {seed}");
        assert_eq!(
            *self.remembered.lock(),
            BTreeSet::new(),
            "failures of clusters that have left, seed {seed}"
        );
        let alive = fleet.members.iter().filter(|member| Arc::strong_count(&member.alive) > 1).count();
        assert_eq!(alive, 0, "clusters that have left and are in memory, seed {seed}");
        let mut metrics = String::new();
        text::encode(&mut metrics, &self.registry).unwrap();
        assert!(!metrics.contains("cluster=\""), "{metrics}");
        let depth: Vec<_> = metrics.lines().filter(|line| line.starts_with("workqueue_depth{")).collect();
        assert!(depth.len() == 2 && depth.iter().all(|line| line.ends_with(" 0.0")), "{depth:?}");
    }
}

/// Adds a controller whose reconciles fail at random. Returns the keys of which its rate limiter remembers
/// failures.
fn add_controller(
    manager: &mut Manager,
    maps: &ClusterInformer<ConfigMap>,
    observed: &Observed,
    seed: u64,
) -> Arc<Mutex<BTreeSet<ClusterKey>>> {
    let remembered = Arc::<Mutex<BTreeSet<ClusterKey>>>::default();
    let limiter = ItemExponentialFailureRateLimiter::new(SECOND / 10, 300 * SECOND);
    let controller = ClusterController::new(maps)
        .concurrency(8)
        .rate_limiter(Remembered { limiter, keys: Arc::clone(&remembered) });
    let (of_reconciler, random) = (Arc::clone(&observed.by_reconciler), Mutex::new(Rng::with_seed(seed)));
    manager.add_cluster_controller(controller, move |request: ClusterRequest<ConfigMap>| {
        let ClusterRequest { cluster, key, object, .. } = request;
        let number = object.present().map(|map| number_in(cluster.name(), &map));
        let mut random = random.lock();
        let (millis, fails) = (random.u64(0..3000), random.u8(0..4) == 0);
        let observed = Arc::clone(&of_reconciler);
        async move {
            sleep(Duration::from_millis(millis)).await;
            if fails {
                return Err(Failure::from("at random"));
            }
            set_number(&observed, cluster.name(), key.name(), number);
            Ok(Action::Done)
        }
    });
    remembered
}

async fn run(seed: u64) {
    let operator = Operator::start(seed).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let members = (0..CLUSTERS).map(|number| Member::new(number, seed * 1000 + number as u64)).collect();
    let mut fleet = Fleet { members, set: operator.set.clone(), random: Rng::with_seed(seed) };
    (0..CLUSTERS).for_each(|index| fleet.toggle(index));
    for number in 0..ACTIONS {
        fleet.act(number as u64).await;
    }
    fleet.members.iter().for_each(|member| member.server.plan().unwrap().stop());
    sleep(SETTLE_TIME).await;
    operator.assert_observed(&fleet.truth(), seed);

    // All clusters leave, with failed keys in the queue.
    for member in &mut fleet.members {
        (0..5).for_each(|number| member.change(number, &mut fleet.random));
    }
    sleep(2 * SECOND).await;
    for index in 0..CLUSTERS {
        if fleet.members[index].is_engaged {
            fleet.toggle(index);
        }
    }
    sleep(10 * SECOND).await;
    operator.assert_empty(&fleet, seed);
    assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks, "tasks, seed {seed}");
    operator.stop.cancel();
    operator.running.await.unwrap().unwrap();
}

/// `CLUSTER_SEEDS` is the number of seeds, and `CLUSTER_SEED` is the first seed.
#[tokio::test(start_paused = true)]
async fn random_fleet_has_no_lost_events_and_no_leaks() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, seeds) = (number("CLUSTER_SEED").unwrap_or(0), number("CLUSTER_SEEDS").unwrap_or(3));
    for seed in first..first + seeds {
        run(seed).await;
    }
}
