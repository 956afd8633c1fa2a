//! Measures `kubectl informer watch` and `kubectl get -w`: memory with many objects, and CPU time per event.
//!
//! ```text
//! cargo build --release -p kubectl-informer
//! cargo run --release -p kubectl-informer --example measure_watch -- --objects 100000 --events 20000
//! ```
//!
//! Both programs watch the same test server. kubectl is measured if `--kubectl FILE` is used. Needs Linux.

use std::{
    error::Error,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use clap::Parser;
use kube_testserver::Server;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{sleep, timeout},
};

/// The number of clock ticks per second of the CPU times in /proc. It is the same on all architectures of
/// Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// The maximum time until a line arrives.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Measures `kubectl informer watch` and `kubectl get -w`.
#[derive(Parser)]
struct Flags {
    /// The number of Pods.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// The number of updates.
    #[arg(long, default_value_t = 20_000)]
    events: usize,
    /// The plugin.
    #[arg(long, default_value = "target/release/kubectl-informer")]
    plugin: PathBuf,
    /// Also measure this kubectl.
    #[arg(long)]
    kubectl: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let flags = Flags::parse();
    let server = Server::builder().validation(false).field_ownership(false).build();
    let mut bytes = 0;
    for number in 0..flags.objects {
        let pod = pod(number, 0);
        bytes += pod.to_string().len();
        server.store_recorded(&pod)?;
    }
    let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let folder = std::env::temp_dir().join(format!("measure-watch-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig())?;
    println!("{} Pods of {} bytes of JSON", flags.objects, bytes / flags.objects.max(1));
    let plugin = ["watch", "pods", "-A", "-o", "jsonl", "--initial"];
    measure(&server, &flags, &kubeconfig, &flags.plugin, &plugin).await?;
    if let Some(kubectl) = &flags.kubectl {
        let arguments = ["get", "pods", "-A", "-w", "--no-headers"];
        measure(&server, &flags, &kubeconfig, kubectl, &arguments).await?;
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Starts a program, waits for a line of each object, changes objects, and prints memory and CPU time.
async fn measure(
    server: &Server,
    flags: &Flags,
    kubeconfig: &Path,
    program: &Path,
    arguments: &[&str],
) -> Result<(), Box<dyn Error>> {
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
    read(&mut lines, flags.objects).await?;
    // The program drops the buffers of the list.
    sleep(Duration::from_secs(3)).await;
    let (before, memory) = (cpu_seconds(&child)?, memory(&child)?);
    let mut sent = 0;
    while sent < flags.events {
        // The program is never behind by more than one group, so no event is coalesced.
        let group = (flags.events - sent).min(200);
        for number in sent..sent + group {
            server.store_recorded(&pod(number * 7919 % flags.objects, number + 1))?;
        }
        read(&mut lines, group).await?;
        sent += group;
    }
    let seconds = cpu_seconds(&child)? - before;
    println!("{}", program.display());
    println!("  memory after the list: {:.0} MiB now, {:.0} MiB at most", memory.0, memory.1);
    println!("  CPU time per event: {:.0} us", seconds * 1e6 / flags.events.max(1) as f64);
    child.kill().await?;
    Ok(())
}

async fn read(lines: &mut Lines<BufReader<ChildStdout>>, count: usize) -> Result<(), Box<dyn Error>> {
    for _ in 0..count {
        timeout(MAX_WAIT, lines.next_line()).await??.ok_or("the program exited")?;
    }
    Ok(())
}

fn pid(child: &Child) -> Result<u32, Box<dyn Error>> {
    child.id().ok_or_else(|| "the program exited".into())
}

/// Returns the CPU time of a process.
fn cpu_seconds(child: &Child) -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid(child)?))?;
    let fields = stat.rsplit(')').next().ok_or("unknown format of /proc")?;
    // The fields 14 and 15 are the times of the program and of the kernel. The name is field 2.
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0)).sum();
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

/// Returns the resident memory of a process and its maximum, in MiB.
fn memory(child: &Child) -> Result<(f64, f64), Box<dyn Error>> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid(child)?))?;
    let value = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok()
    };
    let kib = value("VmRSS:").zip(value("VmHWM:")).ok_or("unknown format of /proc")?;
    Ok((kib.0 / 1024.0, kib.1 / 1024.0))
}

/// Returns a Pod with the size of a usual Pod.
fn pod(number: usize, change: usize) -> Value {
    let env: Vec<_> = (0..12)
        .map(|index| json!({"name": format!("SETTING_{index}"), "value": format!("value-{index}-{number}")}))
        .collect();
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example/team/{name}:1.4.{}", number % 7), "env": env,
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 10},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}],
        })
    };
    let owned = json!({
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"app\"}": {".": {}, "f:env": {}, "f:image": {}, "f:name": {}}}},
    });
    let status = json!({"f:status": {"f:phase": {}, "f:podIP": {}, "f:message": {}}});
    let entry = |manager: &str, fields: &Value| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2026-01-01T00:00:00Z", "fieldsV1": fields,
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{number:06}"), "namespace": format!("team-{}", number % 50),
            "uid": format!("00000000-0000-4000-8000-{number:012}"), "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": format!("app-{}", number % 300), "pod-template-hash": "7d9c5b8f4"},
            "managedFields": [entry("kube-controller-manager", &owned), entry("kubelet", &status)],
        },
        "spec": {
            "nodeName": format!("node-{}", number % 100), "containers": [container("app"), container("proxy")],
            "volumes": [{"name": "config", "configMap": {"name": "config"}}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "message": format!("state {change}")},
    })
}
