//! Compares `kubectl informer watch` with `kubectl get -w` on a real kube-apiserver, while etcd is compacted
//! and the apiserver restarts.

use std::{
    collections::BTreeSet,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use kube_informer_e2e::real::{Options, RealServer, kubectl_program};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{Child, Command},
    task::JoinHandle,
    time::{Instant, sleep},
};

const OBJECTS: usize = 10;
const NAMESPACE: &str = "default";
/// The deadline of each step.
const SETTLED: Duration = Duration::from_secs(90);

/// A running program and its lines so far.
struct Running {
    _child: Child,
    _reader: JoinHandle<()>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start the program")?;
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let out = child.stdout.take().context("no standard output")?;
        let reader = tokio::spawn(collect(out, Arc::clone(&lines)));
        Ok(Self { _child: child, _reader: reader, lines })
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a line. Returns it.
    async fn line(&self, is_wanted: impl Fn(&str) -> bool) -> Result<String> {
        let end = Instant::now() + SETTLED;
        loop {
            if let Some(line) = self.lines().into_iter().find(|line| is_wanted(line)) {
                return Ok(line);
            }
            ensure!(Instant::now() < end, "the line did not arrive; lines: {:#?}", self.lines());
            sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn collect(out: impl AsyncRead + Unpin, lines: Arc<Mutex<Vec<String>>>) {
    let mut reader = BufReader::new(out).lines();
    while let Ok(Some(line)) = reader.next_line().await {
        lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

fn plugin(kubeconfig: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl_plugin"));
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args(["watch", "configmaps", "-n", NAMESPACE, "-l", "watch=real", "-o", "jsonl"]);
    command
}

fn kubectl(kubeconfig: &Path) -> Command {
    let mut command = Command::new(kubectl_program());
    command.env("KUBECONFIG", kubeconfig).env("KUBERC", "off").stderr(Stdio::null());
    command.args(["get", "configmaps", "-n", NAMESPACE, "-l", "watch=real", "--output-watch-events", "-w"]);
    command
}

async fn apply(api: &Api<ConfigMap>, name: &str, value: &str, manager: &str) -> Result<()> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": value},
        "metadata": {"name": name, "labels": {"watch": "real"}},
    });
    api.patch(name, &PatchParams::apply(manager).force(), &Patch::Apply(map)).await?;
    Ok(())
}

fn is_deletion(line: &str, name: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|event| event["type"] == "DELETED" && event["name"] == name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_and_compactions_miss_no_deletion() -> Result<()> {
    let Some(mut server) = RealServer::start_or_skip("watch_real", 1, Options::default()).await? else {
        return Ok(());
    };
    let client: Client = server.client().await?;
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    for number in 0..OBJECTS {
        apply(&api, &format!("map-{number}"), "old", "helm").await?;
    }
    let ours = Running::start(plugin(server.kubeconfig()))?;
    let theirs = Running::start(kubectl(server.kubeconfig()))?;
    theirs.line(|line| line.contains("map-9")).await?;

    // An update has its fields and its manager. The server has listed the objects when the update arrives.
    let end = Instant::now() + SETTLED;
    let mut value = 0;
    let updated = loop {
        value += 1;
        apply(&api, "map-0", &value.to_string(), "argocd").await?;
        sleep(Duration::from_millis(200)).await;
        if let Some(line) = ours.lines().into_iter().find(|line| line.contains("UPDATED")) {
            break line;
        }
        ensure!(Instant::now() < end, "no update arrived");
    };
    let event: Value = serde_json::from_str(&updated)?;
    ensure!(event["changes"][0]["path"] == "data.key", "{event}");
    ensure!(event["changes"][0]["managers"] == json!(["argocd"]), "{event}");

    // Ten deletions, each while the watches are interrupted and the history is compacted.
    for number in 0..OBJECTS {
        let name = format!("map-{number}");
        if server.is_own() && number % 5 == 0 {
            server.restart_apiserver().await?;
        }
        api.delete(&name, &DeleteParams::default()).await?;
        if server.is_own() {
            server.compact().await?;
        }
        ours.line(|line| is_deletion(line, &name)).await?;
    }
    let seen: BTreeSet<String> =
        theirs.lines().into_iter().filter(|line| line.starts_with("DELETED")).collect();
    println!(
        "kubectl informer watch missed 0 of {OBJECTS} deletions, kubectl get -w {}",
        OBJECTS - seen.len()
    );
    server.stop().await
}
