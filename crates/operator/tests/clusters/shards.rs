//! Several processes that share the objects of many clusters.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use futures_util::StreamExt;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube_client::client::Body;
use kube_operator::{CachedSlots, ClusterSharding, ClusterState, OwnedSlots, SecretProvider, ShardOptions};
use tokio::time::timeout;

use super::*;

const CLUSTERS: usize = 6;
const OBJECTS: usize = 3;
const STEPS: usize = 12;
const SEEDS: u64 = 4;

/// The running reconciles of all processes, and the violations.
#[derive(Default)]
struct Ledger {
    running: BTreeSet<String>,
    violations: Vec<String>,
    reconciles: usize,
}

type Shared = Arc<Mutex<Ledger>>;

/// A running reconcile. An abort of the process drops it.
struct Reconcile(Shared, String);

impl Reconcile {
    fn start(ledger: &Shared, key: String) -> Self {
        let mut locked = ledger.lock();
        locked.reconciles += 1;
        if !locked.running.insert(key.clone()) {
            locked.violations.push(format!("two processes reconcile {key}"));
        }
        Self(Arc::clone(ledger), key)
    }
}

impl Drop for Reconcile {
    fn drop(&mut self) {
        self.0.lock().running.remove(&self.1);
    }
}

/// The clusters by name.
type Fleet = BTreeMap<String, Server>;

struct Process {
    running: Running,
    clusters: Clusters,
    slots: OwnedSlots,
}

fn shards(sharding: ClusterSharding) -> ManagerOptions {
    let shards = ShardOptions { clusters: sharding, ..ShardOptions::new("default", "operator") };
    ManagerOptions { bind_address: None, shards: Some(shards), ..ManagerOptions::default() }
}

fn field(map: &ConfigMap, name: &str) -> String {
    map.data.as_ref().and_then(|data| data.get(name)).cloned().unwrap_or_default()
}

fn stored(server: &Server, name: &str, field: &str) -> String {
    let map = server.get_untyped("v1", "ConfigMap", Some("default"), name).unwrap();
    map["data"][field].as_str().unwrap_or_default().to_owned()
}

/// Returns a client whose watches are late by this time.
fn late_client(server: &Server, delay: Duration) -> Client {
    let inner = client(server);
    let send = tower::service_fn(move |request: http::Request<Body>| {
        let inner = inner.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let delay = if is_watch { delay } else { Duration::ZERO };
            let response = inner.send(request).await.map_err(tower::BoxError::from)?;
            Ok::<_, tower::BoxError>(response.map(|body| {
                let frames = body.into_data_stream().then(move |frame| async move {
                    sleep(delay).await;
                    frame.map(Frame::data).map_err(tower::BoxError::from)
                });
                StreamBody::new(frames).boxed_unsync()
            }))
        }
    });
    Client::new(send, "default")
}

/// Copies the field `says` into the field `done`, slowly.
async fn copy(
    request: ClusterRequest<ConfigMap>,
    fleet: Arc<Mutex<Fleet>>,
    ledger: Shared,
) -> Result<Action, Failure> {
    let (cluster, name) = (request.cluster.name().to_string(), request.key.name().to_owned());
    let Some(map) = request.object.present().filter(|_| name != "kube-root-ca.crt") else {
        return Ok(Action::Done);
    };
    let _running = Reconcile::start(&ledger, format!("{cluster}/{name}"));
    let server = fleet.lock().get(&cluster).cloned();
    if let Some(server) = server {
        let (observed, stored) = (field(&map, "done"), stored(&server, &name, "done"));
        if observed != stored {
            let stale = format!("{cluster}/{name} was reconciled with {observed:?} after {stored:?}");
            ledger.lock().violations.push(stale);
        }
    }
    sleep(SECOND / 2).await;
    if field(&map, "done") != says(&map) {
        let metadata = json!({"name": name, "namespace": request.key.namespace()});
        let done = serde_json::from_value(json!({"metadata": metadata, "data": {"done": says(&map)}}))?;
        request.cluster.cached_client("test").force().apply::<ConfigMap>(&done).await?;
        sleep(SECOND / 2).await;
    }
    Ok(Action::Done)
}

