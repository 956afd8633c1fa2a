//! `kubectl informer cost` with 20,000 Pods of a real kube-apiserver: the counts equal the list of the
//! server, and the peak memory is near the size of the compressed cache.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube_client::api::{Api, Patch, PatchParams, PostParams};
use kube_client::core::Request;
use kube_informer_e2e::real::{Options, RealServer};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::sleep;

const PODS: usize = 20_000;
/// The largest peak memory, relative to the compressed cache. With `--duration`, the program holds all
/// objects with managedFields, to compare each object with its events.
const MAX_PEAK: f64 = 1.3;
const CONCURRENT_WRITES: usize = 32;
const NAMESPACE: &str = "cost";
/// The interval in which the memory is read.
const MEMORY_INTERVAL: Duration = Duration::from_millis(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cost_of_many_pods_equals_the_list_within_bounded_memory() -> Result<()> {
    let Some(server) = RealServer::start_or_skip("cost_real", 1, Options::default()).await? else {
        return Ok(());
    };
    let client = server.client().await?;
    create_pods(&client).await?;
    let items = listed_items(&client).await?;
    let bytes: usize = items.iter().map(|item| item.get().len()).sum();
    for arguments in [&[][..], &["--duration", "1s"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl_plugin"));
        command.args(["cost", "pods", "-n", NAMESPACE, "-o", "json"]).args(arguments);
        command.arg("--kubeconfig").arg(server.kubeconfig());
        let (report, peak) = measured(command).await?;
        let pods = &report["resources"][0];
        ensure!(pods["objects"] == items.len(), "{} objects, expected {}", pods["objects"], items.len());
        ensure!(pods["jsonBytes"] == bytes, "{} bytes, expected {bytes}", pods["jsonBytes"]);
        let cache = pods["caches"]["compressed"].as_u64().context("no compressed cache")?;
        let ratio = peak as f64 / cache as f64;
        eprintln!("{PODS} Pods {arguments:?}: peak memory {peak} bytes, {ratio:.2} of the compressed cache");
        ensure!(ratio <= MAX_PEAK, "peak memory of {peak} bytes, compressed cache of {cache} bytes");
    }
    drop(client);
    server.stop().await
}

async fn create_pods(client: &kube_client::Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let writes = stream::iter(0..PODS).map(|number| {
        let pods = pods.clone();
        async move {
            let (name, pod) = pod(number)?;
            pods.create(&PostParams::default(), &pod).await?;
            let params = PatchParams { field_manager: Some("kubelet".into()), ..PatchParams::default() };
            let status = json!({"status": {
                "phase": "Running", "podIP": format!("10.1.{}.{}", number / 250, number % 250 + 1),
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            }});
            pods.patch_status(&name, &params, &Patch::Merge(status)).await?;
            anyhow::Ok(())
        }
    });
    writes.buffer_unordered(CONCURRENT_WRITES).try_collect().await
}

/// Returns a Pod of a usual size. Its texts differ from the texts of other Pods.
fn pod(number: usize) -> Result<(String, Pod)> {
    let name = format!("web-{number:05}");
    let mut random = fastrand::Rng::with_seed(number as u64);
    let mut text = |length: usize| -> String { (0..length).map(|_| random.alphanumeric()).collect() };
    let mut env = Vec::new();
    for name in 0..20 {
        env.push(json!({"name": format!("SETTING_{name}"), "value": text(40)}));
    }
    let pod = json!({
        "metadata": {
            "name": name,
            "labels": {"app": "web", "revision": text(10)},
            "annotations": {"checksum/config": text(64), "example.com/trace": text(200)},
        },
        "spec": {"containers": [
            {"name": "app", "image": format!("registry.example/web:{}", text(12)), "env": env},
            {"name": "proxy", "image": "registry.example/proxy:1", "args": [text(60)]},
        ]},
    });
    Ok((name, serde_json::from_value(pod)?))
}

/// Lists all Pods as JSON, like `kubectl get --raw`.
async fn listed_items(client: &kube_client::Client) -> Result<Vec<Box<RawValue>>> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Box<RawValue>>,
    }
    let request = Request::new(format!("/api/v1/namespaces/{NAMESPACE}/pods")).list(&Default::default())?;
    let text = client.request_text(request).await?;
    Ok(serde_json::from_str::<List>(&text)?.items)
}

/// Runs a program. Returns the JSON that it prints, and its peak memory in bytes.
async fn measured(mut command: Command) -> Result<(Value, u64)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id().context("the program has stopped")?));
    let mut stdout = child.stdout.take().context("no standard output")?;
    let output = tokio::spawn(async move {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).await.map(|_| text)
    });
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        peak = peak.max(private_bytes(&fs::read_to_string(&status).unwrap_or_default()).unwrap_or(0));
        sleep(MEMORY_INTERVAL).await;
    }
    ensure!(child.wait().await?.success(), "the program failed");
    Ok((serde_json::from_slice(&output.await??)?, peak))
}

/// Returns the resident memory without the code of the program, which is large in a test build.
fn private_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}
