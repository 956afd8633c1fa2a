//! The operators that are part of this program, as processes: each prints a message when all
//! Websites are reconciled, and its counts for each line that it reads.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use futures_util::future::BoxFuture;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::reconciles::{OperatorMessage, ReconcileCounter};
use super::{kube_runtime, ours};

/// Runs an operator until `CancellationToken` is cancelled.
type Start = fn(Client, Arc<ReconcileCounter>, CancellationToken) -> BoxFuture<'static, Result<()>>;

/// The operators: name, threads and start function.
const PROGRAMS: [(&str, Threads, Start); 5] = [
    ("typed", Threads::One, ours::typed),
    ("typed-threads", Threads::Many, ours::typed),
    ("projections", Threads::One, ours::projections),
    ("kube-runtime", Threads::Many, kube_runtime::start),
    ("kube-runtime-one", Threads::One, kube_runtime::start),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    One,
    /// Uses one thread per core.
    Many,
}

/// Creates the Tokio runtime of an operator.
///
/// # Errors
///
/// Fails if the system cannot create threads.
pub(crate) fn runtime(name: &str) -> std::io::Result<Runtime> {
    let is_one = PROGRAMS.into_iter().any(|(known, threads, _)| known == name && threads == Threads::One);
    let mut builder = if is_one { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}

/// Runs the operator `name` until its input closes.
///
/// # Errors
///
/// Fails if there is no operator of this name, if the kubeconfig is invalid, or if the operator
/// fails.
///
/// # Cancel safety
///
/// Dropping the future stops the operator.
pub(crate) async fn run(
    name: &str,
    kubeconfig: &Path,
    objects: usize,
    requests: impl AsyncBufRead + Unpin,
    mut messages: impl AsyncWrite + Unpin,
) -> Result<()> {
    let Some((_, _, start)) = PROGRAMS.into_iter().find(|(known, ..)| *known == name) else {
        let names: Vec<&str> = PROGRAMS.iter().map(|(name, ..)| *name).collect();
        bail!("no operator {name:?}; expected one of {}", names.join(", "));
    };
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let (counter, stop) = (Arc::new(ReconcileCounter::new(objects)), CancellationToken::new());
    let mut operator = tokio::spawn(start(client, Arc::clone(&counter), stop.clone()));
    let mut requests = requests.lines();
    loop {
        let line = tokio::select! {
            result = &mut operator => return result?,
            () = counter.wait_until_all_reconciled() => OperatorMessage::AllReconciled,
            request = requests.next_line() => match request? {
                Some(_) => counter.totals(),
                None => break,
            },
        };
        messages.write_all(format!("{}\n", serde_json::to_string(&line)?).as_bytes()).await?;
        messages.flush().await?;
    }
    stop.cancel();
    operator.await?
}
