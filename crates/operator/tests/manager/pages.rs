//! Tests of the HTTP pages of a running manager.

use std::sync::atomic::AtomicBool;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    requests::{get, get_until, manager_with_pages},
    *,
};

#[tokio::test]
async fn pages_show_state_and_no_object_contents() {
    let (mut world, address) = manager_with_pages(false).await;
    world.manager.add_readyz_check("the weather", || Ok(()));
    let (_, stop, running) = world.run();
    let both_reconciled = |_, text: &str| {
        text.contains(r#"controller_runtime_reconcile_total{controller="configmap",result="success"} 1"#)
            && text.contains(r#"controller_runtime_reconcile_total{controller="configmap",result="error"} 1"#)
            && text.contains(r#"controller_runtime_active_workers{controller="configmap"} 0.0"#)
    };
    let metrics = get_until(address, "/metrics", both_reconciled).await;
    let lines: Vec<&str> = metrics.lines().collect();
    for line in [
        r#"controller_runtime_reconcile_errors_total{controller="configmap"} 1"#,
        r#"controller_runtime_terminal_reconcile_errors_total{controller="configmap"} 1"#,
        r#"controller_runtime_reconcile_panics_total{controller="configmap"} 0"#,
        r#"controller_runtime_reconcile_timeouts_total{controller="configmap"} 0"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="configmap"} 2"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="configmap"} 1.0"#,
        r#"controller_runtime_active_workers{controller="configmap"} 0.0"#,
        r#"reconcile_failing_keys{controller="configmap"} 0.0"#,
        r#"workqueue_depth{name="configmap",controller="configmap",priority="0"} 0.0"#,
        r#"workqueue_depth{name="configmap",controller="configmap",priority="-100"} 0.0"#,
        r#"workqueue_adds_total{name="configmap",controller="configmap"} 2"#,
        r#"workqueue_retries_total{name="configmap",controller="configmap"} 0"#,
        r#"workqueue_queue_duration_seconds_count{name="configmap",controller="configmap"} 2"#,
        r#"workqueue_work_duration_seconds_count{name="configmap",controller="configmap"} 2"#,
        r#"workqueue_unfinished_work_seconds{name="configmap",controller="configmap"} 0.0"#,
        r#"workqueue_longest_running_processor_seconds{name="configmap",controller="configmap"} 0.0"#,
        r#"leader_election_master_status{name="operator"} 1.0"#,
        r#"informer_objects{informer="ConfigMap /api/v1/configmaps"} 2.0"#,
        r#"informer_synced{informer="ConfigMap /api/v1/configmaps"} 1.0"#,
        r#"informer_lists_total{informer="ConfigMap /api/v1/configmaps"} 1"#,
    ] {
        assert!(lines.contains(&line), "{line} is missing in\n{metrics}");
    }

    let ready = get_until(address, "/readyz", |code, _| code == 200).await;
    for line in [
        "[+] manager: running\n",
        "[+] ConfigMap /api/v1/configmaps: synced, watching\n",
        "[+] lease operator: this process is the leader\n",
        "[+] controller configmap: failed keys: 1; latest: default/bad: the moon is in the way\n",
        "[+] the weather: ok\n",
    ] {
        assert!(ready.contains(line), "{line} is missing in\n{ready}");
    }
    assert_eq!(
        get(address, "/healthz").await,
        (200, "[+] process: ok\n[+] controller configmap: ok\n".to_owned())
    );

    let (_, why) = get(address, "/debug/why/configmap/default/bad").await;
    let why: Value = serde_json::from_str(&why).unwrap();
    assert_eq!(why["lastRun"]["because"], json!(["ConfigMap was listed"]));
    assert_eq!(why["lastRun"]["error"], "the moon is in the way");
    assert_eq!((&why["waitsBecause"], &why["runningForSeconds"]), (&json!([]), &Value::Null));
    let (_, queues) = get(address, "/debug/queues").await;
    let queues: Value = serde_json::from_str(&queues).unwrap();
    assert_eq!((&queues[0]["controller"], &queues[0]["adds"]), (&json!("configmap"), &json!(2)));
    assert_eq!(queues[0]["failed"][0]["key"], "default/bad");
    let (_, informers) = get(address, "/debug/informers").await;
    let parsed: Value = serde_json::from_str(&informers).unwrap();
    assert_eq!((&parsed[0]["objects"], &parsed[0]["synced"]), (&json!(2), &json!(true)));

    for wrong in ["/debug/why/pods/default/bad", "/debug/why/configmap/a/b/c", "/nothing"] {
        let (code, _) = get(address, wrong).await;
        assert!((400..500).contains(&code), "{wrong} is answered {code}");
    }
    for text in [metrics, ready, informers, why.to_string(), queues.to_string()] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the socket is closed");
}

/// Returns a manager with pages that takes part in the election of `first`.
fn follower(first: &World) -> Manager {
    let options = ManagerOptions {
        bind_address: Some(([127, 0, 0, 1], 0).into()),
        election: Some(election("second")),
        ..ManagerOptions::default()
    };
    Manager::new(first.client.clone(), options).unwrap()
}

/// The keys of a follower are not reconciled, so the page contains the leader.
#[tokio::test]
async fn why_page_of_a_follower_contains_the_leader() {
    let first = World::without_pages(Some(election("first")));
    let mut manager = follower(&first);
    let maps = manager.factory().informer::<ConfigMap>().unwrap();
    manager.add_controller(Controller::new(&maps), |_: Request<ConfigMap>| async {
        Ok::<_, Failure>(Action::Done)
    });
    let address = manager.local_address().unwrap();
    let (server, stop_first, first) = first.run();
    while holder(&server).is_none() {
        sleep(Duration::from_millis(10)).await;
    }
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let names_leader = |code, text: &str| code == 404 && text.contains("the leader is first");
    get_until(address, "/debug/why/configmap/default/a", names_leader).await;
    for (stop, running) in [(stop, running), (stop_first, first)] {
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn why_page_of_a_starting_manager_contains_the_phase() {
    let server = Server::new();
    for verb in [Verb::List, Verb::Watch] {
        server.faults().during(600 * SECOND, RequestMatch::verb(verb).resource("configmaps"), Fault::Hang);
    }
    let options =
        ManagerOptions { bind_address: Some(([127, 0, 0, 1], 0).into()), ..ManagerOptions::default() };
    let mut manager = Manager::new(Client::new(server.service(), "default"), options).unwrap();
    let maps = manager.factory().informer::<ConfigMap>().unwrap();
    manager.add_controller(Controller::new(&maps), |_: Request<ConfigMap>| async {
        Ok::<_, Failure>(Action::Done)
    });
    let address = manager.local_address().unwrap();
    let running = tokio::spawn(manager.run(std::future::pending()));
    let is_starting = |code, text: &str| code == 404 && text.contains("the manager starts");
    get_until(address, "/debug/why/configmap/default/a", is_starting).await;
    running.abort();
}

#[tokio::test]
async fn event_of_a_follower_is_written_and_counted() {
    let first = World::without_pages(Some(election("first")));
    let mut manager = follower(&first);
    let client = first.client.clone();
    let (server, stop_first, first) = first.run();
    while holder(&server).is_none() {
        sleep(Duration::from_millis(10)).await;
    }
    let recorder = manager.event_recorder("web").unwrap();
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "default", "uid": "1"}}))
            .unwrap();
    manager.add_task("a task", RunsOn::EveryReplica, move |_| async move {
        recorder.event(&map, EventType::Normal, "Started", "Start", "");
        Ok(())
    });
    let address = manager.local_address().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));

    let sent = r#"event_recorder_events_total{controller="web",result="sent"} 1"#;
    // One event, and three reviews of the permissions for the Lease, and two for Events.
    let posts = r#"rest_client_requests_total{code="201",method="POST"} 6"#;
    let is_sent = |_, text: &str| text.contains(sent) && text.contains(posts);
    let metrics = get_until(address, "/metrics", is_sent).await;
    for line in [
        r#"leader_election_master_status{name="operator"} 0.0"#,
        r#"event_recorder_events_total{controller="web",result="rate_limited"} 0"#,
        r#"event_recorder_waiting{controller="web"} 0.0"#,
        r#"rest_client_request_duration_seconds_count{verb="POST"} 6"#,
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} is missing in\n{metrics}");
    }
    let (_, events) = get(address, "/debug/events").await;
    let events: Value = serde_json::from_str(&events).unwrap();
    assert_eq!((&events[0]["controller"], &events[0]["sent"]), (&json!("web"), &json!(1)));
    let events = Api::<k8s_openapi::api::events::v1::Event>::default_namespaced(client);
    assert_eq!(events.list(&Default::default()).await.unwrap().items[0].reason.as_deref(), Some("Started"));

    for (stop, running) in [(stop, running), (stop_first, first)] {
        stop.cancel();
        running.await.unwrap().unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn pages_show_process_and_runtime() {
    let (world, address) = manager_with_pages(false).await;
    let (_, stop, running) = world.run();
    let (_, metrics) = get(address, "/metrics").await;
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing in\n{metrics}")).parse().unwrap()
    };
    let now = jiff::Timestamp::now().as_second() as f64 + 1.0;
    assert!((now - 3600.0..=now).contains(&value("process_start_time_seconds")));
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
    assert!(value("process_open_fds") > 3.0 && value("process_open_fds") < value("process_max_fds"));
    assert!(value("process_cpu_seconds_total") >= 0.0 && value("process_threads") >= 1.0);
    let (_, runtime) = get(address, "/debug/tokio").await;
    let runtime: Value = serde_json::from_str(&runtime).unwrap();
    assert!(runtime["aliveTasks"].as_u64().unwrap() > 1, "{runtime}");
    assert_eq!(runtime["workers"].as_array().unwrap().len(), 1, "the runtime of a test has one worker");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn revoked_read_permission_makes_readyz_fail() {
    let (world, address) = manager_with_pages(false).await;
    let (server, stop, running) = world.run();
    get_until(address, "/readyz", |code, _| code == 200).await;
    server.access().add_rule(Rule::deny().resources(&["configmaps"]));
    server.close_watches();
    let text = get_until(address, "/readyz", |code, _| code == 503).await;
    assert!(text.contains("[-] ConfigMap /api/v1/configmaps: stale; last request failed: "), "{text}");
    assert!(text.contains("is forbidden"), "{text}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn failed_check_returns_503_with_its_text() {
    let (mut world, address) = manager_with_pages(false).await;
    let fails = Arc::new(AtomicBool::new(false));
    let check = |fails: &Arc<AtomicBool>, text: &'static str| {
        let fails = Arc::clone(fails);
        move || if fails.load(SeqCst) { Err(text.to_owned()) } else { Ok(()) }
    };
    world.manager.add_readyz_check("the weather", check(&fails, "it rains"));
    world.manager.add_healthz_check("the heart", check(&fails, "no pulse"));
    let (_, stop, running) = world.run();
    get_until(address, "/readyz", |code, _| code == 200).await;
    assert_eq!(get(address, "/healthz").await.0, 200);
    fails.store(true, SeqCst);
    let (code, text) = get(address, "/readyz").await;
    assert!(code == 503 && text.contains("[-] the weather: it rains\n"), "{code} {text}");
    let (code, text) = get(address, "/healthz").await;
    assert_eq!(
        (code, &*text),
        (503, "[+] process: ok\n[+] controller configmap: ok\n[-] the heart: no pulse\n")
    );
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn probe_address_serves_only_health_without_texts() {
    let loopback = Some(([127, 0, 0, 1], 0).into());
    let world =
        World::new(ManagerOptions { bind_address: loopback, probe_address: loopback, ..Default::default() });
    let (address, probes) =
        (world.manager.local_address().unwrap(), world.manager.local_probe_address().unwrap());
    let (_, stop, running) = world.run();
    let body = get_until(probes, "/readyz", |code, _| code == 200).await;
    assert_eq!(body, "[+] manager\n", "no text after the name");
    assert_eq!(get(probes, "/healthz").await, (200, "[+] process\n".to_owned()));
    for path in ["/metrics", "/debug/informers", "/debug/queues"] {
        assert_eq!((get(probes, path).await.0, get(address, path).await.0), (404, 200), "{path}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn idle_connections_do_not_block_requests() {
    let (world, address) = manager_with_pages(false).await;
    let (_, stop, running) = world.run();
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(get(address, "/healthz").await.0, 200);
    let oldest = timeout(30 * SECOND, silent[0].read(&mut [0])).await;
    assert!(matches!(oldest, Ok(Ok(0) | Err(_))), "the oldest connection is closed: {oldest:?}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn kept_connection_is_closed_with_the_manager() {
    let (world, address) = manager_with_pages(false).await;
    let (_, stop, running) = world.run();
    let mut kept = TcpStream::connect(address).await.unwrap();
    let mut part = [0; 12];
    for _ in 0..2 {
        kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        kept.read_exact(&mut part).await.unwrap();
        assert_eq!(&part, b"HTTP/1.1 200");
        let mut rest = vec![0; 1024];
        let _answer = kept.read(&mut rest).await.unwrap();
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    let mut rest = Vec::new();
    timeout(30 * SECOND, kept.read_to_end(&mut rest)).await.unwrap().expect("the connection is closed");

    let (world, address) = manager_with_pages(false).await;
    let (_, _stop, running) = world.run();
    let mut kept = TcpStream::connect(address).await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    get_until(address, "/healthz", |code, _| code == 200).await;
    running.abort();
    let closed = timeout(30 * SECOND, kept.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "a dropped manager closes its connections");
}

#[tokio::test]
async fn readyz_contains_election_error() {
    let (world, address) = manager_with_pages(false).await;
    world.server.access().add_rule(Rule::deny().resources(&["leases"]));
    let (_, stop, running) = world.run();
    let has_error = |_, text: &str| text.contains("cannot read the Lease");
    let text = get_until(address, "/readyz", has_error).await;
    assert!(text.contains("[+] lease operator: the leader is unknown; cannot read the Lease: "), "{text}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// The last leader crashed, and the server rejects each write of the Lease.
#[tokio::test]
async fn readyz_reports_that_no_process_is_the_leader() {
    let (world, address) = manager_with_pages(false).await;
    let spec = json!({"holderIdentity": "crashed", "leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z"});
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "operator", "namespace": "default"}, "spec": spec,
    });
    world.server.create(&lease).unwrap();
    let writes = RequestMatch::verb(Verb::Update).resource("leases");
    let _cut = world.server.faults().always(writes, Fault::status(500, "InternalError", None));
    let (_, stop, running) = world.run();
    let expected =
        "no process is the leader, because crashed did not renew the lease; cannot write the Lease: ";
    get_until(address, "/readyz", |_, text: &str| text.contains(expected)).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn pages_start_before_caches_and_used_address_is_an_error() {
    let (world, address) = manager_with_pages(false).await;
    let _hangs = world.server.faults().always(RequestMatch::any().resource("configmaps"), Fault::Hang);
    let client = world.client.clone();
    let options = ManagerOptions { bind_address: Some(address), ..ManagerOptions::default() };
    let error = Manager::new(client, options).err().unwrap();
    assert!(matches!(&error, ManagerError::Bind { .. }), "{error}");

    let (_, stop, running) = world.run();
    let (code, text) = get(address, "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("[-] manager: starting\n"), "{text}");
    assert!(text.contains("[-] ConfigMap /api/v1/configmaps: not synced"), "{text}");
    stop.cancel();
    running.await.unwrap().unwrap();
}