async fn start(
    hub: &Server,
    fleet: &Arc<Mutex<Fleet>>,
    ledger: &Shared,
    (sharding, delay): (ClusterSharding, Duration),
) -> Process {
    let mut world = World::on(hub.clone(), shards(sharding));
    let controller = ClusterController::new(&world.clusters.informer::<ConfigMap>())
        .owns(&world.clusters.informer::<Secret>())
        .concurrency(4);
    let (of_fleet, of_ledger) = (Arc::clone(fleet), Arc::clone(ledger));
    world.manager.add_cluster_controller(controller, move |request| {
        copy(request, Arc::clone(&of_fleet), Arc::clone(&of_ledger))
    });
    let (clusters, slots) = (world.clusters.clone(), world.manager.owned_slots().unwrap());
    let running = world.run().await;
    let fleet = fleet.lock().clone();
    fleet
        .iter()
        .for_each(|(name, server)| running.set.engage(&super::name(name), late_client(server, delay)));
    running.set.initialized();
    Process { running, clusters, slots }
}

fn new_cluster(number: usize) -> (String, Server) {
    let server = Server::new();
    for object in 0..OBJECTS {
        server.create(&map(&format!("map-{object}"), "0")).unwrap();
    }
    (format!("cluster-{number}"), server)
}

/// Waits until each object of each cluster is copied, and each slot has one owner.
async fn converge(processes: &[Process], fleet: &Arc<Mutex<Fleet>>, context: &str) {
    let pending = || {
        let fleet = fleet.lock();
        let names = fleet.iter().flat_map(|(cluster, server)| {
            (0..OBJECTS).map(move |object| (cluster, server, format!("map-{object}")))
        });
        let is_pending = |(_, server, name): &(&String, &Server, String)| {
            stored(server, name, "done") != stored(server, name, "says")
        };
        names.filter(is_pending).map(|(cluster, _, name)| format!("{cluster}/{name}")).collect::<Vec<_>>()
    };
    for _ in 0..180 {
        let owned: usize = processes.iter().map(|process| process.slots.get().len()).sum();
        let is_settled = processes.iter().all(|process| process.slots.get() == process.slots.wanted());
        if owned == 64 && is_settled && pending().is_empty() {
            return;
        }
        sleep(SECOND).await;
    }
    let owned: Vec<_> = processes.iter().map(|process| process.slots.get()).collect();
    panic!("{context}: {:?} were not reconciled; owned slots: {owned:?}", pending());
}

/// Processes join, stop and crash, clusters join and leave, and objects change. In the end, each object is
/// reconciled, and never by two processes at the same time.
async fn run_seed(seed: u64, sharding: ClusterSharding, processes: usize) {
    let context = format!("seed {seed}, {sharding:?}, {processes} processes");
    let options = (sharding, if seed.is_multiple_of(2) { Duration::ZERO } else { 2 * SECOND });
    let (mut rng, hub, ledger) = (Rng::with_seed(seed), Server::new(), Shared::default());
    let fleet: Arc<Mutex<Fleet>> = Arc::new(Mutex::new((0..CLUSTERS).map(new_cluster).collect()));
    let mut running = Vec::new();
    for _ in 0..processes {
        running.push(start(&hub, &fleet, &ledger, options).await);
    }
    let mut last = CLUSTERS;
    for step in 0..STEPS {
        match rng.u8(..8) {
            0 => running.swap_remove(rng.usize(..running.len())).running.stop().await,
            1 => running.swap_remove(rng.usize(..running.len())).running.manager.abort(),
            2 => {
                let name = fleet.lock().keys().next().cloned().unwrap();
                fleet.lock().remove(&name);
                running.iter().for_each(|process| process.running.set.disengage(&super::name(&name)));
            }
            3 => {
                let (name, server) = new_cluster(last);
                last += 1;
                let engage = |process: &Process| {
                    process.running.set.engage(&super::name(&name), late_client(&server, options.1));
                };
                running.iter().for_each(engage);
                fleet.lock().insert(name, server);
            }
            _ => {
                for server in fleet.lock().values() {
                    let name = format!("map-{}", rng.usize(..OBJECTS));
                    let done = stored(server, &name, "done");
                    let mut changed = map(&name, &step.to_string());
                    changed["data"]["done"] = json!(done);
                    server.update(&changed).unwrap();
                }
            }
        }
        while running.len() < processes {
            running.push(start(&hub, &fleet, &ledger, options).await);
        }
        sleep(Duration::from_secs(rng.u64(..20))).await;
    }
    converge(&running, &fleet, &context).await;
    let names = |process: &Process| {
        process.clusters.list().iter().map(|cluster| cluster.name().to_string()).collect::<Vec<_>>()
    };
    // A process disengages a cluster shortly after its slot has moved.
    sleep(5 * SECOND).await;
    let mut engaged: Vec<String> = running.iter().flat_map(names).collect();
    engaged.sort_unstable();
    let all = fleet.lock().keys().cloned().collect::<Vec<_>>();
    if sharding == ClusterSharding::ByCluster {
        assert_eq!(engaged, all, "{context}: each cluster is engaged in one process");
        for process in &running {
            for status in process.clusters.status() {
                let is_here = process.clusters.get(&status.name).is_some();
                let expected = if is_here { ClusterState::Synced } else { ClusterState::OtherReplica };
                assert_eq!(status.state, expected, "{context}: {}", status.name);
            }
            process.clusters.check_initial().unwrap();
        }
    } else {
        assert_eq!(engaged.len(), processes * all.len(), "{context}");
    }
    let ledger = std::mem::take(&mut *ledger.lock());
    assert!(ledger.violations.is_empty(), "{context}: {:?}", ledger.violations);
    assert!(ledger.reconciles >= CLUSTERS * OBJECTS, "{context}");
    running.iter().for_each(|process| process.running.manager.abort());
}

