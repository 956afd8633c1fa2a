//! Tests of `Manager` from start to stop.

mod added;
mod exit;
mod failures;
mod metrics;
mod namespaces;
mod optional;
mod page;
mod pages;
mod requests;
mod rights;
#[cfg(feature = "tls")]
mod secure;
mod shard_caches;
mod shard_keys;
mod shard_labels;
mod shard_moves;
mod shard_unselected;
mod shard_versions;
mod shards;
mod shutdown;
#[cfg(feature = "tls")]
#[path = "../support/tls.rs"]
mod tls;
mod why;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{Api, Client, api::PostParams};
use kube_informer::InformerFactory;
use kube_operator::{
    Action, Controller, ElectionOptions, EventType, Failure, LeaseTimes, Manager, ManagerError,
    ManagerOptions, Request, RunsOn,
};
use kube_testserver::{Fault, RequestMatch, Rule, Server, Verb};
use serde_json::json;
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// A server, and a manager on it that has not started.
struct World {
    server: Server,
    client: Client,
    manager: Manager,
    stop: CancellationToken,
}

impl World {
    fn new(options: ManagerOptions) -> Self {
        let server = Server::new();
        let client = Client::new(server.service(), "default");
        let manager = Manager::new(client.clone(), options).unwrap();
        Self { server, client, manager, stop: CancellationToken::new() }
    }

    /// Creates another process on the same server, without pages.
    fn replica(&self, election: ElectionOptions) -> Self {
        let options =
            ManagerOptions { bind_address: None, election: Some(election), ..ManagerOptions::default() };
        let (server, client) = (self.server.clone(), self.client.clone());
        let manager = Manager::new(client.clone(), options).unwrap();
        Self { server, client, manager, stop: CancellationToken::new() }
    }

    /// Creates a manager without pages.
    fn without_pages(election: Option<ElectionOptions>) -> Self {
        Self::new(ManagerOptions { bind_address: None, election, ..ManagerOptions::default() })
    }

    async fn create(&self, name: &str) {
        let map = json!({"metadata": {"name": name}, "data": {"password": "hunter2"}});
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        Api::default_namespaced(self.client.clone()).create(&PostParams::default(), &map).await.unwrap();
    }

    fn controller(&self) -> Controller<ConfigMap> {
        Controller::new(&self.manager.factory().informer().unwrap())
    }

    fn run(self) -> (Server, CancellationToken, JoinHandle<Result<(), ManagerError>>) {
        let stop = self.stop.clone();
        let running = tokio::spawn(self.manager.run(async move { stop.cancelled().await }));
        (self.server, self.stop, running)
    }
}

fn election(identity: &str) -> ElectionOptions {
    ElectionOptions {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        identity: identity.to_owned(),
        times: LeaseTimes::default(),
    }
}

fn holder(server: &Server) -> Option<String> {
    let lease = server.get_untyped("coordination.k8s.io/v1", "Lease", Some("default"), "operator").ok()?;
    lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
}

async fn do_nothing(_: Request<ConfigMap>) -> Result<Action, Failure> {
    Ok(Action::Done)
}

