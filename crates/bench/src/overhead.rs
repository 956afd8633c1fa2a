//! Compares the overhead of operators on kube-operator, kube-runtime and controller-runtime: the
//! cost without user code. Each measurement runs in a separate process.
//!
//! - `contenders`: the programs. `program`: the programs that are part of `kube-bench`.
//! - `reconcile`, `reconcile_ours`, `reconcile_kube_runtime`: reads, queues and reconciles in memory,
//!   with `objects`, `memory_source`, `reconciled` and `usage`.
//! - `memory`: indexes and handlers. `kinds`: twenty caches. `namespaces`: an informer per namespace.
//! - `server`: the server. `round`: one measurement. `figures`, `numbers`: the results.

mod contenders;
mod figures;
mod kinds;
mod memory;
mod memory_source;
mod namespaces;
mod numbers;
mod objects;
mod program;
mod reconcile;
mod reconcile_kube_runtime;
mod reconcile_ours;
mod reconciled;
mod round;
mod server;
mod usage;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use kube_client::{Client, Config};
use serde::{Deserialize, Serialize};

use crate::cli::positive;
use crate::contenders::Skipped;
use contenders::Contenders;

pub(crate) use contenders::check;
pub(crate) use numbers::OverheadNumbers;
pub use program::ProgramArgs;
pub(crate) use program::run as run_program;
pub use reconcile::Figures;
pub use server::OverheadServerArgs;
pub(crate) use server::{ServerReady, allow_open_files, run_server};

/// The delays of a key after failures: the defaults of the controllers.
const MIN_DELAY: Duration = Duration::from_millis(5);
const MAX_DELAY: Duration = Duration::from_secs(1000);
/// The time limit for caches and first reconciles.
const SYNC_TIMEOUT: Duration = Duration::from_secs(300);
/// The number of handlers of one informer.
const HANDLERS: usize = 10_000;

/// Contains the options of `kube-bench overhead`.
#[derive(Debug, Args)]
pub struct OverheadArgs {
    #[command(flatten)]
    pub(crate) load: OverheadLoad,
    /// The number of rounds. The output contains the median of each value.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure only this part. Can be used several times.
    #[arg(long, value_enum)]
    part: Vec<OverheadPart>,
    /// Measure only the programs whose names contain this text.
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// Write all numbers to this file in JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into this page (docs/performance-operators.md). Write the numbers into the
    /// folder docs/performance.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// Contains the numbers of objects in the measurements.
#[derive(Clone, Copy, Debug, Args, Serialize, Deserialize)]
pub struct OverheadLoad {
    /// The number of ConfigMaps and keys in the parts `reconcile` and `memory`.
    #[arg(long, default_value_t = 1_000_000, value_parser = positive)]
    pub objects: usize,
    /// The number of objects of each of ten kinds in the parts `sync` and `start`.
    #[arg(long, default_value_t = 500, value_parser = positive)]
    pub per_kind: usize,
    /// The number of namespaces in the part `namespaces`.
    #[arg(long, default_value_t = 10_000, value_parser = positive)]
    pub namespaces: usize,
}

/// Selects a part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OverheadPart {
    /// Reads, queues, and reconciles without user code.
    Reconcile,
    /// The memory of indexes and handlers.
    Memory,
    /// The sync of twenty kinds, ten of them empty.
    Sync,
    /// The start of a manager with twenty caches, until its first reconcile.
    Start,
    /// An informer for each of many namespaces.
    Namespaces,
}

/// Contains the settings of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverheadSettings {
    /// The numbers of objects.
    pub load: OverheadLoad,
    /// The number of rounds.
    pub rounds: usize,
    /// The measured parts.
    pub parts: Vec<OverheadPart>,
    /// The time without changes in which the CPU use of many informers is measured.
    pub idle: Duration,
}

impl OverheadPart {
    /// All parts, in the order of the tables.
    pub const ALL: [Self; 5] = [Self::Reconcile, Self::Memory, Self::Sync, Self::Start, Self::Namespaces];

    /// Returns the name of the part on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Reconcile => "reconcile",
            Self::Memory => "memory",
            Self::Sync => "sync",
            Self::Start => "start",
            Self::Namespaces => "namespaces",
        }
    }
}

impl OverheadArgs {
    /// Returns the settings of these options.
    pub(crate) fn settings(&self) -> OverheadSettings {
        let mut parts = if self.part.is_empty() { OverheadPart::ALL.to_vec() } else { self.part.clone() };
        parts.sort_unstable();
        parts.dedup();
        OverheadSettings { load: self.load, rounds: self.rounds.max(1), parts, idle: Duration::from_secs(10) }
    }
}

/// Contains the result of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverheadOutcome {
    /// The settings.
    pub settings: OverheadSettings,
    /// The measured programs, in the order of the tables.
    pub measured: Vec<MeasuredOverhead>,
    /// The programs that were not measured.
    pub skipped: Vec<Skipped>,
}

/// Contains the measurements of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredOverhead {
    /// The name of the program.
    pub program: String,
    /// True if the program uses kube-runtime or controller-runtime.
    pub is_peer: bool,
    /// The figures, in the order of the rounds.
    pub rounds: Vec<Figures>,
}

/// Measures the programs whose name contains `only`, in several rounds. The programs take turns.
///
/// `program` is the path of `kube-bench`. The function stores built programs and logs in `folder`,
/// and reports each step to `progress`.
///
/// # Errors
///
/// Fails if a program cannot be built or started, stops early, or misses an object. The error
/// contains the part and the name of the program.
///
/// # Cancel safety
///
/// Dropping the future kills all programs.
pub async fn compare_overhead(
    settings: &OverheadSettings,
    program: &Path,
    folder: &Path,
    only: Option<&str>,
    mut progress: impl FnMut(&str),
) -> Result<OverheadOutcome> {
    let contenders = Contenders::select(only, program, folder).await?;
    let mut measured: Vec<MeasuredOverhead> = (contenders.chosen.iter())
        .map(|of| MeasuredOverhead { program: of.name.into(), is_peer: of.is_peer, rounds: Vec::new() })
        .collect();
    for number in 1..=settings.rounds {
        measured.iter_mut().for_each(|of| of.rounds.push(Figures::new()));
        for &part in &settings.parts {
            for (contender, measured) in contenders.chosen.iter().zip(&mut measured) {
                if !contender.parts.contains(&part) {
                    continue;
                }
                let step = format!("{}, {}", part.name(), contender.name);
                progress(&format!("round {number} of {}: {step}", settings.rounds));
                let figures = round::run(settings, &contenders, contender, part, &folder.join("logs")).await;
                measured.rounds.last_mut().context("no round")?.extend(figures.context(step)?);
            }
        }
    }
    Ok(OverheadOutcome { settings: settings.clone(), measured, skipped: contenders.skipped })
}

/// Returns a client for measurements that send no request.
fn no_client() -> Result<Client> {
    Ok(Client::try_from(Config::new("http://127.0.0.1:9".parse()?))?)
}
