//! Reconciles the ConfigMaps of many clusters, which are added and removed at run time.
//!
//! Without options, the example starts three API servers in memory: the cluster of the operator, `east` and
//! `west`. It prints each ConfigMap with its cluster. Then `west` leaves, changes, and returns.
//!
//! With `--cluster`, the example reads the ConfigMaps of all contexts of the kubeconfig, or with `--context`
//! of one context. The example does not write. If you add or remove a context, the example adds or removes a
//! cluster. If a cluster cannot be reached, the log contains one warning, and all other clusters continue.
//! The command `rbac` prints the roles that the example needs in each cluster.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Client;
use kube_informer_examples::{cli, cluster::ClusterArgs, multicluster::operator};
use kube_operator::{
    ClusterEngager, ClusterName, Failure, KubeconfigProvider, Manager, ManagerOptions, offline_client,
};
use kube_testserver::Server;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// The maximum number of lines that are not printed yet.
const MAX_WAITING_LINES: usize = 100_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    cli::run(run).await
}

/// Reconciles the ConfigMaps of many clusters: a demo in memory, or the clusters of a kubeconfig.
#[derive(Parser)]
struct Flags {
    /// Print something, instead of running.
    command: Option<Command>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Command {
    /// The roles that the example needs in each cluster.
    Rbac,
}

async fn run(Flags { cluster, command }: Flags) -> anyhow::Result<()> {
    if let Some(Command::Rbac) = command {
        let options = ManagerOptions { bind_address: None, ..ManagerOptions::default() };
        let manager = Manager::new(offline_client("default"), options)?;
        manager.factory().informer::<ConfigMap>()?;
        print!("{}", manager.rbac_roles("multicluster"));
        return Ok(());
    }
    if cluster.is_embedded() {
        return demo().await;
    }
    let provider = match &cluster.context {
        Some(context) => KubeconfigProvider::new().contexts([context]),
        None => KubeconfigProvider::new(),
    };
    let own = cluster.connect().await?;
    let manager = operator(own.client.clone(), provider, |line| println!("{line}"))?;
    let duration = cluster.duration;
    manager.run(async move { duration.wait().await }).await?;
    Ok(())
}

async fn demo() -> anyhow::Result<()> {
    let (hub, east, west) = (Server::new(), Server::new(), Server::new());
    let (sender, set) = oneshot::channel();
    let provider = async move |clusters: ClusterEngager, stop: CancellationToken| {
        let _received = sender.send(clusters);
        stop.cancelled().await;
        Ok::<_, Failure>(())
    };
    let (print, mut printed) = mpsc::channel(MAX_WAITING_LINES);
    let manager = operator(client(&hub), provider, move |line| _ = print.try_send(line))?;
    let stop = CancellationToken::new();
    let running = start(manager, &stop);
    let clusters = set.await?;

    create(&east, "page")?;
    create(&west, "page")?;
    clusters.engage(&ClusterName::new("east")?, client(&east));
    clusters.engage(&ClusterName::new("west")?, client(&west));
    next(&mut printed, 2).await;
    clusters.disengage(&ClusterName::new("west")?);
    next(&mut printed, 1).await;
    create(&west, "while-away")?;
    create(&east, "news")?;
    next(&mut printed, 1).await;
    clusters.engage(&ClusterName::new("west")?, client(&west));
    next(&mut printed, 2).await;
    east.delete_untyped("v1", "ConfigMap", Some("default"), "news")
        .map_err(|status| anyhow::anyhow!("{status}"))?;
    next(&mut printed, 1).await;
    stop.cancel();
    running.await??;
    Ok(())
}

fn client(server: &Server) -> Client {
    Client::new(server.service(), "default")
}

fn start(manager: Manager, stop: &CancellationToken) -> JoinHandle<Result<(), kube_operator::ManagerError>> {
    tokio::spawn(manager.run(stop.clone().cancelled_owned()))
}

fn create(server: &Server, name: &str) -> anyhow::Result<()> {
    let metadata = json!({"name": name, "namespace": "default"});
    let created = server.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
    created.map(drop).map_err(|status| anyhow::anyhow!("cannot create {name}: {status}"))
}

/// Prints the next lines of the operator.
async fn next(printed: &mut mpsc::Receiver<String>, lines: usize) {
    for _ in 0..lines {
        if let Some(line) = printed.recv().await {
            println!("{line}");
        }
    }
}