#[tokio::test(start_paused = true)]
async fn two_processes_share_clusters() {
    for seed in 0..SEEDS {
        run_seed(seed, ClusterSharding::ByCluster, 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn three_processes_share_clusters() {
    for seed in 0..SEEDS {
        run_seed(seed, ClusterSharding::ByCluster, 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn three_processes_share_the_objects_of_each_cluster() {
    for seed in 0..SEEDS {
        run_seed(seed, ClusterSharding::ByKey, 3).await;
    }
}

/// Without an election, and with default options, each process reconciles only the objects in its slots.
#[tokio::test(start_paused = true)]
async fn each_object_is_reconciled_by_one_process_without_an_election() {
    let hub = Server::new();
    let mut processes = Vec::new();
    for _ in 0..2 {
        let options = ManagerOptions {
            bind_address: None,
            shards: Some(ShardOptions::new("default", "operator")),
            election: None,
            ..ManagerOptions::default()
        };
        let mut world = World::on(hub.clone(), options);
        let record = add_recorder(&mut world);
        processes.push((world.run().await, record));
    }
    // The processes divide the slots before the clusters are engaged.
    sleep(60 * SECOND).await;
    for number in 0..12 {
        let server = server("1");
        processes.iter().for_each(|(running, _)| running.engage(&format!("cluster-{number}"), &server));
    }
    sleep(60 * SECOND).await;
    let records: Vec<_> = processes.iter().map(|(_, record)| take(record)).collect();
    let all: BTreeSet<_> = records.iter().flatten().collect();
    assert!(records.iter().all(|record| !record.is_empty()), "{records:?}");
    assert_eq!((all.len(), records[0].len() + records[1].len()), (12, 12), "{records:?}");
    for (running, _) in processes {
        running.stop().await;
    }
}

/// Each process of a group by cluster has only some of the clusters, so a summary would be incomplete.
#[tokio::test(start_paused = true)]
async fn controller_of_the_hub_needs_all_clusters() {
    for (sharding, is_rejected) in [(ClusterSharding::ByCluster, true), (ClusterSharding::ByKey, false)] {
        let mut world = World::on(Server::new(), shards(sharding));
        let source = Source::watches_clusters(&world.clusters.informer::<ConfigMap>(), |_, event| {
            [event.key().clone()]
        });
        let maps = world.manager.factory().informer::<ConfigMap>().unwrap();
        let controller = Controller::new(&maps).watches_source(source);
        world
            .manager
            .add_controller(controller, async |_: Request<ConfigMap>| Ok::<_, Failure>(Action::Done));
        let result = timeout(SECOND, world.manager.run(std::future::pending())).await;
        let is_incomplete = matches!(result, Ok(Err(ManagerError::IncompleteInformer { .. })));
        assert_eq!(is_incomplete, is_rejected, "{sharding:?}");
        assert!(is_rejected || result.is_err(), "the other manager runs: {result:?}");
    }
}

/// The Secret of a cluster can have another slot than the cluster.
#[tokio::test(start_paused = true)]
async fn provider_of_secrets_needs_all_slots() {
    let options = shards(ClusterSharding::ByCluster);
    let own = options.shards.map(|shards| ShardOptions { caches: CachedSlots::Own, ..shards });
    let options = ManagerOptions { shards: own, bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(client(&Server::new()), options).unwrap();
    let secrets = manager.factory().informer::<Secret>().unwrap();
    let _clusters = manager.clusters(SecretProvider::new(&secrets));
    let error = manager.run(std::future::pending()).await.unwrap_err().to_string();
    assert!(error.contains("Selection::all_slots"), "{error}");
}
