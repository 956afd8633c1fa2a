//! Runs the example `operator` on a real kube-apiserver with the controllers of Kubernetes. They roll
//! out, count and collect the objects of the operator. The output must be the same as on the embedded
//! server.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube_client::{
    Api, Client, Error, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use kube_informer_e2e::{
    example::example,
    real::{Options, RealServer, skip_or_fail},
};
use serde_json::json;
use tokio::{process::Command, time::sleep};

/// The deadline of this test. Steps of the example have their own deadlines.
const STORY: Duration = Duration::from_secs(300);
/// The label of the Pods of the example's site.
const PODS: &str = "app.kubernetes.io/name=kube-informer-example";

/// Runs the example, and returns the text before the colon of each line.
async fn story(flags: &[&str], kubeconfig: Option<&Path>) -> Result<Vec<String>> {
    let mut command = Command::new(example("operator").await?);
    command.args(flags).stdin(Stdio::null()).kill_on_drop(true);
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    let told = tokio::time::timeout(STORY, command.output()).await.context("the story does not end")??;
    let (printed, log) = (String::from_utf8(told.stdout)?, String::from_utf8(told.stderr)?);
    ensure!(told.status.success(), "{}: {log}\nafter\n{printed}", told.status);
    let title = |line: &str| line.split(" :").next().unwrap_or_default().trim_end().to_owned();
    let lines = printed.lines().filter(|line| !line.starts_with("serving "));
    Ok(lines.map(title).collect())
}

/// There is no node, and so no kubelet: each Pod of the site is reported as ready. All else is the
/// controllers' work.
async fn report_pods_as_ready(client: Client) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    loop {
        for pod in pods.list(&ListParams::default().labels(PODS)).await? {
            if pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running") {
                continue;
            }
            match pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&ready)).await {
                Err(Error::Api(status)) if status.is_not_found() => {}
                patched => drop(patched?),
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// By the controllers, one owner after the other; the operator's directory stays.
async fn all_is_collected(server: &RealServer) -> Result<()> {
    let kinds = "deployments,replicasets,pods,services,websites";
    while server.kubectl(&["get", kinds, "--output=name"]).await? != "service/kubernetes\n" {
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_example_has_same_output_on_real_cluster() -> Result<()> {
    let embedded = story(&[], None).await?;
    let expected = [
        "created",
        "owns",
        "ready",
        "directory",
        "event",
        "restored",
        "changed",
        "metrics",
        "deleted",
        "collected",
        "stopped",
    ];
    assert_eq!(embedded, expected);

    let Some(mut server) = RealServer::start_or_skip("operator_story", 1, Options::default()).await? else {
        return Ok(());
    };
    if !server.is_own() {
        return skip_or_fail("operator_story, without nodes", 1);
    }
    server.start_controllers().await?;
    let kubelet = report_pods_as_ready(server.client().await?);
    let told = tokio::select! {
        told = story(&["--cluster", "--write", "--demo"], Some(server.kubeconfig())) => told?,
        failed = kubelet => return failed,
    };
    assert_eq!(told, expected);

    tokio::time::timeout(STORY, all_is_collected(&server)).await.context("not all is collected")??;
    server.stop().await
}
