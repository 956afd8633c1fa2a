//! Measures the memory of a manager with many idle clusters.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::{Client, Config};
use kube_operator::{
    Action, ClusterController, ClusterEngager, ClusterName, ClusterRequest, ClusterState, Clusters, Failure,
    Manager, ManagerOptions,
};
use tempfile::tempdir;
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cli::positive;
use crate::client::config_of_kubeconfig;
use crate::overhead::{ServerReady, allow_open_files};
use crate::process::{Process, REST_INTERVAL, Statistics};

/// The number of informers of each cluster.
const INFORMERS: usize = 3;
/// The time limit for the caches of all clusters, and for the end of all clusters.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Contains the options of `kube-bench clusters`.
#[derive(Debug, Args)]
pub struct ClustersArgs {
    /// The number of clusters. Each has its own connections, but all use one server.
    #[arg(long, default_value_t = 500, value_parser = positive)]
    clusters: usize,
    /// The number of ConfigMaps in each cluster.
    #[arg(long, default_value_t = 1)]
    objects: usize,
}

/// Measures the memory of each cluster, and prints it.
pub(crate) async fn clusters(args: &ClustersArgs, out: &mut impl Write) -> Result<()> {
    allow_open_files(args.clusters * INFORMERS)?;
    let logs = tempdir()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["overhead-server", "--namespaces", &args.objects.to_string()]);
    let mut server = Process::spawn("the server", command, logs.path())?;
    let kubeconfig: PathBuf = server.receive::<ServerReady>().await?.kubeconfig;
    let config = config_of_kubeconfig(&kubeconfig).await?;

    let (sender, set) = oneshot::channel();
    let mut manager = Manager::new(
        Client::try_from(config.clone())?,
        ManagerOptions { bind_address: None, ..ManagerOptions::default() },
    )?;
    let clusters = manager.clusters(async move |clusters: ClusterEngager, stop: CancellationToken| {
        let _received = sender.send(clusters);
        stop.cancelled().await;
        Ok::<_, Failure>(())
    });
    let controller = ClusterController::new(&clusters.informer::<ConfigMap>())
        .owns(&clusters.informer::<Secret>())
        .owns(&clusters.informer::<Deployment>());
    manager.add_cluster_controller(controller, async |_: ClusterRequest<ConfigMap>| {
        Ok::<_, Failure>(Action::AwaitChange)
    });
    let stop = CancellationToken::new();
    let running = tokio::spawn(manager.run(stop.clone().cancelled_owned()));
    let set = set.await?;
    let statistics = Statistics::new("this program", std::process::id())?;

    // The first cluster pays for code and tables that all clusters share.
    engage(&set, &config, 0..1)?;
    wait_for(&clusters, 1).await?;
    statistics.rest(REST_INTERVAL).await?;
    let (before, sockets) = (statistics.memory()?.resident, statistics.sockets()?);
    engage(&set, &config, 1..args.clusters + 1)?;
    wait_for(&clusters, args.clusters + 1).await?;
    statistics.rest(REST_INTERVAL).await?;
    let added = statistics.memory()?.resident.saturating_sub(before);
    let sockets = statistics.sockets()?.saturating_sub(sockets);
    let per_cluster = |number: u64| number as f64 / args.clusters as f64;
    writeln!(
        out,
        "{} idle clusters with {INFORMERS} informers and {} objects each: {:.1} KB of memory and {:.1} connections for each cluster",
        args.clusters,
        args.objects,
        per_cluster(added) / 1024.0,
        per_cluster(sockets as u64),
    )?;
    for number in 0..=args.clusters {
        set.disengage(&name(number)?);
    }
    wait_for(&clusters, 0).await?;
    stop.cancel();
    running.await??;
    server.stop().await
}

fn name(number: usize) -> Result<ClusterName> {
    Ok(ClusterName::new(format!("cluster-{number}"))?)
}

fn engage(set: &ClusterEngager, config: &Config, numbers: std::ops::Range<usize>) -> Result<()> {
    for number in numbers {
        set.engage(&name(number)?, Client::try_from(config.clone())?);
    }
    Ok(())
}

/// Waits until exactly this number of clusters exists and is synced.
async fn wait_for(clusters: &Clusters, count: usize) -> Result<()> {
    let synced = || {
        let status = clusters.status();
        status.len() == count && status.iter().all(|cluster| cluster.state == ClusterState::Synced)
    };
    let reached = async {
        while !synced() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(TIMEOUT, reached).await.with_context(|| format!("the clusters are not synced: {clusters:?}"))?;
    let failing = clusters.status().into_iter().find(|cluster| cluster.informers.len() != INFORMERS);
    ensure!(failing.is_none(), "a cluster has other informers: {failing:?}");
    Ok(())
}
