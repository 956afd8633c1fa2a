//! Measures `kubectl informer watch` and `kubectl get -w`: memory with many objects, and CPU time per event.
//!
//! ```text
//! cargo build --release -p kubectl-informer
//! cargo run --release -p kubectl-informer --example measure_watch -- --objects 100000 --events 20000
//! ```
//!
//! Both programs watch the same test server. kubectl is measured if `--kubectl FILE` is used. The program
//! also prints the memory relative to a compressed cache of the Pods, as `kubectl informer cost` measures it.
//! Needs Linux.

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
    let cache = compressed_mib(&flags.plugin, &kubeconfig).await?;
    println!("compressed cache: {cache:.0} MiB");
    let arguments = ["watch", "pods", "-A", "-o", "jsonl", "--initial"];
    let plugin = measure(&server, &flags, &kubeconfig, &flags.plugin, &arguments).await?;
    plugin.print("kubectl informer watch", cache);
    if let Some(program) = &flags.kubectl {
        let arguments = ["get", "pods", "-A", "-w", "--no-headers"];
        let kubectl = measure(&server, &flags, &kubeconfig, program, &arguments).await?;
        kubectl.print("kubectl get -w", cache);
        println!(
            "kubectl informer watch relative to kubectl get -w: memory {:.2}, peak memory {:.2}, CPU time per event {:.2}",
            plugin.resident_mib / kubectl.resident_mib,
            plugin.peak_mib / kubectl.peak_mib,
            plugin.event_us / kubectl.event_us,
        );
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// The memory and the CPU time of a program.
struct Usage {
    /// The CPU time until all objects are printed.
    list_seconds: f64,
    /// The resident memory after the list, and its maximum.
    resident_mib: f64,
    peak_mib: f64,
    /// The CPU time per event.
    event_us: f64,
}

impl Usage {
    fn print(&self, name: &str, cache_mib: f64) {
        let Self { list_seconds, resident_mib, peak_mib, event_us } = self;
        println!("{name}");
        println!("  CPU time until the objects are printed: {list_seconds:.1} s");
        println!("  memory after the list: {resident_mib:.0} MiB, {:.2} caches", resident_mib / cache_mib);
        println!("  peak memory: {peak_mib:.0} MiB, {:.2} caches", peak_mib / cache_mib);
        println!("  CPU time per event: {event_us:.0} us");
    }
}

/// Returns the memory of a compressed cache of all Pods, as the plugin measures it.
async fn compressed_mib(plugin: &Path, kubeconfig: &Path) -> Result<f64, Box<dyn Error>> {
    let mut command = Command::new(plugin);
    command.args(["cost", "pods", "-A", "-o", "json"]).env("KUBECONFIG", kubeconfig);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().await?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let bytes = report["resources"][0]["caches"]["compressed"].as_u64().ok_or("no compressed cache")?;
    Ok(bytes as f64 / f64::from(1 << 20))
}

/// Starts a program, waits for a line of each object, and changes objects.
async fn measure(
    server: &Server,
    flags: &Flags,
    kubeconfig: &Path,
    program: &Path,
    arguments: &[&str],
) -> Result<Usage, Box<dyn Error>> {
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
    let (list_seconds, resident) = (cpu_seconds(&child)?, memory(&child)?.0);
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
    let seconds = cpu_seconds(&child)? - list_seconds;
    let usage = Usage {
        list_seconds,
        resident_mib: resident,
        peak_mib: memory(&child)?.1,
        event_us: seconds * 1e6 / flags.events.max(1) as f64,
    };
    child.kill().await?;
    Ok(usage)
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
