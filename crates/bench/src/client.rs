//! The programs that are compared: each an ordinary use of a library, with one informer on Pods and one handler that
//! counts. A program says when its cache is in sync; then it is told versions on its standard input, and says when its
//! handler has seen each.

mod informer;
mod kube_runtime;
mod progress;
mod view;

use std::future::Future;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube_client::core::PartialObjectMeta;
use kube_client::{Client, Config};
use kube_informer::{Compressed, Lazy, Projection};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, Lines};

use tokio::runtime::{Builder, Runtime};

use progress::Progress;
pub(crate) use progress::percentiles;
use view::PodView;

/// A running informer, behind what the programs have in common.
trait Running: Send {
    /// Waits until its cache is in sync, and gives the number of objects in it.
    fn synced(&mut self) -> BoxFuture<'_, Result<usize>>;

    /// Lists everything again, where the library has a way to ask for it.
    fn relist(&self) -> bool {
        false
    }

    /// Ends it.
    fn stop(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Starts an informer that tells its progress.
type Start = fn(Client, Arc<Progress>) -> Box<dyn Running>;

/// The runtime of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    /// As in this project's examples.
    One,
    /// One for each core, as `#[tokio::main]` makes them for programs that say nothing else, and as in kube-runtime's
    /// examples.
    Many,
}

/// The programs that are part of this one, by name. A further representation is a further line.
const PROGRAMS: [(&str, Threads, Start); 9] = [
    ("typed", Threads::One, informer::start::<Pod>),
    ("typed-threads", Threads::Many, informer::start::<Pod>),
    ("projection", Threads::One, informer::start::<Projection<Pod, PodView>>),
    ("metadata", Threads::One, informer::start::<PartialObjectMeta<Pod>>),
    ("lazy", Threads::One, informer::start::<Lazy<Pod>>),
    ("compressed", Threads::One, informer::start::<Compressed<Pod>>),
    ("kube-runtime", Threads::Many, kube_runtime::start_list),
    ("kube-runtime-one", Threads::One, kube_runtime::start_list),
    ("kube-runtime-streaming", Threads::Many, kube_runtime::start_streaming),
];

/// What a program is told, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// Say when the handler has seen this version.
    Until {
        /// The version.
        version: u64,
        /// Whether to measure how long each event took since it was sent.
        measured: bool,
    },
    /// List everything again without being asked by the server.
    Relist,
}

/// What a program says, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// Its cache is in sync and holds so many objects.
    Synced(usize),
    /// The handler has seen the version.
    Reached {
        /// How often the handler was called since the last such report.
        events: u64,
        /// How long events took since they were sent, where that was measured.
        latency: Option<Latency>,
    },
    /// Whether everything is being listed again.
    Relisting(bool),
}

/// From the moment in which an event was handed to the server's socket to its handler, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the events took no longer.
    pub p50: u64,
    /// 99 of 100 took no longer.
    pub p99: u64,
    /// The slowest.
    pub max: u64,
}

/// The names of the programs.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.into_iter().map(|(name, ..)| name)
}

/// The runtime on which a program is run.
///
/// # Errors
/// The system has no threads to give.
pub(crate) fn runtime(name: &str) -> std::io::Result<Runtime> {
    let is_one = PROGRAMS.into_iter().any(|(known, threads, _)| known == name && threads == Threads::One);
    let mut builder = if is_one { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}

/// Runs a program on this server until its input ends.
///
/// # Errors
/// There is no such program; a URL that is none; a cache that doesn't get in sync.
///
/// # Cancel safety
/// Dropping it ends the program.
pub async fn run(
    name: &str,
    server: &str,
    orders: impl AsyncBufRead + Unpin,
    mut reports: impl AsyncWrite + Unpin,
) -> Result<()> {
    let Some((_, _, start)) = PROGRAMS.into_iter().find(|(known, ..)| *known == name) else {
        bail!("no program {name:?}; there are {}", names().collect::<Vec<_>>().join(", "));
    };
    let client = Client::try_from(Config::new(server.parse().context("the server's URL")?))?;
    let progress = Arc::new(Progress::default());
    let mut running = start(client, Arc::clone(&progress));
    let mut orders = orders.lines();
    let Some(objects) = unless_over(&mut orders, running.synced()).await else { return Ok(()) };
    say(&mut reports, Report::Synced(objects?)).await?;
    while let Some(order) = orders.next_line().await? {
        let report = match serde_json::from_str(&order)? {
            Order::Until { version, measured } => {
                let reached = unless_over(&mut orders, progress.until(version, measured)).await;
                let Some(report) = reached else { break };
                report
            }
            Order::Relist => Report::Relisting(running.relist()),
        };
        say(&mut reports, report).await?;
    }
    running.stop().await;
    Ok(())
}

/// What comes of this, unless the input is over before: then nobody waits for it any more.
async fn unless_over<T>(
    orders: &mut Lines<impl AsyncBufRead + Unpin>,
    done: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        done = done => Some(done),
        _ = orders.next_line() => None,
    }
}

async fn say(reports: &mut (impl AsyncWrite + Unpin), report: Report) -> Result<()> {
    reports.write_all(format!("{}\n", serde_json::to_string(&report)?).as_bytes()).await?;
    Ok(reports.flush().await?)
}
