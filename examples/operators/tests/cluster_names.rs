//! Runs the same scenario with the operator cluster-names of each library.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube_informer_operators::cluster::Cluster;
use kube_informer_operators::programs::{Library, Program};
use kube_testserver::Server;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// The time limit until an operator has closed its watches.
const LIMIT: Duration = Duration::from_secs(60);
/// The interval of reads of the number of watches.
const INTERVAL: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_names_on_controller_runtime() -> Result<()> {
    match Program::controller_runtime("cluster-names").await? {
        Some(program) => check(&program).await,
        None => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_names_on_kube_operator() -> Result<()> {
    check(&Program::new(Library::KubeOperator, env!("CARGO_BIN_EXE_cluster-names-kube-operator"))).await
}

async fn check(program: &Program) -> Result<()> {
    let hub = Cluster::start(&["fleet"], &[]).await?;
    let (east, west) = (Cluster::start(&[], &[]).await?, Cluster::start(&[], &[]).await?);
    let result = scenario(program, &hub, &east, &west).await;
    let log = std::fs::read_to_string(hub.folder().join("operator.log")).unwrap_or_default();
    for cluster in [hub, east, west] {
        cluster.stop().await;
    }
    result.with_context(|| format!("the log of the operator:\n{log}"))
}

async fn scenario(program: &Program, hub: &Cluster, east: &Cluster, west: &Cluster) -> Result<()> {
    let operator = program.start_replicas(&hub.kubeconfig(), hub.folder(), &[])?;
    deploy(east, "web")?;
    deploy(west, "web")?;
    engage(hub, "east", east)?;
    engage(hub, "west", west)?;
    has_name(east, "web", "east").await?;
    has_name(west, "web", "west").await?;

    // Drift, and a deleted ConfigMap.
    let mut map = east.server().get_untyped("v1", "ConfigMap", Some("default"), "web")?;
    map["data"] = json!({"cluster": "somewhere"});
    east.server().update(&map)?;
    has_name(east, "web", "east").await?;
    west.server().delete_untyped("v1", "ConfigMap", Some("default"), "web")?;
    has_name(west, "web", "west").await?;

    // A cluster leaves. While it is away, the other cluster continues.
    hub.server().delete_untyped("v1", "Secret", Some("fleet"), "west")?;
    deploy(east, "late")?;
    has_name(east, "late", "east").await?;
    has_no_watches(west.server()).await?;
    deploy(west, "late")?;
    ensure!(config_map(west.server(), "late").is_none(), "an operator reconciled a cluster that had left");

    // It returns under another name.
    engage(hub, "far-west", west)?;
    has_name(west, "late", "far-west").await?;
    has_name(west, "web", "far-west").await?;
    operator.stop().await
}

/// Creates the Secret with the kubeconfig of a cluster.
fn engage(hub: &Cluster, name: &str, cluster: &Cluster) -> Result<()> {
    let kubeconfig = BASE64_STANDARD.encode(std::fs::read(cluster.kubeconfig())?);
    let labels = json!({"example.com/cluster": "true"});
    hub.server().create(&json!({
        "apiVersion": "v1", "kind": "Secret", "data": {"kubeconfig": kubeconfig},
        "metadata": {"name": name, "namespace": "fleet", "labels": labels},
    }))?;
    Ok(())
}

fn deploy(cluster: &Cluster, name: &str) -> Result<()> {
    let labels = json!({"app": name});
    cluster.server().create(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
    }))?;
    Ok(())
}

/// Waits until an operator has closed its watches.
async fn has_no_watches(server: &Server) -> Result<()> {
    let closing = async {
        while server.open_watches() > 0 {
            sleep(INTERVAL).await;
        }
    };
    timeout(LIMIT, closing).await.context("the operator still watches a cluster that has left")
}

fn config_map(server: &Server, name: &str) -> Option<Value> {
    server.get_untyped("v1", "ConfigMap", Some("default"), name).ok()
}

/// Waits until the ConfigMap of a Deployment has the name of the cluster, and its owner.
async fn has_name(cluster: &Cluster, deployment: &str, name: &str) -> Result<()> {
    let is_right = |map: &Value| {
        map["data"]["cluster"] == name && map["metadata"]["ownerReferences"][0]["name"] == deployment
    };
    let check = |server: &Server| config_map(server, deployment).filter(is_right).map(drop);
    cluster.wait_until(&format!("the ConfigMap {deployment} contains {name}"), check).await
}
