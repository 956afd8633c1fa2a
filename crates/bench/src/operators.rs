//! Compares the operators in `examples/operators` on kube-operator, kube-runtime and
//! controller-runtime. Each program is measured from outside: CPU time, memory, and the requests to
//! the API server and to the storage service.
//!
//! - `workload`: the operators and their objects. `observer`: the status of these objects.
//! - `round`: one measurement. `figures`, `numbers`: the results.

mod figures;
mod numbers;
mod observer;
mod round;
mod workload;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use kube_informer_operators::programs::{Library, Program};
use serde::{Deserialize, Serialize};

use crate::cli::positive;
use crate::contenders::{NO_GO, Skipped};

pub(crate) use numbers::OperatorNumbers;
pub use round::{OperatorPart, OperatorRound};
pub use workload::Operator;

/// The libraries, in the order of the tables.
const LIBRARIES: [Library; 3] = [Library::KubeOperator, Library::KubeRs, Library::ControllerRuntime];
/// The ratio of objects to changes.
const CHANGE_INTERVAL: usize = 10;

/// Contains the options of `kube-bench operators`.
#[derive(Debug, Args)]
pub struct OperatorsArgs {
    /// The number of objects.
    #[arg(long, default_value_t = 10_000, value_parser = positive)]
    objects: usize,
    /// The number of rounds. The output contains the median of each value.
    #[arg(long, default_value_t = 3, value_parser = positive)]
    rounds: usize,
    /// The number of changes per second. One in ten objects is changed.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// The interval of polls of Buckets, and the duration of the idle part, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    poll: u64,
    /// Measure only this operator.
    #[arg(long)]
    operator: Option<Operator>,
    /// Use a real kube-apiserver, built by `.ci/real-apiserver`, instead of kube-testserver.
    #[arg(long)]
    real: bool,
    /// Write all numbers to this file in JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into this page (docs/performance.md). Write the numbers into the folder with the
    /// name of the page.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// Contains the settings of a comparison of operators.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperatorSettings {
    /// The number of objects.
    pub objects: usize,
    /// The number of changes.
    pub changes: usize,
    /// The number of changes per second.
    pub rate: u64,
    /// The interval of polls of Buckets, and the duration of the idle part.
    pub poll: Duration,
    /// The number of rounds.
    pub rounds: usize,
    /// The measured operator, or `None` for all operators.
    pub operator: Option<Operator>,
    /// True if the server is a real kube-apiserver. Otherwise, the server is kube-testserver.
    pub real: bool,
}

impl OperatorsArgs {
    /// Returns the settings of these options.
    pub(crate) fn settings(&self) -> OperatorSettings {
        OperatorSettings {
            objects: self.objects,
            changes: (self.objects / CHANGE_INTERVAL).max(1),
            rate: self.rate,
            poll: Duration::from_secs(self.poll),
            rounds: self.rounds,
            operator: self.operator,
            real: self.real,
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
    /// The measured programs, in the order of the tables.
    pub measured: Vec<MeasuredOperator>,
    /// The programs that were not measured.
    pub skipped: Vec<Skipped>,
}

/// Contains the measurements of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredOperator {
    /// The operator.
    pub operator: Operator,
    /// The library.
    pub library: String,
    /// The measurements, in the order of the rounds.
    pub rounds: Vec<OperatorRound>,
}

impl MeasuredOperator {
    /// Returns true if the operator uses another project.
    fn is_peer(&self) -> bool {
        self.library != Library::KubeOperator.name()
    }
}

/// Compares the operators in `examples/operators`. The programs in Rust are in `programs`. The function
/// reports each step to `progress`.
///
/// # Errors
///
/// Fails if a program cannot be built or started, stops early, or does not report an object in time. The
/// error contains the name of the operator and of the library.
///
/// # Cancel safety
///
/// Dropping the future kills all programs.
pub async fn compare_operators(
    settings: &OperatorSettings,
    programs: &Path,
    mut progress: impl FnMut(&str),
) -> Result<OperatorsOutcome> {
    let (mut measured, mut found, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let is_selected = |operator: &Operator| settings.operator.is_none_or(|selected| selected == *operator);
    for operator in Operator::ALL.into_iter().filter(is_selected) {
        for library in LIBRARIES {
            match find(operator, library, programs).await? {
                Ok(program) => {
                    let library = library.name().to_owned();
                    measured.push(MeasuredOperator { operator, library, rounds: Vec::new() });
                    found.push(program);
                }
                Err(why) => skipped.push(Skipped { contender: name(operator, library.name()), why }),
            }
        }
    }
    for number in 1..=settings.rounds {
        // The order changes, so that no program always runs at the same time of a round.
        let mut programs: Vec<_> = measured.iter_mut().zip(&found).collect();
        let length = programs.len().max(1);
        programs.rotate_left((number - 1) % length);
        for (measured, program) in programs {
            let name = name(measured.operator, &measured.library);
            progress(&format!("round {number} of {}: {name}", settings.rounds));
            let round = round::run(settings, measured.operator, program).await;
            measured.rounds.push(round.with_context(|| name)?);
        }
    }
    Ok(OperatorsOutcome { settings: settings.clone(), measured, skipped })
}

fn name(operator: Operator, library: &str) -> String {
    format!("{}, {library}", operator.name())
}

/// Returns the program, or the reason why it does not exist.
async fn find(operator: Operator, library: Library, programs: &Path) -> Result<Result<Program, String>> {
    if library == Library::ControllerRuntime {
        let program = Program::controller_runtime(operator.name()).await?;
        return Ok(program.ok_or_else(|| NO_GO.to_owned()));
    }
    let path = programs.join(format!("{}-{}", operator.name(), library.name()));
    if path.exists() {
        // At the level info, the programs on kube-rs would log each reconcile.
        return Ok(Ok(Program::new(library, path).log_filter("warn,kube_client=off")));
    }
    Ok(Err(format!("{} does not exist; build the package kube-informer-operators", path.display())))
}
