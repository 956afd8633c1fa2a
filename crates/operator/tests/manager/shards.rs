//! Tests of managers that share the objects of their controllers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::StreamExt;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::{Patch, PatchParams},
    client::Body,
};
use kube_object::{ShardKey, SlotSet};
use kube_operator::{
    Action, Controller, Failure, Manager, ManagerError, ManagerOptions, OwnedSlots, Request, RunsOn,
    ShardOptions,
};
use kube_testserver::Server;
use parking_lot::Mutex;
use serde_json::json;

use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::requests::get;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);
pub(crate) const NAMESPACES: usize = 60;

/// The objects that are being reconciled, and the processes that have reconciled each object.
#[derive(Default)]
struct Record {
    running: BTreeSet<String>,
    processes: BTreeMap<String, BTreeSet<usize>>,
    overlaps: Vec<String>,
}

/// A running reconcile. An abort of the process drops it.
struct Running(Arc<Mutex<Record>>, String);

impl Running {
    fn start(record: &Arc<Mutex<Record>>, key: String, process: usize) -> Self {
        let mut locked = record.lock();
        if !locked.running.insert(key.clone()) {
            locked.overlaps.push(key.clone());
        }
        locked.processes.entry(key.clone()).or_default().insert(process);
        Self(Arc::clone(record), key)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running.remove(&self.1);
    }
}

pub(crate) struct Process {
    pub(crate) slots: OwnedSlots,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) task: JoinHandle<Result<(), ManagerError>>,
}

pub(crate) fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn options() -> ManagerOptions {
    ManagerOptions {
        bind_address: None,
        shards: Some(ShardOptions::new("default", "operator")),
        ..ManagerOptions::default()
    }
}

/// Returns a server with a ConfigMap in each namespace.
pub(crate) fn server() -> Server {
    let server = Server::new();
    for number in 0..NAMESPACES {
        let metadata = json!({"name": format!("team-{number}")});
        server.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).unwrap();
        create(&server, number, "first");
    }
    server
}

pub(crate) fn create(server: &Server, namespace: usize, name: &str) {
    let metadata = json!({"name": name, "namespace": format!("team-{namespace}")});
    server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
}

pub(crate) fn run(manager: Manager) -> Process {
    let slots = manager.owned_slots().unwrap();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(manager.run(async move { drop(stopped.await) }));
    Process { slots, stop, task }
}

/// Starts a process that writes the number of reconciles of each object into the object.
fn start(server: &Server, process: usize, record: &Arc<Mutex<Record>>) -> Process {
    let mut manager = Manager::new(client(server), options()).unwrap();
    let (maps, client) = (manager.factory().informer::<ConfigMap>().unwrap(), manager.client());
    let record = Arc::clone(record);
    let reconcile = move |request: Request<ConfigMap>| {
        let (record, client) = (Arc::clone(&record), client.clone());
        async move {
            let Some(map) = request.object.present() else { return Ok(Action::Done) };
            let _running = Running::start(&record, request.key.to_string(), process);
            sleep(SECOND / 50).await;
            let count: u64 = map.data.as_ref().and_then(|data| data.get("count")?.parse().ok()).unwrap_or(0);
            let result = if count == 0 {
                let patch = json!({"data": {"count": (count + 1).to_string()}});
                let api = Api::<ConfigMap>::namespaced(client, request.key.namespace().unwrap());
                let params = PatchParams::default();
                api.patch(request.key.name(), &params, &Patch::Merge(patch)).await.map(|_| Action::Done)
            } else {
                Ok(Action::Done)
            };
            result.map_err(Failure::from)
        }
    };
    manager.add_controller(Controller::new(&maps).concurrency(4), reconcile);
    run(manager)
}

fn count(server: &Server, name: &str) -> usize {
    let namespaces = 0..NAMESPACES;
    let counted = namespaces.filter(|namespace| {
        let key = format!("team-{namespace}");
        let map = server.get_untyped("v1", "ConfigMap", Some(&key), name);
        map.is_ok_and(|map| map["data"]["count"] == "1")
    });
    counted.count()
}

