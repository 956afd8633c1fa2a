//! What is served over HTTP while an operator runs.

use std::sync::atomic::AtomicBool;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::*;

/// A page as somebody sees it who asks for it: its code and its text.
pub(super) async fn page(address: std::net::SocketAddr, path: &str) -> (u16, String) {
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
pub(super) async fn page_when(
    address: std::net::SocketAddr,
    path: &str,
    right: impl Fn(u16, &str) -> bool,
) -> String {
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
        bind_address: address,
        election: Some(election("first")),
        ..ManagerOptions::default()
    });
    world.create("web").await;
    world.create("bad").await;
    let controller = world.controller();
    world.manager.add_controller(controller, |request: Request<ConfigMap>| async move {
        match request.key.name() {
            "bad" => Err(Failure::terminal("the moon is in the way")),
            _ => Ok(Action::Done),
        }
    });
    let address = world.manager.local_address().unwrap();
    (world, address)
}

#[tokio::test]
async fn pages_say_what_an_operator_does_and_show_nothing_of_its_objects() {
    let (mut world, address) = shown().await;
    world.manager.add_readyz_check("the weather", || Ok(()));
    let (_, stop, running) = world.run();
    let ran = |_, text: &str| {
        text.contains(r#"controller_runtime_reconcile_total{controller="configmap",result="success"} 1"#)
            && text.contains(r#"controller_runtime_reconcile_total{controller="configmap",result="error"} 1"#)
            && text.contains(r#"controller_runtime_active_workers{controller="configmap"} 0.0"#)
    };
    let metrics = page_when(address, "/metrics", ran).await;
    let lines: Vec<&str> = metrics.lines().collect();
    for line in [
        r#"controller_runtime_reconcile_errors_total{controller="configmap"} 1"#,
        r#"controller_runtime_terminal_reconcile_errors_total{controller="configmap"} 1"#,
        r#"controller_runtime_reconcile_panics_total{controller="configmap"} 0"#,
        r#"controller_runtime_reconcile_timeouts_total{controller="configmap"} 0"#,
        r#"controller_runtime_reconcile_time_seconds_count{controller="configmap"} 2"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="configmap"} 1.0"#,
        r#"controller_runtime_active_workers{controller="configmap"} 0.0"#,
        r#"workqueue_depth{name="configmap",controller="configmap"} 0.0"#,
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
        assert!(lines.contains(&line), "{line} is no line of\n{metrics}");
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
    assert_eq!(page(address, "/healthz").await, (200, "[+] process: answers\n".to_owned()));

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
async fn a_check_that_fails_is_an_unavailable_page_with_its_words() {
    let (mut world, address) = shown().await;
    let fails = Arc::new(AtomicBool::new(false));
    let check = |fails: &Arc<AtomicBool>, words: &'static str| {
        let fails = Arc::clone(fails);
        move || if fails.load(SeqCst) { Err(words.to_owned()) } else { Ok(()) }
    };
    world.manager.add_readyz_check("the weather", check(&fails, "it rains"));
    world.manager.add_healthz_check("the heart", check(&fails, "it stands still"));
    let (_, stop, running) = world.run();
    page_when(address, "/readyz", |code, _| code == 200).await;
    assert_eq!(page(address, "/healthz").await.0, 200);
    fails.store(true, SeqCst);
    let (code, words) = page(address, "/readyz").await;
    assert!(code == 503 && words.contains("[-] the weather: it rains\n"), "{code} {words}");
    let (code, words) = page(address, "/healthz").await;
    assert_eq!((code, &*words), (503, "[+] process: answers\n[-] the heart: it stands still\n"));
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_address_of_the_probes_shows_nothing_else() {
    let loopback = Some(([127, 0, 0, 1], 0).into());
    let world =
        World::new(ManagerOptions { bind_address: loopback, probe_address: loopback, ..Default::default() });
    let (address, probes) =
        (world.manager.local_address().unwrap(), world.manager.local_probe_address().unwrap());
    let (_, stop, running) = world.run();
    let shown = page_when(probes, "/readyz", |code, _| code == 200).await;
    assert_eq!(shown, "[+] manager\n", "whether, and nothing else");
    assert_eq!(page(probes, "/healthz").await, (200, "[+] process\n".to_owned()));
    for path in ["/metrics", "/debug/informers", "/debug/queues"] {
        assert_eq!((page(probes, path).await.0, page(address, path).await.0), (404, 200), "{path}");
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_connects_and_says_nothing_keeps_nobody_out() {
    let (world, address) = shown().await;
    let (_, stop, running) = world.run();
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(page(address, "/healthz").await.0, 200);
    let oldest = timeout(30 * SECOND, silent[0].read(&mut [0])).await;
    assert!(matches!(oldest, Ok(Ok(0) | Err(_))), "the oldest has made room: {oldest:?}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_that_is_kept_open_does_not_outlive_the_manager() {
    let (world, address) = shown().await;
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
    timeout(30 * SECOND, kept.read_to_end(&mut rest)).await.unwrap().expect("it was closed");

    let (world, address) = shown().await;
    let (_, _stop, running) = world.run();
    let mut kept = TcpStream::connect(address).await.unwrap();
    kept.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    page_when(address, "/healthz", |code, _| code == 200).await;
    running.abort();
    let closed = timeout(30 * SECOND, kept.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "a manager that is dropped closes its connections");
}

#[tokio::test]
async fn why_the_lease_can_t_be_had_is_said() {
    let (world, address) = shown().await;
    world.server.access().add_rule(Rule::deny().resources(&["leases"]));
    let (_, stop, running) = world.run();
    let said = |_, words: &str| words.contains("can't read it");
    let words = page_when(address, "/readyz", said).await;
    assert!(words.contains("[+] lease operator: nobody is known to lead; can't read it: "), "{words}");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn pages_are_there_before_the_caches_and_an_address_that_is_taken_is_an_error() {
    let (world, address) = shown().await;
    let _hangs = world.server.faults().always(Match::any().resource("configmaps"), Fault::Hang);
    let client = world.client.clone();
    let options = ManagerOptions { bind_address: Some(address), ..ManagerOptions::default() };
    let error = Manager::new(client, options).err().unwrap();
    assert!(matches!(&error, ManagerError::Bind { .. }), "{error}");

    let (_, stop, running) = world.run();
    let (code, words) = page(address, "/readyz").await;
    assert_eq!(code, 503);
    assert!(words.contains("[-] manager: starting\n"), "{words}");
    assert!(words.contains("[-] ConfigMap /api/v1/configmaps: not synced"), "{words}");
    stop.cancel();
    running.await.unwrap().unwrap();
}
