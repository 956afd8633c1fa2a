//! The share of the server in the work of the compared programs.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::ServerSettings;
use super::cluster::{Cluster, ServerCpu};
use super::events::{self, History};
use super::numbers::{Rows, Table};
use super::relay::Relay;
use crate::client::Report;
use crate::compare::Paths;
use crate::contenders::{Contender, Contenders, Endpoint, Field};
use crate::process::Process;

/// The timeout for the sync of a program.
const SYNC_TIMEOUT: Duration = Duration::from_secs(600);

/// The cost of a start of a program.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Start {
    /// The CPU time of kube-apiserver, in seconds.
    pub(super) server_cpu: f64,
    /// The CPU time of the program, in seconds.
    pub(super) cpu: f64,
    /// The peak resident memory of the program, in bytes.
    pub(super) peak: f64,
    /// The time until the sync, in seconds.
    pub(super) wall: f64,
    /// The number of bytes that the server sent.
    pub(super) received: f64,
    /// The number of cached objects.
    pub(super) objects: usize,
}

/// Runs programs against one server, through a relay.
pub(super) struct Runner<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) settle: Duration,
    pub(super) relay: &'a Relay,
    pub(super) logs: &'a Path,
    pub(super) idle: ServerCpu,
}

impl Runner<'_> {
    /// Starts a program, and measures until its cache is synced.
    pub(super) async fn start(&self, name: &str, command: Command) -> Result<(Process, Start)> {
        let received = self.relay.received();
        let meter = self.cluster.begin().await?;
        let mut program = Process::spawn(name, command, self.logs)?;
        let synced = timeout(SYNC_TIMEOUT, program.receive::<Report>()).await;
        let objects = match synced.context("the cache did not sync")?? {
            Report::Synced(objects) => objects,
            other => bail!("unexpected message of the program: {other:?}"),
        };
        let wall = self.cluster.end(meter)?.wall;
        sleep(self.settle).await;
        let cpu = self.cluster.end(meter)?.without(self.idle);
        let start = Start {
            server_cpu: cpu.apiserver,
            cpu: program.cpu()?.as_secs_f64(),
            peak: program.memory()?.peak as f64,
            wall,
            received: (self.relay.received() - received) as f64,
            objects,
        };
        Ok((program, start))
    }
}

/// Runs all programs in several rounds.
pub(super) async fn measure(
    settings: &ServerSettings,
    cluster: &Cluster,
    paths: &Paths,
    only: Option<&str>,
    progress: &mut impl FnMut(&str),
) -> Result<Vec<Table>> {
    let contenders = Contenders::select(Field::Server, only, &paths.program, true, &paths.folder).await?;
    let logs = paths.folder.join("logs");
    let original = cluster.real().kubeconfig();
    let relay = Relay::start(original, None).await?;
    let kubeconfig = original.with_extension("relay");
    relay.write_kubeconfig(original, &kubeconfig)?;
    let mut starts = Rows::new(START_COLUMNS);
    let mut events = Rows::new(events::COLUMNS);
    let history = History::record(cluster, settings.events).await?;
    for number in 1..=settings.rounds {
        progress(&format!("round {number} of {}: events", settings.rounds));
        let idle = cluster.idle().await?;
        history.measure(cluster, idle, &mut events).await?;
        let runner = Runner { cluster, settle: settings.settle, relay: &relay, logs: &logs, idle };
        for contender in &contenders.contenders {
            progress(&format!("round {number} of {}: {}", settings.rounds, contender.name));
            let cells = start_twice(&runner, &contenders, contender, &kubeconfig).await;
            starts.add(contender.name, &cells.with_context(|| contender.name.to_owned())?);
        }
    }
    Ok(vec![starts.table("Start and restart of a program"), events.table("Events of a watch")])
}

async fn start_twice(
    runner: &Runner<'_>,
    contenders: &Contenders,
    contender: &Contender,
    kubeconfig: &Path,
) -> Result<[f64; 8]> {
    let command = || contenders.command(contender, Endpoint::Kubeconfig(kubeconfig));
    let (program, first) = runner.start(contender.name, command()?).await?;
    program.stop().await?;
    let (program, restart) = runner.start(contender.name, command()?).await?;
    program.stop().await?;
    Ok([
        first.server_cpu * 1e3,
        restart.server_cpu * 1e3,
        restart.server_cpu * 1e6 / restart.objects.max(1) as f64,
        restart.received / 1e6,
        restart.wall,
        restart.cpu,
        restart.peak / 1e6,
        restart.objects as f64,
    ])
}

const START_COLUMNS: &[(&str, usize)] = &[
    ("start: server CPU, ms", 0),
    ("restart: server CPU, ms", 0),
    ("restart: server CPU, us/cached Pod", 1),
    ("restart: received, MB", 2),
    ("restart: time until sync, s", 2),
    ("restart: CPU of the program, s", 2),
    ("restart: peak RSS of the program, MB", 0),
    ("cached Pods", 0),
];
