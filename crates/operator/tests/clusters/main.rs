//! Tests of a manager with many clusters, in virtual time.

mod concurrent;
mod leaving;
mod pages;
mod providers;
mod replicas;
mod shards;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::Client;
use kube_informer::{LabelSelector, ObjectKey};
use kube_operator::{
    Action, ClusterController, ClusterEngager, ClusterKey, ClusterName, ClusterRequest, Clusters, Controller,
    Failure, Manager, ManagerError, ManagerOptions, Request, Source,
};
use kube_testserver::{Fault, RequestMatch, Server};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// A manager with the cluster `hub`, and clusters that the test engages.
struct World {
    hub: Server,
    manager: Manager,
    clusters: Clusters,
    set: oneshot::Receiver<ClusterEngager>,
}

/// A running manager.
struct Running {
    set: ClusterEngager,
    stop: CancellationToken,
    manager: JoinHandle<Result<(), ManagerError>>,
}

impl World {
    fn new() -> Self {
        Self::with_options(ManagerOptions { bind_address: None, ..ManagerOptions::default() })
    }

    fn with_options(options: ManagerOptions) -> Self {
        Self::on(Server::new(), options)
    }

    fn on(hub: Server, options: ManagerOptions) -> Self {
        let mut manager = Manager::new(client(&hub), options).unwrap();
        let (sender, set) = oneshot::channel();
        let clusters = manager.clusters(async move |clusters: ClusterEngager, stop: CancellationToken| {
            sender.send(clusters).unwrap();
            stop.cancelled().await;
            Ok::<_, Failure>(())
        });
        Self { hub, manager, clusters, set }
    }

    async fn run(self) -> Running {
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let manager = tokio::spawn(self.manager.run(stopped));
        Running { set: self.set.await.unwrap(), stop, manager }
    }
}

impl Running {
    fn engage(&self, cluster: &str, server: &Server) {
        self.set.engage(&name(cluster), client(server));
    }

    async fn stop(self) {
        self.stop.cancel();
        self.manager.await.unwrap().unwrap();
    }
}

fn name(cluster: &str) -> ClusterName {
    ClusterName::new(cluster).unwrap()
}

fn key(text: &str) -> ClusterKey {
    text.parse().unwrap()
}

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn map(name: &str, says: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "labels": {"says": says}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"says": says}})
}

/// Returns a server with a ConfigMap `web`.
fn server(says: &str) -> Server {
    let server = Server::new();
    server.create(&map("web", says)).unwrap();
    server
}

fn says(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get("says")).cloned().unwrap_or_default()
}

/// The reconciles of a controller, in their order.
type Record = Arc<Mutex<Vec<String>>>;

fn take(record: &Record) -> Vec<String> {
    let mut taken = std::mem::take(&mut *record.lock());
    taken.sort_unstable();
    taken
}

/// Adds a controller of ConfigMaps that records the cluster, the key and the data of each object.
fn add_recorder(world: &mut World) -> Record {
    let (record, controller) =
        (Record::default(), ClusterController::new(&world.clusters.informer::<ConfigMap>()));
    let recorded = Arc::clone(&record);
    world.manager.add_cluster_controller(controller, move |request: ClusterRequest<ConfigMap>| {
        let text = request.object.present().map_or_else(|| "absent".to_owned(), |map| says(&map));
        recorded.lock().push(format!("{}/{}: {text}", request.cluster.name(), request.key));
        async { Ok::<_, Failure>(Action::Done) }
    });
    record
}

