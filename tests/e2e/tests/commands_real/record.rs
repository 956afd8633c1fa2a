//! `record` writes the objects and events of a real server, and `serve` has the same objects.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kube_client::{
    Client, Config,
    api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
};
use kube_informer_e2e::real::{Options, RealServer};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    apply, command,
    process::{Program, run},
};

/// The deadline of a step.
const DEADLINE: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "shop";
/// The value of the Secret, as text and in base64.
const SECRET: [&str; 2] = ["hunter2-hunter2", "aHVudGVyMi1odW50ZXIy"];
/// The text `redacted-0` in base64.
const PLACEHOLDER: &str = "cmVkYWN0ZWQtMA==";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recording_of_real_server_is_served_again() -> Result<()> {
    let Some(server) = RealServer::start_or_skip("record_real", 3, Options::default()).await? else {
        return Ok(());
    };
    let client = server.client().await?;
    create_objects(&client).await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("recording");
    record(&client, server.kubeconfig(), &file).await?;
    let expected = [objects(&client, "ConfigMap").await?, objects(&client, "Widget").await?];
    server.stop().await?;
    let contents = String::from_utf8_lossy(&std::fs::read(&file)?).into_owned();
    ensure!(contents.contains(PLACEHOLDER), "the Secret has no placeholder");
    for secret in SECRET {
        ensure!(!contents.contains(secret), "the recording contains {secret}");
    }
    serve(&file, &folder.path().join("kubeconfig"), &expected).await
}

async fn create_objects(client: &Client) -> Result<()> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        },
    });
    apply(client, &definition).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(client, &namespace).await?;
    for number in 0..3 {
        apply(client, &map(&format!("map-{number}"), "1")).await?;
    }
    let metadata = json!({"name": "login", "namespace": NAMESPACE});
    let data = json!({"password": SECRET[1]});
    apply(client, &json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})).await?;
    // The server serves a new resource a short time after its definition.
    let end = Instant::now() + DEADLINE;
    while let Err(error) = apply(client, &widget("small")).await {
        ensure!(Instant::now() < end, "the server does not serve widgets: {error}");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn map(name: &str, value: &str) -> Value {
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}})
}

fn widget(size: &str) -> Value {
    let metadata = json!({"name": "w", "namespace": NAMESPACE});
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": size}})
}

/// Records five objects, two updates, a creation and a deletion, until SIGTERM.
async fn record(client: &Client, kubeconfig: &Path, file: &Path) -> Result<()> {
    let path = file.to_str().context("the path is text")?;
    let arguments = ["record", "configmaps,secrets,widgets", "-n", NAMESPACE, "-o", path];
    let mut recorder = Program::spawn(command(kubeconfig, &arguments));
    recorder.note("recording 5 objects").await;
    apply(client, &map("map-0", "2")).await?;
    apply(client, &widget("large")).await?;
    apply(client, &map("map-9", "1")).await?;
    api(client, "ConfigMap").delete("map-1", &DeleteParams::default()).await?;
    recorder.note("recorded 4 events").await;
    recorder.signal("-TERM").await;
    let (code, out) = recorder.end().await;
    ensure!(code == 0, "the exit code is {code}: {out}");
    ensure!(out.starts_with("recorded 5 objects of configmaps, secrets, widgets"), "{out}");
    ensure!(out.contains(" and 4 events "), "{out}");
    ensure!(out.contains("replaced: 1 value of Secrets"), "{out}");
    Ok(())
}

/// Starts a server with the recording. Compares its objects after all events.
async fn serve(file: &Path, kubeconfig: &Path, expected: &[BTreeMap<String, Value>; 2]) -> Result<()> {
    let text = |path: &Path| path.to_str().map(str::to_owned).context("the path is text");
    let (file, written) = (text(file)?, text(kubeconfig)?);
    let arguments = ["serve", &file, "--write-kubeconfig", &written, "--speed", "1000"];
    let mut server = Program::spawn(command(kubeconfig, &arguments));
    let line = server.line().await;
    ensure!(line.starts_with("serving 5 objects and 4 events at "), "{line}");
    let line = server.line().await;
    ensure!(line == "all events were sent", "{line}");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &options).await?;
    let client = Client::try_from(config)?;
    let actual = [objects(&client, "ConfigMap").await?, objects(&client, "Widget").await?];
    ensure!(actual == *expected, "{actual:#?}, expected {expected:#?}");
    ensure!(expected[0].len() == 3 && expected[1].len() == 1, "{expected:#?}");
    // `cost` reads the objects of the recording.
    let arguments = ["cost", "configmaps", "-n", NAMESPACE, "-o", "json"];
    let (code, out, error) = run(command(kubeconfig, &arguments)).await;
    ensure!(code == 0, "{error}");
    ensure!(serde_json::from_str::<Value>(&out)?["resources"][0]["objects"] == 3, "{out}");
    server.signal("-TERM").await;
    let (code, _) = server.end().await;
    ensure!(code == 130, "the exit code is {code}");
    Ok(())
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let group = if kind == "Widget" { "example.com" } else { "" };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// Lists the objects of a kind, by name, with all their fields.
async fn objects(client: &Client, kind: &str) -> Result<BTreeMap<String, Value>> {
    let list = api(client, kind).list(&ListParams::default()).await?;
    let entry = |object: DynamicObject| {
        Ok((object.metadata.name.clone().unwrap_or_default(), serde_json::to_value(object)?))
    };
    list.items.into_iter().map(entry).collect()
}