pub(crate) async fn wait_until(is_done: impl Fn() -> bool) {
    let wait = async {
        while !is_done() {
            sleep(SECOND / 20).await;
        }
    };
    timeout(DAY, wait).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_object_is_reconciled_by_one_process_at_a_time() {
    let server = server();
    let record = Arc::new(Mutex::new(Record::default()));
    let processes: Vec<Process> = (0..3).map(|process| start(&server, process, &record)).collect();
    wait_until(|| count(&server, "first") == NAMESPACES).await;
    let owned = || processes.iter().map(|process| process.slots.get().len()).collect::<Vec<_>>();
    wait_until(|| owned().iter().all(|count| (20..=22).contains(count))).await;

    // Each process reconciles its share of the new objects.
    record.lock().processes.clear();
    (0..NAMESPACES).for_each(|namespace| create(&server, namespace, "second"));
    wait_until(|| count(&server, "second") == NAMESPACES).await;
    let reconciled = std::mem::take(&mut record.lock().processes);
    assert!(reconciled.values().all(|processes| processes.len() == 1), "{reconciled:?}");
    assert_eq!(reconciled.values().flatten().collect::<BTreeSet<_>>().len(), 3, "{reconciled:?}");

    // A stopped process releases its slots, and a crashed process loses them.
    let [first, second, third] = processes.try_into().unwrap_or_else(|_| panic!("three processes"));
    first.stop.send(()).unwrap();
    first.task.await.unwrap().unwrap();
    second.task.abort();
    (0..NAMESPACES).for_each(|namespace| create(&server, namespace, "third"));
    wait_until(|| count(&server, "third") == NAMESPACES).await;
    wait_until(|| third.slots.get().len() == 64).await;
    third.stop.send(()).unwrap();
    third.task.await.unwrap().unwrap();
    let record = record.lock();
    assert!(record.overlaps.is_empty(), "{:?}", record.overlaps);
}

#[tokio::test(start_paused = true)]
async fn existing_objects_are_reconciled_after_a_slot_moves() {
    let server = server();
    let record = Arc::new(Mutex::new(Record::default()));
    let first = start(&server, 0, &record);
    wait_until(|| count(&server, "first") == NAMESPACES).await;
    let second = start(&server, 1, &record);
    wait_until(|| second.slots.get().len() == 32).await;
    record.lock().processes.clear();
    first.task.abort();
    wait_until(|| second.slots.get().len() == 64).await;
    wait_until(|| record.lock().processes.len() > NAMESPACES / 4).await;
    let record = record.lock();
    assert!(record.processes.values().all(|processes| processes.contains(&1)), "{:?}", record.processes);
}

#[tokio::test(start_paused = true)]
async fn controllers_on_every_replica_reconcile_all_objects() {
    let server = server();
    let mut counts = Vec::new();
    let mut managers = Vec::new();
    for _ in 0..2 {
        let mut manager = Manager::new(client(&server), options()).unwrap();
        let maps = manager.factory().informer::<ConfigMap>().unwrap();
        let keys = Arc::new(Mutex::new(BTreeSet::new()));
        counts.push(Arc::clone(&keys));
        let reconcile = move |request: Request<ConfigMap>| {
            keys.lock().insert(request.key.to_string());
            async { Ok::<_, Failure>(Action::Done) }
        };
        manager.add_controller_on(RunsOn::EveryReplica, Controller::new(&maps), reconcile);
        managers.push(tokio::spawn(manager.run(std::future::pending())));
    }
    wait_until(|| counts.iter().all(|keys| keys.lock().len() == NAMESPACES)).await;
}

#[tokio::test(start_paused = true)]
async fn reconcile_is_dropped_when_its_slot_is_lost() {
    let server = server();
    let mut manager = Manager::new(client(&server), options()).unwrap();
    let (maps, guarded) = (manager.factory().informer::<ConfigMap>().unwrap(), manager.client());
    let errors = Arc::new(Mutex::new(Vec::new()));
    let (recorded, other) = (Arc::clone(&errors), client(&server));
    let reconcile = move |request: Request<ConfigMap>| {
        let (guarded, recorded, other) = (guarded.clone(), Arc::clone(&recorded), other.clone());
        async move {
            if request.key.namespace() == Some("team-7") {
                let leases = Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(other, "default");
                leases.delete("operator", &Default::default()).await.unwrap();
                sleep(3 * SECOND).await;
                let api = Api::<ConfigMap>::namespaced(guarded, "team-7");
                let patch = Patch::Merge(json!({"data": {"late": "true"}}));
                let late = api.patch("first", &PatchParams::default(), &patch).await;
                recorded.lock().push(late.map(|_| ()).map_err(|error| error.to_string()));
            }
            Ok::<_, Failure>(Action::Done)
        }
    };
    manager.add_controller(Controller::new(&maps), reconcile);
    let slots = manager.owned_slots().unwrap();
    let task = tokio::spawn(manager.run(std::future::pending()));
    wait_until(|| slots.get().len() == 64).await;
    wait_until(|| slots.get() == SlotSet::default()).await;
    sleep(5 * SECOND).await;
    assert!(errors.lock().is_empty(), "the reconcile was not dropped: {:?}", errors.lock());
    let map = server.get_untyped("v1", "ConfigMap", Some("team-7"), "first").unwrap();
    assert!(map["data"]["late"].is_null());
    task.abort();
}

/// Returns a client whose watches of ConfigMaps deliver events only while `is_open` is true.
fn gated_client(server: &Server, is_open: &watch::Receiver<bool>) -> Client {
    let (inner, is_open) = (client(server), is_open.clone());
    let send = tower::service_fn(move |request: http::Request<Body>| {
        let (inner, is_open) = (inner.clone(), is_open.clone());
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let is_gated = is_watch && request.uri().path().ends_with("/configmaps");
            let response = inner.send(request).await.map_err(tower::BoxError::from)?;
            if !is_gated {
                return Ok(response.map(|body| body.map_err(tower::BoxError::from).boxed_unsync()));
            }
            Ok::<_, tower::BoxError>(response.map(|body| {
                let frames = body.into_data_stream().then(move |frame| {
                    let mut is_open = is_open.clone();
                    async move {
                        let _closed = is_open.wait_for(|is_open| *is_open).await;
                        frame.map(Frame::data).map_err(tower::BoxError::from)
                    }
                });
                StreamBody::new(frames).boxed_unsync()
            }))
        }
    });
    Client::new(send, "default")
}

