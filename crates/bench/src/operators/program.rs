//! The operators that are part of this program, and what all of them say: once, that each Website was looked at; and when
//! they are asked, how many runs there were.

use std::fmt::Display;
use std::io::{Write as _, stderr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use anyhow::{Result, bail};
use futures_util::future::BoxFuture;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{cluster, kube_runtime, ours};

/// So many runs that fail are told on standard error; the others are counted.
const TOLD: u64 = 5;

/// Runs an operator until it is told to stop.
type Start = fn(Client, Arc<Runs>, CancellationToken) -> BoxFuture<'static, Result<()>>;

/// The operators, each by its name and with its threads.
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
    /// One for each core.
    Many,
}

/// What an operator says, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Said {
    /// A run for each Website has succeeded.
    Looked,
    /// So many runs have ended so far; said for each line that it reads.
    Runs {
        /// With or without success.
        ended: u64,
        /// Without.
        failed: u64,
    },
}

/// The runs of an operator.
pub(super) struct Runs {
    /// By the numbers of the Websites, whether a run has succeeded.
    looked: Vec<AtomicBool>,
    /// How many are left of them.
    left: AtomicUsize,
    all: Notify,
    ended: AtomicU64,
    failed: AtomicU64,
}

impl Runs {
    fn new(objects: usize) -> Self {
        Self {
            looked: (0..objects).map(|_| AtomicBool::new(false)).collect(),
            left: AtomicUsize::new(objects),
            all: Notify::new(),
            ended: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// A run for the Website of this name has ended.
    pub(super) fn ended<T, E: Display>(&self, name: &str, outcome: &Result<T, E>) {
        self.ended.fetch_add(1, Relaxed);
        match outcome {
            Ok(_) => self.succeeded(name),
            Err(error) => {
                if self.failed.fetch_add(1, Relaxed) < TOLD {
                    // Whoever does not listen has the number.
                    let _ = writeln!(stderr(), "a run for {name} has failed: {error}");
                }
            }
        }
    }

    fn succeeded(&self, name: &str) {
        let looked = cluster::number(name).and_then(|number| self.looked.get(number));
        let is_first = looked.is_some_and(|looked| !looked.swap(true, Relaxed));
        if is_first && self.left.fetch_sub(1, Relaxed) == 1 {
            self.all.notify_one();
        }
    }

    fn so_far(&self) -> Said {
        Said::Runs { ended: self.ended.load(Relaxed), failed: self.failed.load(Relaxed) }
    }
}

/// The runtime on which an operator is run.
///
/// # Errors
/// The system has no threads to give.
pub(crate) fn runtime(name: &str) -> std::io::Result<Runtime> {
    let is_one = PROGRAMS.into_iter().any(|(known, threads, _)| known == name && threads == Threads::One);
    let mut builder = if is_one { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}

/// Runs an operator of so many Websites on this server until its input ends.
///
/// # Errors
/// There is no such operator; a kubeconfig that can't be used; what ends the operator early.
///
/// # Cancel safety
/// Dropping it ends the operator.
pub(crate) async fn run(
    name: &str,
    kubeconfig: &Path,
    objects: usize,
    orders: impl AsyncBufRead + Unpin,
    mut said: impl AsyncWrite + Unpin,
) -> Result<()> {
    let Some((_, _, start)) = PROGRAMS.into_iter().find(|(known, ..)| *known == name) else {
        let names: Vec<&str> = PROGRAMS.iter().map(|(name, ..)| *name).collect();
        bail!("no operator {name:?}; there are {}", names.join(", "));
    };
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let (runs, stop) = (Arc::new(Runs::new(objects)), CancellationToken::new());
    let mut operator = tokio::spawn(start(client, Arc::clone(&runs), stop.clone()));
    let mut orders = orders.lines();
    loop {
        let line = tokio::select! {
            ended = &mut operator => return ended?,
            () = runs.all.notified() => Said::Looked,
            order = orders.next_line() => match order? {
                Some(_) => runs.so_far(),
                None => break,
            },
        };
        said.write_all(format!("{}\n", serde_json::to_string(&line)?).as_bytes()).await?;
        said.flush().await?;
    }
    stop.cancel();
    operator.await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_are_looked_at_when_a_run_of_each_has_succeeded() {
        let runs = Runs::new(2);
        for (name, outcome) in [("site-00000", Ok(())), ("site-00001", Err("no")), ("site-00000", Ok(()))] {
            runs.ended(name, &outcome);
        }
        assert_eq!((runs.left.load(Relaxed), runs.so_far()), (1, Said::Runs { ended: 3, failed: 1 }));
        runs.ended("site-00001", &Ok::<_, &str>(()));
        runs.all.notified().await;
        runs.ended("another", &Ok::<_, &str>(()));
        assert_eq!(runs.left.load(Relaxed), 0);
    }
}