#[tokio::test(start_paused = true)]
async fn objects_of_each_cluster_are_reconciled_with_their_cluster() {
    let mut world = World::new();
    let record = add_recorder(&mut world);
    let clusters = world.clusters.clone();
    let running = world.run().await;
    let (east, west) = (server("east"), server("west"));
    running.engage("east", &east);
    running.engage("west", &west);
    sleep(SECOND).await;
    assert_eq!(take(&record), ["east/default/web: east", "west/default/web: west"]);
    east.create(&map("new", "2")).unwrap();
    west.delete_untyped("v1", "ConfigMap", Some("default"), "web").unwrap();
    sleep(SECOND).await;
    assert_eq!(take(&record), ["east/default/new: 2", "west/default/web: absent"]);
    assert_eq!(format!("{clusters:?}"), r#"["east", "west"]"#);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn writes_reach_the_cluster_of_the_object_and_are_read_back() {
    let mut world = World::new();
    let controller = ClusterController::new(&world.clusters.informer::<ConfigMap>())
        .owns(&world.clusters.informer::<Secret>());
    let reconciles = Record::default();
    let recorded = Arc::clone(&reconciles);
    world.manager.add_cluster_controller(controller, move |request: ClusterRequest<ConfigMap>| {
        recorded.lock().push(format!("{}: {}", request.cluster.name(), request.reasons));
        async move {
            let Some(map) = request.object.present() else { return Ok(Action::AwaitChange) };
            let secret = json!({"metadata": {"name": "copy", "namespace": "default"}, "stringData": {"says": says(&map)}});
            let secret: Secret = serde_json::from_value(secret)?;
            request.cluster.cached_client("test").force().apply_owned(&*map, secret).await?;
            Ok::<_, Failure>(Action::Done)
        }
    });
    let running = world.run().await;
    let servers = ["east", "west"].map(|name| (name, server(name)));
    servers.iter().for_each(|(name, server)| running.engage(name, server));
    sleep(5 * SECOND).await;
    take(&reconciles);
    for (name, server) in &servers {
        let copy = server.get_untyped("v1", "Secret", Some("default"), "copy").unwrap();
        assert_eq!(copy["metadata"]["ownerReferences"][0]["name"], "web", "{name}");
    }
    let (_, east) = &servers[0];
    east.delete_untyped("v1", "Secret", Some("default"), "copy").unwrap();
    sleep(SECOND).await;
    east.get_untyped("v1", "Secret", Some("default"), "copy").unwrap();
    let reasons = take(&reconciles);
    let expected = "east: owned Secret in cluster east default/copy was deleted";
    assert!(reasons.iter().any(|reason| reason.starts_with(expected)), "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason.starts_with("east")), "{reasons:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_that_hangs_delays_no_other_cluster() {
    let mut world = World::new();
    let record = add_recorder(&mut world);
    let running = world.run().await;
    let (bad, good) = (server("bad"), server("good"));
    let _hangs = bad.faults().always(RequestMatch::any(), Fault::Hang);
    running.engage("bad", &bad);
    running.engage("good", &good);
    sleep(SECOND).await;
    assert_eq!(take(&record), ["good/default/web: good"]);
    // The cluster that hangs can leave, and another cluster can be added.
    running.set.disengage(&name("bad"));
    running.engage("late", &server("late"));
    sleep(SECOND).await;
    assert_eq!(take(&record), ["late/default/web: late"]);
    running.stop().await;
}

/// A controller of the hub summarizes the objects of all clusters.
#[tokio::test(start_paused = true)]
async fn controller_of_the_hub_observes_added_and_removed_clusters() {
    let mut world = World::new();
    let remote = world.clusters.informer::<ConfigMap>();
    let summary = ObjectKey::new(Some("default"), "web");
    let hub = world.manager.factory().informer::<ConfigMap>().unwrap();
    let controller = Controller::new(&hub)
        .watches_source(Source::watches_clusters(&remote, move |_, _| [summary.clone()]));
    let (record, of_all) = (Record::default(), remote.clone());
    let recorded = Arc::clone(&record);
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        let all = of_all.list(&LabelSelector::everything());
        let all: Vec<String> = all.iter().map(|(cluster, map)| format!("{cluster}={}", says(map))).collect();
        recorded.lock().push(all.join(" "));
        async { Ok::<_, Failure>(Action::Done) }
    });
    world.hub.create(&map("web", "hub")).unwrap();
    let running = world.run().await;
    let (east, west) = (server("1"), server("2"));
    running.engage("east", &east);
    sleep(SECOND).await;
    running.engage("west", &west);
    sleep(SECOND).await;
    assert_eq!(record.lock().last().unwrap(), "east=1 west=2");
    running.set.disengage(&name("east"));
    sleep(SECOND).await;
    assert_eq!(record.lock().last().unwrap(), "west=2", "the source receives a delete of each object");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lister_and_index_contain_objects_of_all_clusters() {
    let world = World::new();
    let maps = world.clusters.informer::<ConfigMap>();
    let by_text = maps.add_index("text", |map: &ConfigMap| [says(map)]).unwrap();
    assert!(maps.add_index("text", |map: &ConfigMap| [says(map)]).is_err());
    let running = world.run().await;
    let servers = ["a", "b", "c"].map(|name| (name, server(if name == "b" { "odd" } else { "even" })));
    servers.iter().for_each(|(name, server)| running.engage(name, server));
    sleep(SECOND).await;
    assert_eq!(maps.keys(), ["a", "b", "c"].map(|name| key(&format!("{name}/default/web"))));
    assert_eq!(says(&maps.get(&key("b/default/web")).unwrap()), "odd");
    assert_eq!(by_text.keys(&"even".to_owned()), ["a", "c"].map(|name| key(&format!("{name}/default/web"))));
    let selector = "says=odd".parse().unwrap();
    assert_eq!(maps.list(&selector).len(), 1);
    running.set.disengage(&name("a"));
    sleep(SECOND).await;
    assert_eq!(by_text.keys(&"even".to_owned()), [key("c/default/web")]);
    assert_eq!((maps.len(), maps.get(&key("a/default/web"))), (2, None));
    running.stop().await;
}