/// The cache of the new owner is behind. It must not reconcile before it contains the writes of the last
/// owner.
#[tokio::test(start_paused = true)]
async fn new_owner_observes_the_writes_of_the_last_owner() {
    let server = server();
    let (open, is_open) = watch::channel(true);
    let writes = Arc::new(AtomicBool::new(false));
    let observed: Arc<Mutex<BTreeMap<String, Vec<bool>>>> = Arc::default();
    let start = |client: Client, is_first: bool| {
        let mut manager = Manager::new(client, options()).unwrap();
        let (maps, client) = (manager.factory().informer::<ConfigMap>().unwrap(), manager.client());
        let (writes, observed) = (Arc::clone(&writes), Arc::clone(&observed));
        let reconcile = move |request: Request<ConfigMap>| {
            let (writes, observed, client) = (Arc::clone(&writes), Arc::clone(&observed), client.clone());
            async move {
                let Some(map) = request.object.present() else { return Ok(Action::Done) };
                let is_written = map.data.as_ref().is_some_and(|data| data.contains_key("written"));
                if !is_first {
                    observed.lock().entry(request.key.to_string()).or_default().push(is_written);
                } else if writes.load(Relaxed) && !is_written {
                    let api = Api::<ConfigMap>::namespaced(client, request.key.namespace().unwrap());
                    let patch = Patch::Merge(json!({"data": {"written": "true"}}));
                    api.patch(request.key.name(), &PatchParams::default(), &patch).await?;
                }
                Ok::<_, Failure>(Action::Done)
            }
        };
        manager.add_controller(Controller::new(&maps), reconcile);
        let slots = manager.owned_slots().unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(manager.run(async move { drop(stopped.await) }));
        Process { slots, stop, task }
    };
    let (first, second) = (start(client(&server), true), start(gated_client(&server, &is_open), false));
    wait_until(|| first.slots.get().len() == 32 && second.slots.get().len() == 32).await;
    sleep(10 * SECOND).await;

    open.send_replace(false);
    writes.store(true, Relaxed);
    for number in 0..NAMESPACES {
        let api = Api::<ConfigMap>::namespaced(client(&server), &format!("team-{number}"));
        let patch = Patch::Merge(json!({"data": {"changed": "true"}}));
        api.patch("first", &PatchParams::default(), &patch).await.unwrap();
    }
    sleep(10 * SECOND).await;
    let written = || {
        let namespaces = (0..NAMESPACES).map(|number| format!("team-{number}"));
        let is_written = |namespace: &String| {
            let map = server.get_untyped("v1", "ConfigMap", Some(namespace), "first").unwrap();
            map["data"]["written"] == "true"
        };
        namespaces.filter(is_written).map(|namespace| format!("{namespace}/first")).collect::<BTreeSet<_>>()
    };
    let written = written();
    assert!(written.len() > NAMESPACES / 4, "{written:?}");
    observed.lock().clear();
    first.stop.send(()).unwrap();
    first.task.await.unwrap().unwrap();
    wait_until(|| second.slots.get().len() == 64).await;
    sleep(30 * SECOND).await;
    let early: Vec<_> = written.iter().filter(|key| observed.lock().contains_key(*key)).cloned().collect();
    assert!(early.is_empty(), "reconciled with an old cache: {early:?}");
    open.send_replace(true);
    wait_until(|| written.iter().all(|key| observed.lock().contains_key(key))).await;
    let observed = observed.lock();
    assert!(written.iter().all(|key| observed[key].iter().all(|is_written| *is_written)), "{observed:?}");
}

