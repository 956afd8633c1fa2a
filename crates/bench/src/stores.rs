//! Compares only the stores of this project, kube-runtime and client-go. Each runs in a separate
//! process, with the same Pods and the same order of writes and reads.

mod kube_runtime;
mod objects;
mod ours;
mod program;
mod usage;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::cli::positive;
use crate::contenders::{CLIENT_GO as CLIENT_GO_FOLDER, NO_GO, Skipped, build_go, has_go};
use crate::process::Process;

pub(crate) use program::run as run_store;
pub use program::{StoreRound, Writing};
pub(crate) use usage::ThreadStatistics;

/// Contains the load of a store during its measurement.
#[derive(Clone, Copy, Debug, Args, Serialize, Deserialize)]
pub struct Load {
    /// The number of Pods.
    #[arg(long, default_value_t = Load::default().objects, value_parser = positive)]
    pub objects: usize,
    /// The number of reader threads. Each lists all Pods in a loop while one thread writes.
    #[arg(long, default_value_t = Load::default().readers)]
    pub readers: usize,
    /// The duration of the measurement of each kind of operation, in milliseconds.
    #[arg(long, default_value_t = Load::default().millis)]
    pub millis: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self { objects: 100_000, readers: 10, millis: 1_000 }
    }
}

/// Contains the result of a comparison of stores.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoresOutcome {
    /// The load.
    pub load: Load,
    /// The measured stores, in the order of the table.
    pub measured: Vec<MeasuredStore>,
    /// The stores that were not measured.
    pub skipped: Vec<Skipped>,
}

/// Contains the measurements of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredStore {
    /// The name of the store.
    pub store: String,
    /// The measurements, in the order of the rounds.
    pub rounds: Vec<StoreRound>,
}

/// The store of this project. Readers list all objects.
pub(crate) const OURS: &str = "kube-informer";
/// The store of this project. Readers iterate over snapshots.
pub(crate) const OURS_SNAPSHOTS: &str = "kube-informer, snapshots";
pub(crate) const KUBE_RUNTIME: &str = "kube-runtime";
pub(crate) const CLIENT_GO: &str = "client-go";
/// The stores, in the order of the table.
const ALL: [(&str, Program); 4] = [
    (OURS, Program::Store("ours")),
    (OURS_SNAPSHOTS, Program::Store("ours-snapshots")),
    (KUBE_RUNTIME, Program::Store("kube-runtime")),
    (CLIENT_GO, Program::Go),
];

#[derive(Clone, Copy)]
enum Program {
    /// `kube-bench store NAME`.
    Store(&'static str),
    /// The program in crates/bench/go.
    Go,
}

/// Checks before a measurement that the name of a store contains `only`.
pub(crate) fn check(only: Option<&str>) -> Result<()> {
    let names = ALL.map(|(name, _)| name);
    ensure!(
        names.iter().any(|name| only.is_none_or(|only| name.contains(only))),
        "the name of no store contains {:?}; the names are {}",
        only.unwrap_or_default(),
        names.map(|name| format!("{name:?}")).join(", ")
    );
    Ok(())
}

/// Measures the stores whose name contains `only`, in several rounds.
///
/// `program` is the path of `kube-bench`. The function stores built programs and logs in `folder`,
/// and reports each step to `progress`.
///
/// # Errors
///
/// Fails if a program cannot be built or started, or stops early. The error contains the name of
/// the store.
///
/// # Cancel safety
///
/// Dropping the future kills all programs.
pub async fn compare_stores(
    load: Load,
    rounds: usize,
    program: &Path,
    folder: &Path,
    only: Option<&str>,
    mut progress: impl FnMut(&str),
) -> Result<StoresOutcome> {
    let chosen = ALL.into_iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only)));
    let (mut stores, mut measured, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for (name, kind) in chosen {
        let start = match kind {
            Program::Store(name) => (program.to_owned(), vec!["store".to_owned(), name.to_owned()]),
            Program::Go if has_go().await => {
                (build_go(CLIENT_GO_FOLDER, folder).await?, vec!["store".to_owned()])
            }
            Program::Go => {
                skipped.push(Skipped { contender: name.to_owned(), why: NO_GO.to_owned() });
                continue;
            }
        };
        stores.push(start);
        measured.push(MeasuredStore { store: name.to_owned(), rounds: Vec::new() });
    }
    for number in 1..=rounds {
        for (start, measured) in stores.iter().zip(&mut measured) {
            let name = &measured.store;
            progress(&format!("round {number} of {rounds}: the store of {name}"));
            let round = run_once(load, name, start, folder).await;
            measured.rounds.push(round.with_context(|| format!("the store of {name}"))?);
        }
    }
    Ok(StoresOutcome { load, measured, skipped })
}

/// Measures a store once, in a new process.
async fn run_once(
    load: Load,
    name: &str,
    (program, args): &(PathBuf, Vec<String>),
    folder: &Path,
) -> Result<StoreRound> {
    let mut command = Command::new(program);
    command.args(args);
    for (flag, value) in
        [("--objects", load.objects as u64), ("--readers", load.readers as u64), ("--millis", load.millis)]
    {
        command.args([flag.to_owned(), value.to_string()]);
    }
    let mut process = Process::spawn(&format!("store of {name}"), command, &folder.join("logs"))?;
    let round: StoreRound = process.receive().await?;
    process.stop().await?;
    ensure!(round.objects == load.objects, "the store contains {} objects", round.objects);
    Ok(round)
}
