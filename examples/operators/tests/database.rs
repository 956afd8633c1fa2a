//! Runs the same scenario with the Database webhooks of each library.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use kube_informer_operators::cluster::{Cluster, read_crd};
use kube_informer_operators::programs::{Library, Program, Replicas};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// The time limit for the start of the webhooks.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The interval of connection attempts.
const INTERVAL: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_webhooks_on_controller_runtime() -> Result<()> {
    match Program::controller_runtime("database").await? {
        Some(program) => check(&program).await,
        None => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_webhooks_on_kube_operator() -> Result<()> {
    check(&Program::new(Library::KubeOperator, env!("CARGO_BIN_EXE_database-kube-operator"))).await
}

async fn check(program: &Program) -> Result<()> {
    let cluster = Cluster::start(&[], &[]).await?;
    let result = scenario(program, &cluster).await;
    let log = std::fs::read_to_string(cluster.folder().join("operator.log")).unwrap_or_default();
    cluster.stop().await;
    result.with_context(|| format!("the log of the operator:\n{log}"))
}

async fn scenario(program: &Program, cluster: &Cluster) -> Result<()> {
    let ca_bundle = write_certificate(cluster.folder())?;
    let port = free_port().await?;
    install(cluster, port, &ca_bundle)?;
    let operator = start(program, cluster, port).await?;
    let client = Client::new(cluster.server().service(), "default");
    let (old, new) = (databases(&client, "v1beta1"), databases(&client, "v1"));

    let created = json!({"apiVersion": "example.com/v1beta1", "kind": "Database",
        "metadata": {"name": "orders", "labels": {"team": "shop"}}, "spec": {"size": "10Gi"}});
    old.create(&PostParams::default(), &serde_json::from_value(created)?).await?;
    let stored = new.get("orders").await?;
    assert_eq!(stored.data["spec"], json!({"storageGib": 10, "replicas": 1}), "converted and defaulted");
    assert_eq!(stored.metadata.labels.context("labels")?["team"], "shop");
    assert_eq!(old.get("orders").await?.data["spec"], json!({"size": "10Gi", "replicas": 1}));

    let error = patch(&old, &json!({"spec": {"size": "5Gi"}})).await.expect_err("a denial");
    ensure!(error.contains("spec.storageGib: cannot shrink from 10 to 5"), "{error}");
    let error = patch(&old, &json!({"spec": {"size": "ten"}})).await.expect_err("a failed conversion");
    ensure!(error.contains("spec.size \"ten\" is not like 10Gi"), "{error}");
    patch(&new, &json!({"spec": {"storageGib": 20, "replicas": 3}})).await.map_err(anyhow::Error::msg)?;
    assert_eq!(old.get("orders").await?.data["spec"], json!({"size": "20Gi", "replicas": 3}));
    operator.stop().await
}

/// Writes the files of a certificate for 127.0.0.1, and returns the CA bundle.
fn write_certificate(folder: &Path) -> Result<String> {
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    std::fs::write(folder.join("tls.crt"), certified.cert.pem())?;
    std::fs::write(folder.join("tls.key"), certified.signing_key.serialize_pem())?;
    Ok(BASE64_STANDARD.encode(certified.cert.pem()))
}

/// Returns a free port, because a program in Go does not report its port.
async fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?.local_addr()?.port())
}

/// Creates the CRD and the webhook configurations.
fn install(cluster: &Cluster, port: u16, ca_bundle: &str) -> Result<()> {
    let config =
        |path: &str| json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": ca_bundle});
    let mut crd = read_crd("database")?;
    crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": config("/convert")}});
    cluster.server().create(&crd)?;
    for (kind, path) in [
        ("MutatingWebhookConfiguration", "/mutate-example-com-v1-database"),
        ("ValidatingWebhookConfiguration", "/validate-example-com-v1-database"),
    ] {
        cluster.server().create(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "databases"},
            "webhooks": [{
                "name": "databases.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": config(path),
                "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["databases"],
                           "operations": ["CREATE", "UPDATE"]}],
            }],
        }))?;
    }
    Ok(())
}

/// Starts the program, and waits until it accepts connections.
async fn start(program: &Program, cluster: &Cluster, port: u16) -> Result<Replicas> {
    let (port_text, folder) = (port.to_string(), cluster.folder().display().to_string());
    let arguments = ["--webhook-port", &port_text, "--cert-dir", &folder];
    let operator = program.start_replicas(&cluster.kubeconfig(), cluster.folder(), &arguments)?;
    let connecting = async {
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
            sleep(INTERVAL).await;
        }
    };
    timeout(START_LIMIT, connecting).await.context("the webhooks accept no connection")?;
    Ok(operator)
}

fn databases(client: &Client, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", version, "Database");
    Api::default_namespaced_with(client.clone(), &ApiResource::from_gvk(&kind))
}

/// Patches the Database. Returns the message of a failure.
async fn patch(databases: &Api<DynamicObject>, change: &Value) -> Result<(), String> {
    let patched = databases.patch("orders", &PatchParams::default(), &Patch::Merge(change)).await;
    patched.map(drop).map_err(|error| error.to_string())
}
