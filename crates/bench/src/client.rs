//! The compared programs. Each uses a library in a typical way, with one informer and one
//! handler that counts.
//!
//! A program prints a message when its cache is synced. It then reads resourceVersions from
//! standard input, and prints a message when its handler has received them.

mod database;
mod informer;
mod kube_runtime;
mod layers;
mod progress;
mod view;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use futures_util::future::BoxFuture;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::core::PartialObjectMeta;
use kube_client::{Client, Config};
use kube_informer::{Compressed, Lazy, Projection};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, Lines};

use tokio::runtime::{Builder, Runtime};

use crate::wire::Kind;
use database::Database;
use progress::Progress;
pub(crate) use progress::percentiles;
use view::PodView;

/// A running informer of any library.
trait RunningInformer: Send {
    /// Waits until the cache is synced, and returns the number of its objects.
    fn synced(&mut self) -> BoxFuture<'_, Result<usize>>;

    /// Starts a relist. Returns false if the library has no such function.
    fn relist(&self) -> bool {
        false
    }

    /// Stops the informer.
    fn stop(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Starts an informer that reports to `Progress`.
type Start = fn(Client, Arc<Progress>) -> Box<dyn RunningInformer>;

/// The threads of the Tokio runtime of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    /// One thread, as in the examples of this project.
    One,
    /// One thread per core: the default of `#[tokio::main]`, as in the examples of kube-runtime.
    Many,
}

/// The programs in Rust: name, threads and start function.
const PROGRAMS: [(&str, Threads, Start); 14] = [
    ("typed", Threads::One, informer::start::<Pod>),
    ("typed-threads", Threads::Many, informer::start::<Pod>),
    ("projection", Threads::One, informer::start::<Projection<Pod, PodView>>),
    ("metadata", Threads::One, informer::start::<PartialObjectMeta<Pod>>),
    ("lazy", Threads::One, informer::start::<Lazy<Pod>>),
    ("compressed", Threads::One, informer::start::<Compressed<Pod>>),
    ("typed-streaming", Threads::One, informer::start_streaming),
    ("typed-gzip", Threads::One, informer::start_gzip::<Pod>),
    ("typed-node", Threads::One, informer::start_of_node),
    ("lazy-gzip", Threads::One, informer::start_gzip::<Lazy<Pod>>),
    ("kube-runtime", Threads::Many, kube_runtime::start_list::<Pod>),
    ("kube-runtime-one", Threads::One, kube_runtime::start_list::<Pod>),
    ("kube-runtime-one-no-managed-fields", Threads::One, kube_runtime::start_without_managed_fields),
    ("kube-runtime-streaming", Threads::Many, kube_runtime::start_streaming),
];

/// The program of each kind except for Pods, on this project and on kube-runtime.
const OF_KINDS: [(Kind, Start, Start); 6] = [
    (Kind::ConfigMap, informer::start::<ConfigMap>, kube_runtime::start_list::<ConfigMap>),
    (Kind::Secret, informer::start::<Secret>, kube_runtime::start_list::<Secret>),
    (Kind::Node, informer::start::<Node>, kube_runtime::start_list::<Node>),
    (Kind::Deployment, informer::start::<Deployment>, kube_runtime::start_list::<Deployment>),
    (Kind::ReplicaSet, informer::start::<ReplicaSet>, kube_runtime::start_list::<ReplicaSet>),
    (Kind::Database, informer::start::<Database>, kube_runtime::start_list::<Database>),
];

/// Programs that contain only the first layers of an informer: name and start function. See
/// [`event_path`](crate::event_path).
const LAYERS: [(&str, Start); 7] = [
    ("read", layers::read),
    ("list-watch-typed", layers::list_watch::<Pod>),
    ("list-watch-lazy", layers::list_watch::<Lazy<Pod>>),
    ("list-watch-compressed", layers::list_watch::<Compressed<Pod>>),
    ("reflector-typed", layers::reflector::<Pod>),
    ("reflector-lazy", layers::reflector::<Lazy<Pod>>),
    ("reflector-compressed", layers::reflector::<Compressed<Pod>>),
];

/// Represents a command that a measured program reads from standard input, as one line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Order {
    /// Report when the handler has received this resourceVersion.
    Until {
        /// The resourceVersion.
        version: u64,
        /// True if the program must measure the latency of each event.
        measured: bool,
    },
    /// Start a relist.
    Relist,
}

