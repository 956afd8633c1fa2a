//! `why` reads an operator of a real server, and explains why it cannot read a Pod without a kubelet.

use std::{net::Ipv4Addr, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_informer_e2e::real::{Options, RealServer};
use kube_operator::{Action, Controller, ElectionOptions, Failure, Manager, ManagerOptions, Request};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{apply, command, process::run};

/// The deadline of a step.
const DEADLINE: Duration = Duration::from_secs(30);
/// The time between two calls of the program.
const POLL_PERIOD: Duration = Duration::from_millis(100);

/// The result of the program: exit code, standard output and standard error.
type Output = (i32, String, String);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_explains_failing_key_of_real_server() -> Result<()> {
    let Some(server) = RealServer::start_or_skip("why_real", 5, Options::default()).await? else {
        return Ok(());
    };
    let (client, kubeconfig) = (server.client().await?, server.kubeconfig().to_owned());
    create_objects(&client).await?;
    operator_is_read_by_url(&client, &kubeconfig).await?;
    pods_without_kubelet_are_one_line(&kubeconfig).await?;
    server.stop().await
}

async fn create_objects(client: &Client) -> Result<()> {
    let container = json!({"name": "app", "image": "registry.example/web:1"});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}});
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "broken", "namespace": "shop"}}),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"containers": [container]}, "status": {"phase": "Running"},
        }),
        deployment("web", &template),
        deployment("empty", &json!({"metadata": {"labels": {"app": "empty"}}, "spec": template["spec"]})),
    ] {
        apply(client, &object).await.with_context(|| object.to_string())?;
    }
    Ok(())
}

fn deployment(name: &str, template: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": template["metadata"]["labels"]}, "template": template},
    })
}

async fn reconcile(request: Request<ConfigMap>) -> Result<Action, Failure> {
    match request.key.name() {
        "broken" => Err(Failure::from("the map has no colour")),
        _ => Ok(Action::Done),
    }
}

async fn operator_is_read_by_url(client: &Client, kubeconfig: &Path) -> Result<()> {
    let options = ManagerOptions {
        bind_address: Some((Ipv4Addr::LOCALHOST, 0).into()),
        explain_changes: true,
        election: Some(ElectionOptions::new("shop", "colours")),
        ..ManagerOptions::default()
    };
    let mut manager = Manager::new(client.clone(), options)?;
    let maps = manager.factory().informer::<ConfigMap>()?;
    manager.add_controller(Controller::new(&maps).named("colours"), reconcile);
    let url = format!("http://{}", manager.local_address().context("the pages have an address")?);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(manager.run(async {
        let _ = stopped.await;
    }));
    let result = read_operator(client, kubeconfig, &url).await;
    let _ = stop.send(());
    running.await??;
    result
}

async fn read_operator(client: &Client, kubeconfig: &Path, url: &str) -> Result<()> {
    let why = ["why", "--url", url];
    let overview = until(kubeconfig, &why, |(_, out, _)| out.contains("FAILED KEY")).await?;
    for text in ["(leader)", "shop/broken", "the map has no colour"] {
        ensure!(overview.1.contains(text), "{text}: {overview:?}");
    }
    // A retry of the key can hide the change, so the object changes until the report contains the change.
    let key = ["why", "--url", url, "colours", "shop/broken", "-o", "json"];
    let end = Instant::now() + DEADLINE;
    for number in 0.. {
        let data = json!({"colour": number.to_string()});
        let metadata = json!({"name": "broken", "namespace": "shop"});
        apply(client, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}))
            .await?;
        let output = until(kubeconfig, &key, |(code, ..)| *code == 0).await?;
        let report: Value = serde_json::from_str(&output.1)?;
        let explanation = &report["programs"][0]["explanation"];
        ensure!(explanation["lastRun"]["error"] == "the map has no colour", "{report:#}");
        ensure!(explanation["failures"].as_u64() >= Some(1), "{report:#}");
        let changes = explanation["lastRun"]["changes"].as_array().cloned().unwrap_or_default();
        let is_change = |change: &Value| {
            change["fieldManager"] == "test"
                && change["fields"].to_string().contains("data.colour")
                && change["resourceVersion"].is_string()
        };
        if changes.iter().any(is_change) {
            return Ok(());
        }
        ensure!(Instant::now() < end, "the report contains no change: {report:#}");
    }
    Ok(())
}

/// Runs the program until its result is as expected.
async fn until(
    kubeconfig: &Path,
    arguments: &[&str],
    is_expected: impl Fn(&Output) -> bool,
) -> Result<Output> {
    let end = Instant::now() + DEADLINE;
    loop {
        let output = run(command(kubeconfig, arguments)).await;
        if is_expected(&output) {
            return Ok(output);
        }
        ensure!(Instant::now() < end, "{arguments:?}: {output:?}");
        sleep(POLL_PERIOD).await;
    }
}

/// A port-forward needs the kubelet of the node, and this server has no nodes.
async fn pods_without_kubelet_are_one_line(kubeconfig: &Path) -> Result<()> {
    for (arguments, expected) in [
        (["--pod", "web-1"], "pod shop/web-1: port-forward: pod web-1 does not have a host assigned"),
        (["--pod", "absent"], "pod shop/absent: port-forward: pods \"absent\" not found"),
        (["--deploy", "web"], "pod shop/web-1: port-forward: pod web-1 does not have a host assigned"),
        (["--deploy", "empty"], "the Deployment shop/empty has no running Pod"),
        (["--deploy", "absent"], "failed to read the Deployment shop/absent"),
    ] {
        let arguments = [&["why", "-n", "shop"], &arguments[..]].concat();
        let (code, out, error) = run(command(kubeconfig, &arguments)).await;
        ensure!(code == 1 && out.is_empty(), "{arguments:?}: {code} {out} {error}");
        ensure!(error.lines().count() == 1 && error.contains(expected), "{arguments:?}: {error}");
    }
    Ok(())
}
