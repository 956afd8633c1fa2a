//! The comparison of operators: the same one on this project's kube-operator, on kube-runtime's `Controller` and on
//! controller-runtime, each a process of its own, with a cluster of its own.
//!
//! The operator gives each `Website` a ConfigMap, a Deployment and a Service, by server-side apply, and reports it to be
//! ready. What its cache shows to be there it does not write again.

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
mod round;
mod server;
mod views;
mod website;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::contenders::Skipped;
use contenders::{Contender, Field};

pub(crate) use control::run_cluster;
pub(crate) use numbers::OperatorNumbers;
pub(crate) use program::{run as run_operator, runtime};
pub(crate) use round::SETTLE;
pub use round::{OperatorRound, Part};
pub use server::Requests;

/// How many runs there may be at once.
const CONCURRENCY: u16 = 16;
/// One in so many Websites changes.
const FEW: usize = 10;

/// What is compared.
#[derive(Debug, Args)]
pub struct OperatorsArgs {
    /// How many Websites.
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// How often all is measured; medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many Websites are changed a second, until one in ten has changed.
    #[arg(long, default_value_t = 100)]
    rate: u64,
    /// For how many seconds nothing happens.
    #[arg(long, default_value_t = 10)]
    idle: u64,
    /// On a real kube-apiserver, which `.ci/real-apiserver` builds.
    #[arg(long)]
    real: bool,
    /// Only those with this in their names.
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// Write all numbers to this file.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into this page (docs/performance.md) and the numbers into the folder beside it.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// What is measured, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorSettings {
    /// How many Websites there are.
    pub objects: usize,
    /// How many of them are changed.
    pub changes: usize,
    /// How many in a second.
    pub rate: u64,
    /// How long nothing happens.
    pub idle: Duration,
    /// How often all is measured.
    pub rounds: usize,
    /// Whether the server is a real kube-apiserver.
    pub real: bool,
    /// A program is at rest when it has used next to nothing of a processor for so long.
    pub settle: Duration,
}

impl OperatorsArgs {
    /// What is to be measured.
    pub(crate) fn settings(&self) -> OperatorSettings {
        let objects = self.objects.max(1);
        OperatorSettings {
            objects,
            changes: (objects / FEW).max(1),
            rate: self.rate.max(1),
            idle: Duration::from_secs(self.idle),
            rounds: self.rounds.max(1),
            real: self.real,
            settle: SETTLE,
        }
    }
}

impl OperatorSettings {
    /// Who writes the part of the page with these numbers.
    pub(crate) fn command(&self) -> &'static str {
        if self.real { "operators --real" } else { "operators" }
    }
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorsOutcome {
    /// What was measured.
    pub settings: OperatorSettings,
    /// Of whom, in the order of the tables.
    pub measured: Vec<MeasuredOperator>,
    /// Who is missing.
    pub skipped: Vec<Skipped>,
}

/// The rounds of an operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredOperator {
    /// Its name.
    pub operator: String,
    /// Whether it is another project's.
    pub is_peer: bool,
    /// One after the other.
    pub rounds: Vec<OperatorRound>,
}

/// Compares the operators whose name contains `only`, in turn, several rounds. `program` is this one, `folder` gets what is
/// built, and logs. `say` is told what is being done.
///
/// # Errors
/// A program that can't be built or started, ends early, leaves something undone, or leaves something else behind than the
/// others. The error names it.
///
/// # Cancel safety
/// Dropped early, all programs are killed.
pub async fn compare_operators(
    settings: &OperatorSettings,
    program: &Path,
    folder: &Path,
    only: Option<&str>,
    mut say: impl FnMut(&str),
) -> Result<OperatorsOutcome> {
    let field = Field::gather(only, program, folder).await?;
    let logs = folder.join("logs");
    let new = |contender: &Contender| MeasuredOperator {
        operator: contender.name.to_owned(),
        is_peer: contender.is_peer,
        rounds: Vec::new(),
    };
    let mut measured: Vec<MeasuredOperator> = field.contenders.iter().map(new).collect();
    let mut left: Option<[String; 3]> = None;
    for number in 1..=settings.rounds {
        for (contender, measured) in field.contenders.iter().zip(&mut measured) {
            say(&format!("round {number} of {}: {}", settings.rounds, contender.name));
            let round = round::run(settings, &field, contender, &logs).await;
            let round = round.with_context(|| contender.name.to_owned())?;
            let first = left.get_or_insert_with(|| round.digests.clone());
            ensure!(*first == round.digests, "{} leaves something else behind than others", contender.name);
            measured.rounds.push(round);
        }
    }
    Ok(OperatorsOutcome { settings: settings.clone(), measured, skipped: field.skipped })
}