#[tokio::test]
async fn pages_contain_the_slots() {
    let options = ManagerOptions { bind_address: Some(([127, 0, 0, 1], 0).into()), ..options() };
    let manager = Manager::new(client(&server()), options).unwrap();
    let (address, slots) = (manager.local_address().unwrap(), manager.owned_slots().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(manager.run(async move { drop(stopped.await) }));
    wait_until(|| slots.get().len() == 64).await;
    let (_, page) = get(address, "/debug/shards").await;
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let members: Vec<_> = page["members"].as_object().unwrap().values().collect();
    assert_eq!(
        (&page["owned"], &page["unowned"], &*members),
        (&json!("0-63"), &json!(""), &[&json!("0-63")][..])
    );
    let (_, ready) = get(address, "/readyz").await;
    let line = "[+] shards of operator: owned slots: 64; waiting for caches: 0; slots without an owner: 0; processes: 1\n";
    assert!(ready.contains(line), "{ready}");
    assert_eq!((&page["waiting"], &page["moves"]["claimed"]), (&json!(""), &json!(64)), "{page}");
    let (_, replicas) = get(address, "/ui/replicas").await;
    for text in ["(this process)", "0-63", "64, 0, 0"] {
        assert!(replicas.contains(text), "{text} is missing in\n{replicas}");
    }
    let (_, metrics) = get(address, "/metrics").await;
    for line in [
        "shard_slots_owned{group=\"operator\"} 64.0\n",
        "shard_slots_waiting{group=\"operator\"} 0.0\n",
        "shard_members{group=\"operator\"} 1.0\n",
        "shard_moves_total{group=\"operator\",move=\"claimed\"} 64\n",
        "shard_moves_total{group=\"operator\",move=\"lost\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    stop.send(()).unwrap();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn slots_of_a_deleted_lease_are_counted_as_lost() {
    let server = server();
    let options = ManagerOptions { bind_address: Some(([127, 0, 0, 1], 0).into()), ..options() };
    let manager = Manager::new(client(&server), options).unwrap();
    let (address, slots) = (manager.local_address().unwrap(), manager.owned_slots().unwrap());
    let task = tokio::spawn(manager.run(std::future::pending()));
    wait_until(|| slots.get().len() == 64).await;
    let (_, page) = get(address, "/debug/shards").await;
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let name = page["self"].as_str().unwrap();
    let leases = Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(client(&server), "default");
    leases.delete(name, &Default::default()).await.unwrap();
    wait_until(|| slots.get().is_empty()).await;
    let (_, page) = get(address, "/debug/shards").await;
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!((&page["moves"]["lost"], &page["waiting"]), (&json!(64), &json!("")), "{page}");
    task.abort();
}

#[tokio::test]
async fn shards_by_uid_are_rejected() {
    let shards = ShardOptions { key: ShardKey::Uid, ..ShardOptions::new("default", "operator") };
    let options = ManagerOptions { shards: Some(shards), ..options() };
    let error = Manager::new(client(&Server::new()), options).err().unwrap();
    assert!(matches!(error, ManagerError::UnsupportedShardKey), "{error}");
}
