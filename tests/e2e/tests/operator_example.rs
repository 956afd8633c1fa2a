//! Runs the example `operator` on a real kube-apiserver with the controllers of Kubernetes. These
//! controllers roll out, count and garbage-collect the objects of the operator. The output must be the
//! same as on the embedded server.

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

/// The maximum time until the example exits. The steps of the example have shorter deadlines.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The label selector of the Pods that the example creates.
const POD_SELECTOR: &str = "app.kubernetes.io/name=kube-informer-example";

/// Runs the example, and returns the text before the colon of each line.
async fn run_example(flags: &[&str], kubeconfig: Option<&Path>) -> Result<Vec<String>> {
    let mut command = Command::new(example("operator").await?);
    command.args(flags).stdin(Stdio::null()).kill_on_drop(true);
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    let output =
        tokio::time::timeout(TIMEOUT, command.output()).await.context("the example did not exit")??;
    let (printed, log) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(output.status.success(), "{}: {log}\nafter\n{printed}", output.status);
    let title = |line: &str| line.split(" :").next().unwrap_or_default().trim_end().to_owned();
    let lines = printed.lines().filter(|line| !line.starts_with("serving "));
    Ok(lines.map(title).collect())
}

/// Marks each Pod of the example as running and ready, because no kubelet runs. The controllers of
/// Kubernetes do all other work.
async fn report_pods_as_ready(client: Client) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    loop {
        for pod in pods.list(&ListParams::default().labels(POD_SELECTOR)).await? {
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

/// Waits until the garbage collector has deleted all objects of the example. The ConfigMap `directory`
/// has no owner, so it remains.
async fn wait_until_collected(server: &RealServer) -> Result<()> {
    let kinds = "deployments,replicasets,pods,services,websites";
    while server.kubectl(&["get", kinds, "--output=name"]).await? != "service/kubernetes\n" {
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_example_has_same_output_on_real_cluster() -> Result<()> {
    let embedded = run_example(&[], None).await?;
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

    let Some(mut server) = RealServer::start_or_skip("operator_example", 1, Options::default()).await? else {
        return Ok(());
    };
    if !server.is_own() {
        return skip_or_fail("operator_example, without nodes", 1);
    }
    server.start_controllers().await?;
    let kubelet = report_pods_as_ready(server.client().await?);
    let printed = tokio::select! {
        printed = run_example(&["--cluster", "--write", "--demo"], Some(server.kubeconfig())) => printed?,
        failed = kubelet => return failed,
    };
    assert_eq!(printed, expected);

    let collected = tokio::time::timeout(TIMEOUT, wait_until_collected(&server)).await;
    collected.context("the garbage collector has not deleted all objects of the example")??;
    server.stop().await
}
