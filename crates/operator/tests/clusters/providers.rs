//! The providers of kubeconfigs in Secrets and files.

use std::net::SocketAddr;

use kube_operator::{ClusterState, KubeconfigProvider, SecretProvider};
use tokio::time::timeout;

use super::*;

const LOCAL: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// The token of each kubeconfig, which no message may contain.
const TOKEN: &str = "s3cr3t";

/// Returns a kubeconfig with a context for each name.
fn kubeconfig(contexts: &[(&str, SocketAddr)]) -> Value {
    let named = |name: &str, field: &str, value: Value| json!({"name": name, field: value});
    let of = |field: &'static str, value: fn(SocketAddr) -> Value| {
        contexts.iter().map(|(name, address)| named(name, field, value(*address))).collect::<Vec<_>>()
    };
    let of_contexts: Vec<Value> = contexts
        .iter()
        .map(|(name, _)| named(name, "context", json!({"cluster": name, "user": name})))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Config", "contexts": of_contexts,
        "clusters": of("cluster", |address| json!({"server": format!("http://{address}")})),
        "users": of("user", |_| json!({"token": TOKEN})),
        "current-context": contexts[0].0,
    })
}

fn secret(name: &str, key: &str, content: &Value) -> Value {
    let content = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
    let metadata = json!({"name": name, "namespace": "fleet"});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {key: content}})
}