/// Represents a message that a measured program prints, as one line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// The cache is synced and contains this number of objects.
    Synced(usize),
    /// The handler has received the resourceVersion.
    Reached {
        /// The number of handler calls since the last `Reached` message.
        events: u64,
        /// The latency of the events, if it was measured.
        latency: Option<Latency>,
    },
    /// The reply to [`Order::Relist`]. True if a relist has started. False if the library has no
    /// function that starts a relist.
    Relisting(bool),
}

/// Represents the time from the write of an event to the socket until the call of the handler, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}

/// Returns the names of the measured programs in Rust.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.into_iter().map(|(name, ..)| name)
}

/// Creates the Tokio runtime of a program.
///
/// # Errors
///
/// Fails if the system cannot create threads.
pub(crate) fn runtime(name: &str) -> std::io::Result<Runtime> {
    let is_many = PROGRAMS.into_iter().any(|(known, threads, _)| known == name && threads == Threads::Many);
    let mut builder = if is_many { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    builder.enable_all().build()
}

/// Returns the configuration of a client for a server without TLS and authentication.
///
/// # Errors
///
/// Fails if the URL is invalid.
pub fn config_of_url(url: &str) -> Result<Config> {
    Ok(Config::new(url.parse().context("invalid URL of the server")?))
}

/// Returns the configuration of a client for the server in the current context of a kubeconfig.
///
/// # Errors
///
/// Fails if the kubeconfig cannot be read.
///
/// # Cancel safety
///
/// This function is cancel safe.
pub async fn config_of_kubeconfig(file: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(file).context("cannot read the kubeconfig")?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Returns the start function of a program.
fn program(name: &str, kind: Kind) -> Result<Start> {
    let of_kind = OF_KINDS.into_iter().find(|(known, ..)| *known == kind);
    match (of_kind, name) {
        (None, _) => {}
        (Some((_, start, _)), "typed") | (Some((_, _, start)), "kube-runtime-one") => return Ok(start),
        (Some(_), _) => bail!("the program {name:?} supports only pods; use typed or kube-runtime-one"),
    }
    let programs = PROGRAMS.into_iter().map(|(name, _, start)| (name, start)).chain(LAYERS);
    let Some((_, start)) = programs.clone().find(|(known, _)| *known == name) else {
        let names: Vec<_> = programs.map(|(name, _)| name).collect();
        bail!("no program {name:?}; expected one of {}", names.join(", "));
    };
    Ok(start)
}

/// Runs the measured program `name` with an informer of `kind` until `commands` is closed. Reads [`Order`]s
/// from `commands`, and writes [`Report`]s to `messages`.
///
/// # Errors
///
/// Fails if there is no program of this name, or if the cache does not sync.
///
/// # Cancel safety
///
/// Dropping the future stops the program.
pub async fn run(
    name: &str,
    kind: Kind,
    config: Config,
    commands: impl AsyncBufRead + Unpin,
    mut messages: impl AsyncWrite + Unpin,
) -> Result<()> {
    let start = program(name, kind)?;
    let client = Client::try_from(config)?;
    let progress = Arc::new(Progress::default());
    let mut running = start(client, Arc::clone(&progress));
    let mut commands = commands.lines();
    let Some(objects) = unless_closed(&mut commands, running.synced()).await else { return Ok(()) };
    write_line(&mut messages, Report::Synced(objects?)).await?;
    while let Some(command) = commands.next_line().await? {
        let message = match serde_json::from_str(&command)? {
            Order::Until { version, measured } => {
                let reached = unless_closed(&mut commands, progress.until(version, measured)).await;
                let Some(message) = reached else { break };
                message
            }
            Order::Relist => Report::Relisting(running.relist()),
        };
        write_line(&mut messages, message).await?;
    }
    running.stop().await;
    Ok(())
}

/// Waits for `done`. Returns `None` if the input closes first.
async fn unless_closed<T>(
    commands: &mut Lines<impl AsyncBufRead + Unpin>,
    done: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        done = done => Some(done),
        _ = commands.next_line() => None,
    }
}

async fn write_line(messages: &mut (impl AsyncWrite + Unpin), message: Report) -> Result<()> {
    messages.write_all(format!("{}\n", serde_json::to_string(&message)?).as_bytes()).await?;
    Ok(messages.flush().await?)
}
