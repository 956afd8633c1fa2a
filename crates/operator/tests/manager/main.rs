//! An operator from its start to its end: what is begun when, what is shown meanwhile, and what is waited for.

mod broken;
mod ends;
mod namespaces;
mod pages;

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
use kube_testserver::{Fault, Match, Rule, Server, Verb};
use serde_json::json;
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);

/// A server, and a manager on it that has not begun.
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

    /// Another process on the same server, without pages.
    fn beside(&self, election: ElectionOptions) -> Self {
        let options =
            ManagerOptions { bind_address: None, election: Some(election), ..ManagerOptions::default() };
        let (server, client) = (self.server.clone(), self.client.clone());
        let manager = Manager::new(client.clone(), options).unwrap();
        Self { server, client, manager, stop: CancellationToken::new() }
    }

    /// Without pages.
    fn hidden(election: Option<ElectionOptions>) -> Self {
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
    let lease = server.get("coordination.k8s.io/v1", "Lease", Some("default"), "operator").ok()?;
    lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
}

async fn done(_: Request<ConfigMap>) -> Result<Action, Failure> {
    Ok(Action::Done)
}

#[tokio::test(start_paused = true)]
async fn controllers_begin_when_the_caches_are_filled_and_this_process_leads() {
    let mut world = World::hidden(Some(election("first")));
    world.create("web").await;
    let slow = Match::any().resource("configmaps");
    world.server.faults().during(60 * SECOND, slow, Fault::unavailable());
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
    assert_eq!((ran.load(SeqCst), holder(&server)), (0, None), "who has no caches is no use as a leader");
    sleep(60 * SECOND).await;
    assert_eq!((ran.load(SeqCst), holder(&server).as_deref()), (1, Some("first")));
    assert_eq!(too_early.load(SeqCst), 0, "without the lease");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_can_t_be_filled_is_named_with_the_rule_that_is_missing() {
    let mut world = World::hidden(None);
    let _secrets = world.manager.factory().informer::<Secret>().unwrap();
    let controller = world.controller();
    world.manager.add_controller(controller, done);
    let rule = Rule::deny().verbs(&["list", "watch"]).resources(&["secrets"]);
    world.server.access().add_rule(rule);
    let begun = Instant::now();
    let (_, _stop, running) = world.run();
    let error = running.await.unwrap().unwrap_err();
    assert!(begun.elapsed() >= 120 * SECOND, "until then the rule may still be given");
    let words = error.to_string();
    assert!(words.contains("Secret /api/v1/secrets"), "{words}");
    assert!(words.contains("may not list secrets of API group \"\" in the whole cluster"), "{words}");
    assert!(!words.contains("may not list configmaps"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn who_follows_has_caches_and_collects_no_keys() {
    let first = World::hidden(Some(election("first")));
    let mut second = first.beside(election("second"));
    let (server, stop_first, first) = first.run();
    sleep(SECOND).await;
    let ran = Arc::new(AtomicUsize::new(0));
    let (count, controller) = (Arc::clone(&ran), second.controller());
    second.manager.add_controller(controller, move |_: Request<ConfigMap>| {
        count.fetch_add(1, SeqCst);
        async { Ok::<_, Failure>(Action::Done) }
    });
    let maps = second.manager.factory().informer::<ConfigMap>().unwrap();
    let gone: Vec<String> = (0..10).map(|number| format!("gone-{number}")).collect();
    for name in &gone {
        second.create(name).await;
    }
    second.create("stays").await;
    let (_, stop_second, second) = second.run();
    sleep(SECOND).await;
    for name in &gone {
        server.delete("v1", "ConfigMap", Some("default"), name).unwrap();
    }
    sleep(SECOND).await;
    let handlers = maps.status().handlers.len();
    assert_eq!((maps.lister().len(), handlers, ran.load(SeqCst)), (1, 0, 0));
    stop_first.cancel();
    first.await.unwrap().unwrap();
    sleep(SECOND).await;
    assert_eq!(ran.load(SeqCst), 1, "once it leads it is told of what is there");
    stop_second.cancel();
    second.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn informers_from_elsewhere_are_waited_for_and_stopped_with_the_others() {
    let mut world = World::hidden(None);
    let elsewhere = Server::new();
    let factory = InformerFactory::new(Client::new(elsewhere.service(), "default"));
    let secrets = factory.informer::<Secret>().unwrap();
    let controller = world.controller().owns(&secrets);
    world.manager.add_controller(controller, done);
    let hangs = elsewhere.faults().always(Match::any().resource("secrets"), Fault::unavailable());
    let (server, _stop, running) = world.run();
    let words = running.await.unwrap().unwrap_err().to_string();
    assert!(words.contains("Secret /api/v1/secrets"), "{words}");
    drop(hangs);
    assert_eq!((server.journal().unanswered(), elsewhere.journal().unanswered()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_somebody_stops_ends_the_manager() {
    let mut world = World::hidden(None);
    let maps = world.manager.factory().informer::<ConfigMap>().unwrap();
    let controller = world.controller();
    world.manager.add_controller(controller, done);
    let (_, _stop, running) = world.run();
    sleep(SECOND).await;
    maps.stop().await;
    let words = running.await.unwrap().unwrap_err().to_string();
    assert!(
        words.starts_with("configmap has failed: the informer ConfigMap /api/v1/configmaps was stopped"),
        "{words}"
    );
}

#[tokio::test(start_paused = true)]
async fn two_parts_of_one_name_are_refused() {
    let mut world = World::hidden(None);
    for _ in 0..2 {
        let controller = world.controller();
        world.manager.add_controller(controller, done);
    }
    let (_, _, running) = world.run();
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(&error, ManagerError::DuplicateName(name) if name == "configmap"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_task_may_end_and_one_that_fails_or_panics_ends_the_manager() {
    let mut world = World::hidden(None);
    world.manager.add_task("migration", RunsOn::EveryReplica, |_| async { Ok(()) });
    let (_, stop, running) = world.run();
    sleep(SECOND).await;
    assert!(!running.is_finished());
    stop.cancel();
    running.await.unwrap().unwrap();

    let mut world = World::hidden(None);
    world.manager.add_task("migration", RunsOn::EveryReplica, |_| async { Err(Failure::message("no way")) });
    let error = world.run().2.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "migration has failed: no way");

    let mut world = World::hidden(None);
    world.manager.add_task("migration", RunsOn::EveryReplica, |_| async { panic!("hunter2") });
    let error = world.run().2.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "migration has panicked");
}

#[tokio::test(start_paused = true)]
async fn a_task_for_the_leader_waits_until_this_process_leads() {
    let first = World::hidden(Some(election("first")));
    let mut second = first.beside(election("second"));
    let ran = Arc::new(AtomicUsize::new(0));
    for (name, runs_on) in [("on each", RunsOn::EveryReplica), ("on the leader", RunsOn::LeaderOnly)] {
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
async fn rights_of_another_cluster_are_not_asked_for_here_and_what_is_needed_besides_is() {
    let (mut world, there) = (World::hidden(None), Server::new());
    let elsewhere = InformerFactory::new(Client::new(there.service(), "default"));
    let secrets = elsewhere.informer::<Secret>().unwrap();
    let controller = world.controller().watches(&secrets, |_| None);
    world
        .manager
        .add_controller(controller, |_: Request<ConfigMap>| async { Ok::<_, Failure>(Action::Done) });
    world.manager.require_permissions(&["patch"], "apps", "deployments/status", Some("shop"));
    let (server, stop, running) = world.run();
    sleep(5 * SECOND).await;
    let asked = |server: &Server| {
        let requests = server.journal().requests();
        requests.iter().filter(|request| request.about.resource == "selfsubjectaccessreviews").count()
    };
    assert_eq!((asked(&server), asked(&there)), (3, 0), "list and watch of ConfigMaps, and the patch");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_recorders_of_one_name_are_one() {
    let mut world = World::hidden(None);
    let (one, other) =
        (world.manager.event_recorder("web").unwrap(), world.manager.event_recorder("web").unwrap());
    one.event(&ConfigMap::default(), EventType::Normal, "Begun", "Begin", "");
    assert_eq!(other.status(), one.status());
    let (_, stop, running) = world.run();
    stop.cancel();
    running.await.unwrap().unwrap();
}
