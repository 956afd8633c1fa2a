//! An operator from its start to its end: what is begun when, what is shown meanwhile, and what is waited for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{Api, Client, api::PostParams};
use kube_operator::{
    Action, Controller, ElectionOptions, Failure, LeaseTimes, Manager, ManagerError, ManagerOptions, Request,
    RunsOn,
};
use kube_testserver::{Fault, Match, Rule, Server, Verb};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
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

    /// Without pages.
    fn hidden(election: Option<ElectionOptions>) -> Self {
        Self::new(ManagerOptions { address: None, election, ..ManagerOptions::default() })
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
    let ran = Arc::new(AtomicUsize::new(0));
    let (count, leadership) = (Arc::clone(&ran), world.manager.leadership());
    let controller = world.controller();
    world.manager.add(controller, move |_: Request<ConfigMap>| {
        assert!(leadership.is_leader());
        count.fetch_add(1, SeqCst);
        async { Ok::<_, Failure>(Action::Done) }
    });
    let (server, stop, running) = world.run();
    sleep(50 * SECOND).await;
    assert_eq!((ran.load(SeqCst), holder(&server)), (0, None), "who has no caches is no use as a leader");
    sleep(60 * SECOND).await;
    assert_eq!((ran.load(SeqCst), holder(&server).as_deref()), (1, Some("first")));
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_under_way_is_waited_for_and_the_lease_is_given_back_last() {
    let mut world = World::hidden(Some(election("first")));
    world.create("web").await;
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (tell, count, writer) = (Arc::clone(&begun), Arc::clone(&ended), world.manager.client());
    let controller = world.controller();
    world.manager.add(controller, move |_: Request<ConfigMap>| {
        let (tell, count, writer) = (Arc::clone(&tell), Arc::clone(&count), writer.clone());
        async move {
            tell.notify_one();
            sleep(20 * SECOND).await;
            let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "last"}}))?;
            Api::default_namespaced(writer).create(&PostParams::default(), &map).await?;
            count.fetch_add(1, SeqCst);
            Ok::<_, Failure>(Action::Done)
        }
    });
    let (server, stop, running) = world.run();
    begun.notified().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((ended.load(SeqCst), holder(&server)), (1, None));
    let writes = server.journal().requests().into_iter().filter(|request| {
        matches!(request.about.verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete)
    });
    let last: Vec<_> = writes.map(|request| request.about.resource).collect();
    assert!(last.ends_with(&["configmaps".to_owned(), "leases".to_owned()]), "{last:?}");
    assert_eq!(server.journal().unanswered(), 0, "no watch is left");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_dropped() {
    let mut world = World::hidden(Some(election("first")));
    world.create("web").await;
    let begun = Arc::new(Notify::new());
    let tell = Arc::clone(&begun);
    let controller = world.controller();
    world.manager.add(controller, move |_: Request<ConfigMap>| {
        tell.notify_one();
        std::future::pending::<Result<Action, Failure>>()
    });
    let (server, stop, running) = world.run();
    begun.notified().await;
    let told = Instant::now();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(told.elapsed().as_secs(), 30, "the grace");
    assert_eq!(holder(&server), None, "nothing goes on, so that somebody else may begin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn while_a_run_can_t_be_dropped_the_lease_is_kept() {
    let options = ManagerOptions {
        address: None,
        election: Some(election("first")),
        grace: Duration::ZERO,
        ..ManagerOptions::default()
    };
    let mut world = World::new(options);
    world.create("web").await;
    let begun = Arc::new(Notify::new());
    let tell = Arc::clone(&begun);
    let (go_on, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = parking_lot::Mutex::new(blocked);
    let controller = world.controller();
    world.manager.add(controller, move |_: Request<ConfigMap>| {
        tell.notify_one();
        let _ended = blocked.lock().recv(); // not as one should
        async { Ok::<_, Failure>(Action::Done) }
    });
    let (server, stop, running) = world.run();
    begun.notified().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(holder(&server).as_deref(), Some("first"));
    drop(go_on);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_its_lease_ends_at_once() {
    let mut world = World::hidden(Some(election("first")));
    world.create("web").await;
    let begun = Arc::new(Notify::new());
    let tell = Arc::clone(&begun);
    let controller = world.controller();
    world.manager.add(controller, move |_: Request<ConfigMap>| {
        tell.notify_one();
        std::future::pending::<Result<Action, Failure>>()
    });
    let (server, _stop, running) = world.run();
    begun.notified().await;
    let cut_off = Instant::now();
    let _cut = server.faults().always(Match::verb(Verb::Update).resource("leases"), Fault::Hang);
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(&error, ManagerError::LeadershipLost(lease) if lease == "default/operator"), "{error}");
    // The renew deadline, and the two requests that an election is given at its end.
    assert!(cut_off.elapsed() < 20 * SECOND, "{:?}", cut_off.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_can_t_be_filled_is_named_with_the_rule_that_is_missing() {
    let mut world = World::hidden(None);
    let _secrets = world.manager.factory().informer::<Secret>().unwrap();
    let controller = world.controller();
    world.manager.add(controller, done);
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
async fn two_parts_of_one_name_are_refused() {
    let mut world = World::hidden(None);
    for _ in 0..2 {
        let controller = world.controller();
        world.manager.add(controller, done);
    }
    let (_, _, running) = world.run();
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(&error, ManagerError::SameName(name) if name == "configmap"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_task_may_end_and_one_that_fails_or_panics_ends_the_manager() {
    let mut world = World::hidden(None);
    world.manager.task("migration", RunsOn::All, |_| async { Ok(()) });
    let (_, stop, running) = world.run();
    sleep(SECOND).await;
    assert!(!running.is_finished());
    stop.cancel();
    running.await.unwrap().unwrap();

    let mut world = World::hidden(None);
    world.manager.task("migration", RunsOn::All, |_| async { Err(Failure::message("no way")) });
    let error = world.run().2.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "migration has failed: no way");

    let mut world = World::hidden(None);
    world.manager.task("migration", RunsOn::All, |_| async { panic!("hunter2") });
    let error = world.run().2.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "migration has panicked");
}

#[tokio::test(start_paused = true)]
async fn tasks_go_on_until_the_controllers_have_ended() {
    let mut world = World::hidden(None);
    world.create("web").await;
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (tell, count) = (Arc::clone(&begun), Arc::clone(&ended));
    let controller = world.controller();
    world.manager.add(controller, move |_: Request<ConfigMap>| {
        let (tell, count) = (Arc::clone(&tell), Arc::clone(&count));
        async move {
            tell.notify_one();
            sleep(20 * SECOND).await;
            count.fetch_add(1, SeqCst);
            Ok::<_, Failure>(Action::Done)
        }
    });
    let count = Arc::clone(&ended);
    world.manager.task("events", RunsOn::All, move |stop| async move {
        stop.cancelled().await;
        assert_eq!(count.fetch_add(1, SeqCst), 1, "the run has ended before");
        Ok(())
    });
    let (_, stop, running) = world.run();
    begun.notified().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(ended.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_task_for_the_leader_waits_until_this_process_leads() {
    let first = World::hidden(Some(election("first")));
    let mut second = World::hidden(Some(election("second")));
    second.server = first.server.clone();
    let client = Client::new(first.server.service(), "default");
    let options =
        ManagerOptions { address: None, election: Some(election("second")), ..ManagerOptions::default() };
    second.manager = Manager::new(client, options).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for (name, runs_on) in [("on each", RunsOn::All), ("on the leader", RunsOn::Leader)] {
        let count = Arc::clone(&ran);
        second.manager.task(name, runs_on, move |stop| async move {
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

/// A page as somebody sees it who asks for it: its code and its text.
async fn page(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = timeout(30 * SECOND, asked).await.unwrap().unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (code, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// Asks again until the page is as it should be, for at most 30 seconds.
async fn page_when(address: std::net::SocketAddr, path: &str, right: impl Fn(u16, &str) -> bool) -> String {
    let asked = async {
        loop {
            let (code, text) = page(address, path).await;
            if right(code, &text) {
                return text;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(30 * SECOND, asked).await.unwrap_or_else(|_| panic!("{path} is not as it should be"))
}

/// A manager with pages; `web` is always well, `bad` never.
async fn shown() -> (World, std::net::SocketAddr) {
    let address = Some(([127, 0, 0, 1], 0).into());
    let mut world = World::new(ManagerOptions {
        address,
        election: Some(election("first")),
        ..ManagerOptions::default()
    });
    world.create("web").await;
    world.create("bad").await;
    let controller = world.controller();
    world.manager.add(controller, |request: Request<ConfigMap>| async move {
        match request.key.name() {
            "bad" => Err(Failure::terminal("the moon is in the way")),
            _ => Ok(Action::Done),
        }
    });
    let address = world.manager.address().unwrap();
    (world, address)
}

#[tokio::test]
async fn pages_say_what_an_operator_does_and_show_nothing_of_its_objects() {
    let (mut world, address) = shown().await;
    world.manager.check("the weather", || Ok(()));
    let (_, stop, running) = world.run();
    let ran = |_, text: &str| {
        text.contains(r#"controller_runtime_reconcile_total{controller="configmap",result="success"} 1"#)
            && text.contains(r#"controller_runtime_reconcile_total{controller="configmap",result="error"} 1"#)
    };
    let metrics = page_when(address, "/metrics", ran).await;
    for line in [
        r#"controller_runtime_reconcile_errors_total{controller="configmap"} 1"#,
        r#"controller_runtime_terminal_reconcile_errors_total{controller="configmap"} 1"#,
        r#"controller_runtime_reconcile_panics_total{controller="configmap"} 0"#,
        r#"controller_runtime_reconcile_timeouts_total{controller="configmap"} 0"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="configmap"} 2"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="configmap"} 1"#,
        r#"controller_runtime_active_workers{controller="configmap"} 0"#,
        r#"workqueue_depth{name="configmap",controller="configmap"} 0"#,
        r#"workqueue_adds_total{name="configmap",controller="configmap"} 2"#,
        r#"workqueue_retries_total{name="configmap",controller="configmap"} 0"#,
        r#"workqueue_queue_duration_seconds_count{name="configmap",controller="configmap"} 2"#,
        r#"workqueue_work_duration_seconds_count{name="configmap",controller="configmap"} 2"#,
        r#"workqueue_unfinished_work_seconds{name="configmap",controller="configmap"} 0.0"#,
        r#"workqueue_longest_running_processor_seconds{name="configmap",controller="configmap"} 0.0"#,
        r#"leader_election_master_status{name="operator"} 1"#,
        r#"informer_objects{informer="ConfigMap /api/v1/configmaps"} 2"#,
        r#"informer_synced{informer="ConfigMap /api/v1/configmaps"} 1"#,
        r#"informer_lists_total{informer="ConfigMap /api/v1/configmaps"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }

    let ready = page_when(address, "/readyz", |code, _| code == 200).await;
    for line in [
        "[+] manager: running\n",
        "[+] ConfigMap /api/v1/configmaps: synced, watching\n",
        "[+] lease operator: this process leads\n",
        "[+] controller configmap: 1 keys have failed in their last run; default/bad: the moon is in the way\n",
        "[+] the weather: ok\n",
    ] {
        assert!(ready.contains(line), "{line} is not in\n{ready}");
    }
    assert_eq!(page(address, "/healthz").await, (200, "ok\n".to_owned()));

    let (_, why) = page(address, "/debug/why/configmap/default/bad").await;
    let why: Value = serde_json::from_str(&why).unwrap();
    assert_eq!(why["lastRun"]["because"], json!(["ConfigMap was listed"]));
    assert_eq!(why["lastRun"]["error"], "the moon is in the way");
    assert_eq!((&why["waitsBecause"], &why["runningForSeconds"]), (&json!([]), &Value::Null));
    let (_, queues) = page(address, "/debug/queues").await;
    let queues: Value = serde_json::from_str(&queues).unwrap();
    assert_eq!((&queues[0]["controller"], &queues[0]["adds"]), (&json!("configmap"), &json!(2)));
    assert_eq!(queues[0]["failed"][0]["key"], "default/bad");
    let (_, informers) = page(address, "/debug/informers").await;
    let parsed: Value = serde_json::from_str(&informers).unwrap();
    assert_eq!((&parsed[0]["objects"], &parsed[0]["synced"]), (&json!(2), &json!(true)));

    for wrong in ["/debug/why/pods/default/bad", "/debug/why/configmap/a/b/c", "/nothing"] {
        let (code, _) = page(address, wrong).await;
        assert!((400..500).contains(&code), "{wrong} is answered {code}");
    }
    for text in [metrics, ready, informers, why.to_string(), queues.to_string()] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nothing is served any more");
}

#[tokio::test]
async fn who_may_not_read_any_more_is_not_ready_and_says_why() {
    let (world, address) = shown().await;
    let (server, stop, running) = world.run();
    page_when(address, "/readyz", |code, _| code == 200).await;
    server.access().add_rule(Rule::deny().resources(&["configmaps"]));
    server.close_watches();
    let words = page_when(address, "/readyz", |code, _| code == 503).await;
    assert!(words.contains("[-] ConfigMap /api/v1/configmaps: no longer fresh"), "{words}");
    assert!(words.contains("is forbidden"), "{words}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn pages_are_there_before_the_caches_and_an_address_that_is_taken_is_an_error() {
    let (world, address) = shown().await;
    let _hangs = world.server.faults().always(Match::any().resource("configmaps"), Fault::Hang);
    let client = world.client.clone();
    let options = ManagerOptions { address: Some(address), ..ManagerOptions::default() };
    let error = Manager::new(client, options).err().unwrap();
    assert!(matches!(&error, ManagerError::Address { .. }), "{error}");

    let (_, stop, running) = world.run();
    let (code, words) = page(address, "/readyz").await;
    assert_eq!(code, 503);
    assert!(words.contains("[-] manager: starting\n"), "{words}");
    assert!(words.contains("[-] ConfigMap /api/v1/configmaps: not synced"), "{words}");
    stop.cancel();
    running.await.unwrap().unwrap();
}
