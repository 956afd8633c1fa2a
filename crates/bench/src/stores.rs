//! The stores alone: this project's, kube-runtime's and client-go's, each in a process of its own, with the same Pods and
//! the same orders of writes and reads.

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

use crate::contenders::{CLIENT_GO, NO_GO, Skipped, build_go, has_go};
use crate::process::Process;

pub(crate) use program::run as run_store;
pub use program::{StoreRound, Writing};

/// What is done with each store.
#[derive(Clone, Copy, Debug, Args, Serialize, Deserialize)]
pub struct Load {
    /// How many Pods it holds.
    #[arg(long, default_value_t = Load::default().objects)]
    pub objects: usize,
    /// How many threads list all of them while one writes.
    #[arg(long, default_value_t = Load::default().readers)]
    pub readers: usize,
    /// How long each kind of use goes on, in milliseconds.
    #[arg(long, default_value_t = Load::default().millis)]
    pub millis: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self { objects: 100_000, readers: 10, millis: 1_000 }
    }
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoresOutcome {
    /// What was done with each.
    pub load: Load,
    /// Of whom, in the order of the table.
    pub measured: Vec<MeasuredStore>,
    /// Who is missing.
    pub skipped: Vec<Skipped>,
}

/// The rounds of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredStore {
    /// Its name.
    pub store: String,
    /// One after the other.
    pub rounds: Vec<StoreRound>,
}

/// This project's store, read by lists that hold each object.
pub(crate) const OURS: &str = "kube-informer";
/// The same, read by walks through snapshots.
pub(crate) const OURS_SNAPSHOTS: &str = "kube-informer, snapshots";
/// The stores, in the order of the table.
const ALL: [(&str, Program); 4] = [
    (OURS, Program::Store("ours")),
    (OURS_SNAPSHOTS, Program::Store("ours-snapshots")),
    ("kube-runtime", Program::Store("kube-runtime")),
    ("client-go", Program::Go),
];

#[derive(Clone, Copy)]
enum Program {
    /// `kube-bench store NAME`.
    Store(&'static str),
    /// The program in crates/bench/go.
    Go,
}

/// Measures the stores whose name contains `only`, in turn, so many times. `program` is this one, `folder` gets what is
/// built, and logs. `say` is told what is being done.
///
/// # Errors
/// A program that can't be built or started, or ends early. The error names it.
///
/// # Cancel safety
/// Dropped early, all programs are killed.
pub async fn compare_stores(
    load: Load,
    rounds: usize,
    program: &Path,
    folder: &Path,
    only: Option<&str>,
    mut say: impl FnMut(&str),
) -> Result<StoresOutcome> {
    let chosen = ALL.into_iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only)));
    let (mut stores, mut measured, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for (name, kind) in chosen {
        let start = match kind {
            Program::Store(name) => (program.to_owned(), vec!["store".to_owned(), name.to_owned()]),
            Program::Go if has_go().await => (build_go(CLIENT_GO, folder).await?, vec!["store".to_owned()]),
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
            say(&format!("round {number} of {rounds}: the store of {name}"));
            let round = run_once(load, name, start, folder).await;
            measured.rounds.push(round.with_context(|| format!("the store of {name}"))?);
        }
    }
    Ok(StoresOutcome { load, measured, skipped })
}

/// A store, once, in a process that ends with it.
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
    let round: StoreRound = process.hear().await?;
    process.stop().await?;
    ensure!(round.objects == load.objects, "it holds {} objects", round.objects);
    Ok(round)
}
