//! The steps for helm with the chart in `tests/e2e/helm/chart`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Result;
use kube_informer_e2e::real::skip_or_fail;
use tokio::process::Command;

use crate::objects::Objects;
use crate::step::Action::{self, Create, Run};
use crate::step::{Step, Steps};
use crate::workloads::namespace;

/// Builds helm. Without Go, the test fails in CI, and is skipped elsewhere.
pub(crate) async fn program() -> Result<Option<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(root.join("../../.ci/client-go")).stdin(Stdio::null()).output().await?;
    if built.status.success() {
        return Ok(Some(root.join("helm/bin/helm")));
    }
    skip_or_fail(&format!("helm ({})", String::from_utf8_lossy(&built.stderr)), 1).map(|()| None)
}

pub(crate) fn steps(helm: &Path) -> Steps {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("helm/chart").display().to_string();
    let run = |args: &str| -> Action {
        let args = args.replace("CHART", &chart);
        let args = args.split_whitespace().chain(["--namespace", "helm"]).map(str::to_owned);
        Run(helm.to_owned(), args.collect())
    };
    vec![
        Step {
            name: "helm install waits for a hook and the Deployment",
            actions: vec![
                Create(namespace("helm")),
                run("install web CHART --wait --timeout 60s -o json"),
                run("get manifest web"),
            ],
            is_done: |objects, space| is_ready(objects, space, 2),
        },
        Step {
            name: "helm upgrade changes the objects",
            actions: vec![
                run("upgrade web CHART --set replicas=3,greeting=hi --wait --timeout 60s -o json"),
                run("get values web -o json"),
                run("get metadata web -o json"),
            ],
            is_done: |objects, space| is_ready(objects, space, 3),
        },
        Step {
            name: "helm rollback restores the objects",
            actions: vec![
                run("rollback web 1 --wait --timeout 60s"),
                run("history web -o json"),
                run("list -o json"),
            ],
            is_done: |objects, space| is_ready(objects, space, 2),
        },
        Step {
            name: "helm uninstall deletes the objects and keeps the history",
            actions: vec![
                run("uninstall web --wait --timeout 60s --keep-history"),
                run("history web -o json"),
                run("list --uninstalled -o json"),
            ],
            is_done: |objects, space| {
                let mut left = ["Deployment", "ReplicaSet", "Service", "Role"].into_iter();
                left.all(|kind| objects.of(kind, space).next().is_none())
            },
        },
    ]
}

fn is_ready(objects: &Objects, namespace: &str, replicas: usize) -> bool {
    objects.is_rolled_out("Deployment", namespace, "web", replicas)
        && objects.ready_endpoints(namespace, "web") == replicas
}