#[tokio::test(start_paused = true)]
async fn controllers_start_after_cache_sync_as_leader() {
    let mut world = World::without_pages(Some(election("first")));
    world.create("web").await;
    let lists = RequestMatch::any().resource("configmaps");
    world.server.faults().during(60 * SECOND, lists, Fault::unavailable());
    let (ran, too_early) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, early, leadership) = (Arc::clone(&ran), Arc::clone(&too_early), world.manager.leadership());
    let controller = world.controller();
    world.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        count.fetch_add(1, SeqCst);
        early.fetch_add(usize::from(!leadership.is_leader()), SeqCst);
        async { Ok::<_, Failure>(Action::Done) }
    });
    let (server, stop, running) = world.run();
    sleep(50 * SECOND).await;
    assert_eq!(
        (ran.load(SeqCst), holder(&server)),
        (0, None),
        "a process without caches does not become leader"
    );
    sleep(60 * SECOND).await;
    assert_eq!((ran.load(SeqCst), holder(&server).as_deref()), (1, Some("first")));
    assert_eq!(too_early.load(SeqCst), 0, "reconciled without the lease");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn cache_sync_error_names_missing_rbac_rule() {
    let mut world = World::without_pages(None);
    let _secrets = world.manager.factory().informer::<Secret>().unwrap();
    let controller = world.controller();
    world.manager.add_controller(controller, do_nothing);
    let rule = Rule::deny().verbs(&["list", "watch"]).resources(&["secrets"]);
    world.server.access().add_rule(rule);
    let start = Instant::now();
    let (_, _stop, running) = world.run();
    let error = running.await.unwrap().unwrap_err();
    assert!(start.elapsed() >= 120 * SECOND, "the rule may be granted until the timeout");
    let text = error.to_string();
    assert!(text.contains("Secret /api/v1/secrets"), "{text}");
    assert!(text.contains("is not allowed to list secrets of API group \"\" in all namespaces"), "{text}");
    assert!(!text.contains("is not allowed to list configmaps"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn follower_fills_caches_and_queues_no_keys() {
    let first = World::without_pages(Some(election("first")));
    let mut second = first.replica(election("second"));
    let (server, stop_first, first) = first.run();
    sleep(SECOND).await;
    let ran = Arc::new(AtomicUsize::new(0));
    let (count, controller) = (Arc::clone(&ran), second.controller());
    second.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        count.fetch_add(1, SeqCst);
        async { Ok::<_, Failure>(Action::Done) }
    });
    let maps = second.manager.factory().informer::<ConfigMap>().unwrap();
    let deleted: Vec<String> = (0..10).map(|number| format!("deleted-{number}")).collect();
    for name in &deleted {
        second.create(name).await;
    }
    second.create("stays").await;
    let (_, stop_second, second) = second.run();
    sleep(SECOND).await;
    for name in &deleted {
        server.delete_untyped("v1", "ConfigMap", Some("default"), name).unwrap();
    }
    sleep(SECOND).await;
    let handlers = maps.status().handlers.len();
    assert_eq!((maps.lister().len(), handlers, ran.load(SeqCst)), (1, 0, 0));
    stop_first.cancel();
    first.await.unwrap().unwrap();
    sleep(SECOND).await;
    assert_eq!(ran.load(SeqCst), 1, "a new leader reconciles every existing object");
    stop_second.cancel();
    second.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn informers_of_another_factory_are_synced_and_stopped() {
    let mut world = World::without_pages(None);
    let elsewhere = Server::new();
    let factory = InformerFactory::new(Client::new(elsewhere.service(), "default"));
    let secrets = factory.informer::<Secret>().unwrap();
    let controller = world.controller().owns(&secrets);
    world.manager.add_controller(controller, do_nothing);
    let hangs = elsewhere.faults().always(RequestMatch::any().resource("secrets"), Fault::unavailable());
    let (server, _stop, running) = world.run();
    let text = running.await.unwrap().unwrap_err().to_string();
    assert!(text.contains("Secret /api/v1/secrets"), "{text}");
    drop(hangs);
    assert_eq!((server.journal().unanswered(), elsewhere.journal().unanswered()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn stopped_informer_stops_the_manager() {
    let mut world = World::without_pages(None);
    let maps = world.manager.factory().informer::<ConfigMap>().unwrap();
    let controller = world.controller();
    world.manager.add_controller(controller, do_nothing);
    let (_, _stop, running) = world.run();
    sleep(SECOND).await;
    maps.stop().await;
    let text = running.await.unwrap().unwrap_err().to_string();
    assert!(
        text.starts_with(
            "controller or task \"configmap\" failed: informer ConfigMap /api/v1/configmaps stopped while"
        ),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn duplicate_controller_name_is_rejected() {
    let mut world = World::without_pages(None);
    for _ in 0..2 {
        let controller = world.controller();
        world.manager.add_controller(controller, do_nothing);
    }
    let (_, _, running) = world.run();
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(&error, ManagerError::DuplicateName(name) if name == "configmap"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn only_failed_or_panicked_task_stops_the_manager() {
    let mut world = World::without_pages(None);
    world.manager.add_task("migration", RunsOn::EveryReplica, |_| async { Ok(()) });
    let (_, stop, running) = world.run();
    sleep(SECOND).await;
    assert!(!running.is_finished());
    stop.cancel();
    running.await.unwrap().unwrap();

    let mut world = World::without_pages(None);
    world.manager.add_task("migration", RunsOn::EveryReplica, |_| async { Err(Failure::from("no way")) });
    let error = world.run().2.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "controller or task \"migration\" failed: no way");

    let mut world = World::without_pages(None);
    world.manager.add_task("migration", RunsOn::EveryReplica, |_| async { panic!("hunter2") });
    let error = world.run().2.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "controller or task \"migration\" panicked");
}

#[tokio::test(start_paused = true)]
async fn leader_only_task_starts_when_leadership_is_acquired() {
    let first = World::without_pages(Some(election("first")));
    let mut second = first.replica(election("second"));
    let ran = Arc::new(AtomicUsize::new(0));
    for (name, runs_on) in [("on every replica", RunsOn::EveryReplica), ("on the leader", RunsOn::LeaderOnly)]
    {
        let count = Arc::clone(&ran);
        second.manager.add_task(name, runs_on, move |stop| async move {
            count.fetch_add(1, SeqCst);
            stop.cancelled().await;
            Ok(())
        });
    }
    let (_, stop_first, first) = first.run();
    sleep(SECOND).await;
    let (_, stop_second, second) = second.run();
    sleep(60 * SECOND).await;
    assert_eq!(ran.load(SeqCst), 1);
    stop_first.cancel();
    first.await.unwrap().unwrap();
    sleep(SECOND).await;
    assert_eq!(ran.load(SeqCst), 2);
    stop_second.cancel();
    second.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn permission_check_covers_own_cluster_and_declared_rules() {
    let (mut world, other_cluster) = (World::without_pages(None), Server::new());
    let elsewhere = InformerFactory::new(Client::new(other_cluster.service(), "default"));
    let secrets = elsewhere.informer::<Secret>().unwrap();
    let controller = world.controller().watches(&secrets, |_| None);
    world
        .manager
        .add_controller(controller, |_: Request<ConfigMap>| async { Ok::<_, Failure>(Action::Done) });
    world.manager.require_permissions(&["patch"], "apps", "deployments/status", Some("shop"));
    let (server, stop, running) = world.run();
    sleep(5 * SECOND).await;
    let reviews = |server: &Server| {
        let requests = server.journal().requests();
        requests.iter().filter(|request| request.info.resource == "selfsubjectaccessreviews").count()
    };
    assert_eq!(
        (reviews(&server), reviews(&other_cluster)),
        (3, 0),
        "list and watch of ConfigMaps, and the patch"
    );
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn event_recorder_with_same_name_is_shared() {
    let mut world = World::without_pages(None);
    let (one, other) =
        (world.manager.event_recorder("web").unwrap(), world.manager.event_recorder("web").unwrap());
    one.event(&ConfigMap::default(), EventType::Normal, "Started", "Start", "");
    assert_eq!(other.status(), one.status());
    let (_, stop, running) = world.run();
    stop.cancel();
    running.await.unwrap().unwrap();
}
