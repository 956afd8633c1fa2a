//! Measures an operator before and after the first advice of `kubectl informer cost`.
//!
//! A user with a large operator does the same steps. The advice must keep the library of the operator.
//!
//! The operator is the program of crates/bench/go: a shared informer of client-go on all Pods, and a handler.
//! It reads only metadata, so the condition of the advice is true. Each Pod changes several times before the
//! memory is measured, as in the calibration of the model.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use kube_testserver::Server;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::calibrate::{CHANGES, pod_of_a_cluster};
use crate::cli::positive;
use crate::client::{Order, Report};
use crate::contenders::{CLIENT_GO, NO_GO, build_go, has_go};
use crate::cost_program::{cost_program, create};
use crate::process::{Process, REST_INTERVAL, Statistics};

/// The namespace and the name of the operator.
const NAMESPACE: &str = "operators";
const OPERATOR: &str = "pod-operator";
/// The change that the operator supports.
const METADATA_ONLY: &str = "metadata only";
/// The number of Pods that change before the operator must have received the changes. A smaller number than
/// the history of the server, so the watch never expires.
const CHANGED_AT_ONCE: usize = 1_000;
/// The number of events that the server keeps.
const HISTORY: usize = 16_384;
/// The interval in which the peak memory of `kubectl informer cost` is read.
const PEAK_INTERVAL: Duration = Duration::from_millis(5);

/// Contains the options of `kube-bench follow-advice`.
#[derive(Debug, Args)]
pub struct FollowAdviceArgs {
    /// The number of Pods. The operator needs about 2 GB of memory for the default.
    #[arg(long, default_value_t = 45_000, value_parser = positive)]
    objects: usize,
    /// The program `kubectl-informer`. The default is the program in the folder of this program.
    #[arg(long, value_name = "FILE")]
    cost_program: Option<PathBuf>,
}

/// The parts of the report of `kubectl informer cost` that this command reads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CostReport {
    resources: Vec<CostRow>,
    advice: Vec<Advice>,
    estimates: Vec<Estimate>,
}

#[derive(Debug, Deserialize)]
struct CostRow {
    objects: usize,
    caches: Caches,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Caches {
    compressed: u64,
    client_go_json: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Advice {
    change: String,
    keeps_library: bool,
    after: u64,
    code: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Estimate {
    library: String,
    process_bytes: u64,
}

/// A report, and the resources that the program used.
struct Cost {
    report: CostReport,
    /// The largest resident memory, with the code of the program.
    peak: u64,
    wall: Duration,
}

/// Measures the operator before and after the change of the first advice.
///
/// # Errors
///
/// Fails if a program cannot be started, if the first advice is another change, or if the operator needs more
/// than half of its memory after the change.
pub(crate) async fn follow_advice(args: &FollowAdviceArgs, out: &mut impl Write) -> Result<()> {
    ensure!(has_go().await, "cannot measure client-go: {NO_GO}");
    let temporary = tempfile::tempdir().context("cannot create a folder")?;
    let folder = temporary.path();
    let operator = build_go(CLIENT_GO, folder).await?;
    let cost_program = cost_program(args.cost_program.as_deref())?;
    let server = filled_server(args.objects)?;
    let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig())?;

    let objects = args.objects;
    let operator = Operator { program: &operator, kubeconfig: &kubeconfig, folder, server: &server, objects };
    let before = operator.resident(false).await?;
    writeln!(out, "the operator caches {} Pods: {} of resident memory", args.objects, mib(before))?;
    let cost = run_cost(&cost_program, &kubeconfig, &[]).await?;
    let row = cost.report.resources.first().context("the report contains no resource")?;
    ensure!(row.objects == args.objects, "cost counted {} Pods", row.objects);
    let process = cost.report.estimates.iter().find(|estimate| estimate.library == "client-go (JSON)");
    let process = process.context("the report contains no estimate of client-go")?.process_bytes;
    let advice = cost.report.advice.iter().find(|advice| advice.keeps_library);
    let advice = advice.context("the report contains no advice for client-go")?;
    ensure!(advice.change == METADATA_ONLY, "the first advice is {:?}", advice.change);
    let after = operator.resident(true).await?;
    let watched = run_cost(&cost_program, &kubeconfig, &["--duration", "2s"]).await?;

    writeln!(out, "first advice: {}\n{}", advice.change, serde_json::to_string_pretty(&advice.code)?)?;
    writeln!(out, "\n| Operator | Measured | Predicted by cost |\n|---|---:|---:|")?;
    let predicted = mib(process + row.caches.client_go_json);
    writeln!(out, "| full Pods | {} | {predicted} |", mib(before))?;
    writeln!(out, "| {METADATA_ONLY} | {} | {} |", mib(after), mib(process + advice.after))?;
    let cache = row.caches.compressed;
    writeln!(out, "\nkubectl informer cost: compressed cache {}", mib(cache))?;
    for (name, cost) in [("without --duration", &cost), ("with --duration", &watched)] {
        let (ratio, seconds) = (cost.peak as f64 / cache as f64, cost.wall.as_secs_f64());
        writeln!(
            out,
            "{name}: peak {} of resident memory, {ratio:.2} of this cache, {seconds:.1} s",
            mib(cost.peak)
        )?;
    }
    ensure!(
        2 * after < before,
        "the operator needs {} after the change, which is more than half of {}",
        mib(after),
        mib(before)
    );
    Ok(())
}

fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Creates a server with Pods, and with the workload and the rights of the operator.
fn filled_server(objects: usize) -> Result<Server> {
    // The Pods contain the managedFields of a real cluster.
    let builder = Server::builder().seed(1).require_token(false).validation(false).field_ownership(false);
    let server = builder.history(HISTORY).build();
    let created = |object: Value| create(&server, &object);
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": OPERATOR, "namespace": NAMESPACE});
    created(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}))?;
    created(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": OPERATOR},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    }))?;
    created(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": OPERATOR},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": OPERATOR},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": NAMESPACE}],
    }))?;
    created(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": OPERATOR}},
            "template": {"metadata": {"labels": {"app": OPERATOR}}, "spec": {"serviceAccountName": OPERATOR, "containers": [{"name": "operator", "image": "operator"}]}},
        },
    }))?;
    for index in 0..objects {
        created(pod_of_a_cluster(index, false)?)?;
    }
    Ok(server)
}

