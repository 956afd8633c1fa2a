//! Compares one operator on kube-operator, on kube-runtime's `Controller` and on
//! controller-runtime. Each runs in a separate process, with a separate cluster.
//!
//! The operator creates a ConfigMap, a Deployment and a Service for each `Website`, by server-side
//! apply, and reports the `Website` as ready. It does not apply children that are up to date in its
//! cache.
//!
//! - `website`, `children`, `views`: the objects. `workload`: their names, specs and creation.
//! - `reconciles`: the counters of an operator. `ours` and `kube_runtime`: the operators.
//!   `program`: their process.
//! - `server`, `observer`, `check`: parts of the cluster. `cluster`: its commands. `protocol`,
//!   `control`: its process.
//! - `contenders`, `round`: the operators under comparison, and one measurement. `figures`,
//!   `numbers`: the results.

mod check;
mod children;
mod cluster;
mod contenders;
mod control;
mod figures;
mod kube_runtime;
mod numbers;
mod observer;
mod ours;
mod program;
mod protocol;
mod reconciles;
mod round;
mod server;
mod views;
mod website;
pub(crate) mod workload;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::cli::positive;
use crate::contenders::Skipped;
use contenders::{Contender, Contenders};

pub(crate) use contenders::{CONTROLLER_RUNTIME, check};
pub(crate) use control::run_cluster;
pub(crate) use numbers::OperatorNumbers;
pub(crate) use program::{run as run_operator, runtime};
pub(crate) use protocol::ClusterReady;
pub(crate) use round::SETTLE;
pub use round::{OperatorRound, Part};
pub use server::Requests;
pub(crate) use server::{Counter, is_watch_query, kubeconfig, serve, serve_with};

/// The number of concurrent reconciles.
const CONCURRENCY: u16 = 16;
/// The ratio of Websites to changes.
const CHANGE_INTERVAL: usize = 10;

/// Contains the options of `kube-bench operators`.
#[derive(Debug, Args)]
pub struct OperatorsArgs {
    /// The number of Website objects.
    #[arg(long, default_value_t = 10_000, value_parser = positive)]
    objects: usize,
    /// The number of rounds. The output contains the median of each value.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The number of changes of Websites per second. One in ten Websites is changed.
    #[arg(long, default_value_t = 100)]
    rate: u64,
    /// The duration of the idle part, in which no object changes, in seconds.
    #[arg(long, default_value_t = 10)]
    idle: u64,
    /// Use a real kube-apiserver, built by `.ci/real-apiserver`, instead of kube-testserver.
    #[arg(long)]
    real: bool,
    /// Measure only the operators whose names contain this text.
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// Write all numbers to this file in JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into this page (docs/performance.md). Write the numbers into the folder with the
    /// name of the page.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// Contains the settings of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorSettings {
    /// The number of Websites.
    pub objects: usize,
    /// The number of changes.
    pub changes: usize,
    /// The number of changes per second.
    pub rate: u64,
    /// The duration of the idle part, in which no object changes.
    pub idle: Duration,
    /// The number of rounds.
    pub rounds: usize,
    /// True if the server is a real kube-apiserver. Otherwise, the server is kube-testserver.
    pub real: bool,
    /// An operator is at rest after it has used almost no CPU time for this duration.
    pub settle: Duration,
}

impl OperatorsArgs {
    /// Returns the settings of these options.
    pub(crate) fn settings(&self) -> OperatorSettings {
        OperatorSettings {
            objects: self.objects,
            changes: (self.objects / CHANGE_INTERVAL).max(1),
            rate: self.rate.max(1),
            idle: Duration::from_secs(self.idle),
            rounds: self.rounds.max(1),
            real: self.real,
            settle: SETTLE,
        }
    }
}

impl OperatorSettings {
    /// Returns the command that generates the section of the page with these settings.
    pub(crate) fn command(&self) -> &'static str {
        if self.real { "operators --real" } else { "operators" }
    }
}

/// Contains the result of a comparison of operators.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorsOutcome {
    /// The settings.
    pub settings: OperatorSettings,
    /// The measured operators, in the order of the tables.
    pub measured: Vec<MeasuredOperator>,
    /// The operators that were not measured.
    pub skipped: Vec<Skipped>,
}

/// Contains the measurements of an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredOperator {
    /// The name of the operator.
    pub operator: String,
    /// True if the operator uses kube-runtime or controller-runtime instead of kube-operator.
    pub is_peer: bool,
    /// The measurements, in the order of the rounds.
    pub rounds: Vec<OperatorRound>,
}

/// Compares the operators whose name contains `only`, in several rounds.
///
/// `program` is the path of `kube-bench`. The function stores built programs and logs in `folder`,
/// and reports each step to `progress`.
///
/// # Errors
///
/// Fails if a program cannot be built or started, or stops early. Also fails if an operator does not
/// create exactly the expected objects. The error contains the name of the operator.
///
/// # Cancel safety
///
/// Dropping the future kills all programs.
pub async fn compare_operators(
    settings: &OperatorSettings,
    program: &Path,
    folder: &Path,
    only: Option<&str>,
    mut progress: impl FnMut(&str),
) -> Result<OperatorsOutcome> {
    let contenders = Contenders::select(only, program, folder).await?;
    let logs = folder.join("logs");
    let new = |contender: &Contender| MeasuredOperator {
        operator: contender.name.to_owned(),
        is_peer: contender.is_peer,
        rounds: Vec::new(),
    };
    let mut measured: Vec<MeasuredOperator> = contenders.contenders.iter().map(new).collect();
    let mut expected: Option<[String; 3]> = None;
    for number in 1..=settings.rounds {
        for (contender, measured) in contenders.contenders.iter().zip(&mut measured) {
            progress(&format!("round {number} of {}: {}", settings.rounds, contender.name));
            let round = round::run(settings, &contenders, contender, &logs).await;
            let round = round.with_context(|| contender.name.to_owned())?;
            let first = expected.get_or_insert_with(|| round.digests.clone());
            ensure!(
                *first == round.digests,
                "{} created other objects than the other operators",
                contender.name
            );
            measured.rounds.push(round);
        }
    }
    Ok(OperatorsOutcome { settings: settings.clone(), measured, skipped: contenders.skipped })
}