/// Waits until a cluster has this state and a problem that contains this text.
async fn wait_for(clusters: &Clusters, name: &str, state: ClusterState, problem: &str) {
    let status = || clusters.status().into_iter().find(|status| status.name.as_str() == name);
    let reached = async {
        while !status().is_some_and(|status| {
            status.state == state && status.problem.unwrap_or_default().contains(problem)
        }) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let reached = timeout(60 * SECOND, reached).await;
    assert!(reached.is_ok(), "{name} is not {state} with {problem:?}: {:?}", status());
    assert!(!format!("{:?}", status()).contains(TOKEN));
}

async fn wait_until_gone(clusters: &Clusters, name: &str) {
    let gone = async {
        while clusters.status().iter().any(|status| status.name.as_str() == name) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(60 * SECOND, gone).await.unwrap();
}

fn replace(hub: &Server, secret: &Value) {
    let name = secret["metadata"]["name"].as_str().unwrap();
    let data = json!({"stringData": secret["stringData"]});
    hub.patch_untyped("v1", "Secret", Some("fleet"), name, &data).unwrap();
}

#[tokio::test]
async fn broken_kubeconfig_in_secret_is_isolated_and_can_be_corrected() {
    let hub = Server::new();
    hub.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}})).unwrap();
    let east = Server::builder().require_token(false).build();
    east.create(&map("web", "east")).unwrap();
    let listening = east.listen(LOCAL.into()).await.unwrap();
    let good = kubeconfig(&[("any", listening.local_addr())]);
    let with_user = |user: Value| {
        let mut broken = good.clone();
        broken["users"][0]["user"] = user;
        broken
    };
    let mut no_context = good.clone();
    no_context["current-context"] = "absent".into();
    let mut proxy = good.clone();
    proxy["clusters"][0]["cluster"]["proxy-url"] = format!("socks5://bob:{TOKEN}@127.0.0.1:1").into();
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [TOKEN]}});
    let broken = [
        ("no-data", "other", good.clone(), "no data key \"kubeconfig\""),
        ("no-yaml", "kubeconfig", json!(format!("{TOKEN}: [")), "not valid"),
        ("wrong-type", "kubeconfig", json!({"users": TOKEN}), "not valid"),
        ("no-context", "kubeconfig", no_context, "incomplete"),
        ("proxy", "kubeconfig", proxy, "`proxy-url`"),
        ("program", "kubeconfig", with_user(exec), "`exec`"),
        ("file", "kubeconfig", with_user(json!({"tokenFile": "/etc/passwd"})), "`tokenFile`"),
    ];
    for (name, key, content, _) in &broken {
        hub.create(&secret(name, key, content)).unwrap();
    }
    hub.create(&secret("east", "kubeconfig", &good)).unwrap();

    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(client(&hub), options).unwrap();
    let secrets = manager.factory().select::<Secret>().namespace("fleet").informer().unwrap();
    let clusters = manager.clusters(SecretProvider::new(&secrets));
    let maps = clusters.informer::<ConfigMap>();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    for (name, _, _, problem) in &broken {
        wait_for(&clusters, name, ClusterState::Failing, problem).await;
    }
    wait_for(&clusters, "east", ClusterState::Synced, "").await;
    assert_eq!(says(&maps.get(&key("east/default/web")).unwrap()), "east");
    clusters.check_initial().unwrap();

    // An invalid kubeconfig of an engaged cluster is reported, and the cluster remains.
    let engaged = clusters.get("east").unwrap();
    replace(&hub, &secret("east", "kubeconfig", &json!("[")));
    wait_for(&clusters, "east", ClusterState::Failing, "Secret fleet/east: the kubeconfig is not valid")
        .await;
    assert!(!engaged.is_disengaged());
    // A valid one replaces the cluster, also with the same content as before.
    replace(&hub, &secret("east", "kubeconfig", &good));
    wait_for(&clusters, "east", ClusterState::Synced, "").await;
    engaged.disengaged().await;
    // A change of a label does not.
    let engaged = clusters.get("east").unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    hub.patch_untyped("v1", "Secret", Some("fleet"), "east", &label).unwrap();

    replace(&hub, &secret("file", "kubeconfig", &good));
    wait_for(&clusters, "file", ClusterState::Synced, "").await;
    assert!(!engaged.is_disengaged());
    for name in ["file", "no-yaml"] {
        hub.delete_untyped("v1", "Secret", Some("fleet"), name).unwrap();
        wait_until_gone(&clusters, name).await;
    }
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn contexts_of_kubeconfig_file_are_added_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let write = |content: &str| std::fs::write(&path, content).unwrap();
    // No server listens at port 1.
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let file = |contexts: &[&str]| {
        kubeconfig(&contexts.iter().map(|name| (*name, address)).collect::<Vec<_>>()).to_string()
    };
    write(&file(&["a", "team/b", "c"]));
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(client(&Server::new()), options).unwrap();
    let clusters =
        manager.clusters(KubeconfigProvider::new().path(&path).contexts(["a", "team/b", "late", "never"]));
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let engaged = || clusters.list().iter().map(|cluster| cluster.name().to_string()).collect::<Vec<_>>();
    sleep(SECOND).await;
    assert_eq!(engaged(), ["a", "team:b"]);
    wait_for(&clusters, "never", ClusterState::Failing, "context").await;

    let a = clusters.get("a").unwrap();
    write("{");
    sleep(20 * SECOND).await;
    assert_eq!(engaged(), ["a", "team:b"], "the clusters of an invalid file remain");
    write(&file(&["late", "a"]));
    sleep(20 * SECOND).await;
    assert_eq!(engaged(), ["a", "late"]);
    assert!(!a.is_disengaged(), "the context has not changed");
    write(&file(&["late", "a"]).replace(TOKEN, "new"));
    sleep(20 * SECOND).await;
    assert_eq!((engaged(), a.is_disengaged()), (vec!["a".to_owned(), "late".to_owned()], true));
    std::fs::remove_file(&path).unwrap();
    sleep(20 * SECOND).await;
    assert_eq!(engaged(), ["a", "late"]);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn second_context_with_the_same_cluster_name_is_skipped() {
    let east = Server::builder().require_token(false).build();
    east.create(&map("web", "east")).unwrap();
    let listening = east.listen(LOCAL.into()).await.unwrap();
    let unreachable = ([127, 0, 0, 1], 1).into();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let contexts = [("team:b", unreachable), ("team/b", listening.local_addr())];
    std::fs::write(&path, kubeconfig(&contexts).to_string()).unwrap();
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(client(&Server::new()), options).unwrap();
    let clusters = manager.clusters(KubeconfigProvider::new().path(&path));
    let maps = clusters.informer::<ConfigMap>();
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    wait_for(&clusters, "team:b", ClusterState::Synced, "").await;
    assert_eq!(says(&maps.get(&key("team:b/default/web")).unwrap()), "east");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn absent_kubeconfig_file_stops_the_manager() {
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(client(&Server::new()), options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    manager.clusters(KubeconfigProvider::new().path(folder.path().join("absent")));
    let error = manager.run(std::future::pending()).await.unwrap_err().to_string();
    assert!(error.contains("clusters") && error.contains("absent"), "{error}");
}

/// The program exits only if this thread creates a file while the program runs.
#[cfg(unix)]
#[tokio::test]
async fn exec_program_of_kubeconfig_does_not_block_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let (path, started, go) =
        (folder.path().join("config"), folder.path().join("started"), folder.path().join("go"));
    let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"s3cr3t"}}"#;
    let script = format!(
        "touch {}; for i in $(seq 500); do [ -e {} ] && echo '{credential}' && exit; sleep 0.02; done; exit 1",
        started.display(),
        go.display()
    );
    let mut config = kubeconfig(&[("east", SocketAddr::from(([127, 0, 0, 1], 1)))]);
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "Never"
    }});
    std::fs::write(&path, config.to_string()).unwrap();
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(client(&Server::new()), options).unwrap();
    let clusters = manager.clusters(KubeconfigProvider::new().path(&path));
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    while !started.exists() {
        sleep(Duration::from_millis(10)).await;
    }
    std::fs::write(&go, "").unwrap();
    let engaged = async {
        while clusters.get("east").is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(60 * SECOND, engaged).await.unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
}

/// The program of the context `a` runs as long as its folder exists.
#[cfg(unix)]
#[tokio::test]
async fn exec_program_that_hangs_delays_neither_other_contexts_nor_the_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let (path, started) = (folder.path().join("config"), folder.path().join("started"));
    let script = format!("touch {}; while [ -e {0} ]; do sleep 0.02; done", started.display());
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut config = kubeconfig(&[("a", address), ("b", address)]);
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "Never"
    }});
    std::fs::write(&path, config.to_string()).unwrap();
    let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
    let mut manager = Manager::new(client(&Server::new()), options).unwrap();
    let clusters = manager.clusters(KubeconfigProvider::new().path(&path));
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let engaged = async {
        while clusters.get("b").is_none() || !started.exists() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(20 * SECOND, engaged).await.unwrap();
    stop.cancel();
    timeout(20 * SECOND, running).await.unwrap().unwrap().unwrap();
    assert!(clusters.get("a").is_none() && started.exists());
}