/// The program of the operator, and its Pods.
struct Operator<'a> {
    program: &'a Path,
    kubeconfig: &'a Path,
    /// The folder of the logs.
    folder: &'a Path,
    server: &'a Server,
    objects: usize,
}

impl Operator<'_> {
    /// Returns its resident memory after each Pod has changed several times, in bytes.
    async fn resident(&self, is_metadata_only: bool) -> Result<u64> {
        let mut command = Command::new(self.program);
        command.arg("--kubeconfig").arg(self.kubeconfig).args(["-content-type", "application/json"]);
        if is_metadata_only {
            command.arg("-metadata-only");
        }
        let mut process = Process::spawn("operator", command, &self.folder.join("logs"))?;
        match process.receive().await? {
            Report::Synced(synced) => ensure!(synced == self.objects, "the operator cached {synced} objects"),
            other => bail!("unexpected message of the operator: {other:?}"),
        }
        for change in 0..CHANGES {
            // The last change is the same state as in the calibration.
            self.change_all((CHANGES - change) % 2 == 1, &mut process).await?;
        }
        process.rest(REST_INTERVAL).await?;
        let resident = process.memory()?.resident;
        process.stop().await?;
        Ok(resident)
    }

    /// Changes all Pods, and waits until the operator has received the changes.
    async fn change_all(&self, is_restarted: bool, process: &mut Process) -> Result<()> {
        for first in (0..self.objects).step_by(CHANGED_AT_ONCE) {
            let mut version = 0;
            for index in first..self.objects.min(first + CHANGED_AT_ONCE) {
                let written = create(self.server, &pod_of_a_cluster(index, is_restarted)?)?;
                let written =
                    written["metadata"]["resourceVersion"].as_str().context("no resourceVersion")?;
                version = version.max(written.parse()?);
            }
            process.send(&Order::Until { version, measured: false }).await?;
            match process.receive().await? {
                Report::Reached { .. } => {}
                other => bail!("unexpected message of the operator: {other:?}"),
            }
        }
        Ok(())
    }
}

/// Runs `kubectl informer cost` for the operator.
async fn run_cost(program: &Path, kubeconfig: &Path, arguments: &[&str]) -> Result<Cost> {
    let mut command = Command::new(program);
    command.args(["cost", "--of-workload", &format!("deploy/{OPERATOR}"), "-n", NAMESPACE]);
    command.args(["--library", "client-go-json", "-o", "json"]).args(arguments);
    command.arg("--kubeconfig").arg(kubeconfig);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let statistics = Statistics::new("cost", child.id().context("the program has stopped")?)?;
    let mut stdout = child.stdout.take().context("no standard output")?;
    let output = tokio::spawn(async move {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).await.map(|_| text)
    });
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        // The system keeps the peak, but not after the end of the process.
        peak = peak.max(statistics.memory().map_or(0, |memory| memory.peak));
        sleep(PEAK_INTERVAL).await;
    }
    let wall = begun.elapsed();
    ensure!(child.wait().await?.success(), "kubectl informer cost failed");
    let report = serde_json::from_slice(&output.await??).context("the report is not JSON")?;
    Ok(Cost { report, peak, wall })
}
