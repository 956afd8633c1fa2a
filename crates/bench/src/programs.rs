//! Measures the operators in `examples/operators` on kube-operator, controller-runtime and kube-rs.
//!
//! The programs are measured from outside: CPU time, memory, and the requests to kube-testserver and to
//! the storage service.
//!
//! - `workload`: the operators and their objects. `observer`: the status of these objects.
//! - `requests`: the requests by verb. `round`: one measurement. `table`: the results.

mod observer;
mod requests;
mod round;
mod table;
mod workload;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use kube_informer_operators::programs::{Library, Program};
use serde::{Deserialize, Serialize};

use crate::cli::positive;
use crate::contenders::{NO_GO, Skipped};

pub use requests::VerbCounts;
pub use round::{ProgramPart, ProgramRound};
pub use workload::Operator;

/// The libraries, in the order of the tables.
const LIBRARIES: [Library; 3] = [Library::KubeOperator, Library::KubeRs, Library::ControllerRuntime];
/// The ratio of objects to changes.
const CHANGE_INTERVAL: usize = 10;

/// Contains the options of `kube-bench programs`.
#[derive(Debug, Args)]
pub struct ProgramsArgs {
    /// The number of objects.
    #[arg(long, default_value_t = 10_000, value_parser = positive)]
    objects: usize,
    /// The number of changes per second. One in ten objects is changed.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// The interval of polls of Buckets, and the duration of the idle part, in seconds.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    poll: u64,
    /// Measure only this operator.
    #[arg(long)]
    operator: Option<Operator>,
    /// Write all numbers to this file in JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

/// Contains the settings of a measurement of programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramSettings {
    /// The number of objects.
    pub objects: usize,
    /// The number of changes.
    pub changes: usize,
    /// The number of changes per second.
    pub rate: u64,
    /// The interval of polls of Buckets, and the duration of the idle part.
    pub poll: Duration,
    /// The measured operator, or `None` for all operators.
    pub operator: Option<Operator>,
}

impl ProgramsArgs {
    /// Returns the settings of these options.
    pub(crate) fn settings(&self) -> ProgramSettings {
        ProgramSettings {
            objects: self.objects,
            changes: (self.objects / CHANGE_INTERVAL).max(1),
            rate: self.rate,
            poll: Duration::from_secs(self.poll),
            operator: self.operator,
        }
    }
}

/// Contains the result of a measurement of programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramsOutcome {
    /// The settings.
    pub settings: ProgramSettings,
    /// The measured programs, in the order of the tables.
    pub measured: Vec<MeasuredProgram>,
    /// The programs that were not measured.
    pub skipped: Vec<Skipped>,
}

/// Contains the measurement of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredProgram {
    /// The operator.
    pub operator: Operator,
    /// The library.
    pub library: String,
    /// The measurement.
    pub round: ProgramRound,
}

impl ProgramsOutcome {
    /// Returns the tables and the skipped programs.
    pub fn text(&self) -> String {
        table::text(self)
    }
}

/// Measures the operators in `examples/operators`. The programs in Rust are in `programs`. The function
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
pub async fn measure_programs(
    settings: &ProgramSettings,
    programs: &Path,
    mut progress: impl FnMut(&str),
) -> Result<ProgramsOutcome> {
    let (mut measured, mut skipped) = (Vec::new(), Vec::new());
    for operator in Operator::ALL {
        if settings.operator.is_some_and(|selected| selected != operator) {
            continue;
        }
        for library in LIBRARIES {
            let name = format!("{}, {}", operator.name(), library.name());
            let program = match find(operator, library, programs).await? {
                Ok(program) => program,
                Err(why) => {
                    skipped.push(Skipped { contender: name, why });
                    continue;
                }
            };
            progress(&name);
            let round = round::run(settings, operator, &program).await;
            let round = round.map_err(|error| error.context(name))?;
            measured.push(MeasuredProgram { operator, library: library.name().to_owned(), round });
        }
    }
    Ok(ProgramsOutcome { settings: settings.clone(), measured, skipped })
}

/// Returns the program, or the reason why it does not exist.
async fn find(operator: Operator, library: Library, programs: &Path) -> Result<Result<Program, String>> {
    if library == Library::ControllerRuntime {
        let program = Program::controller_runtime(operator.name()).await?;
        return Ok(program.ok_or_else(|| NO_GO.to_owned()));
    }
    let path = programs.join(format!("{}-{}", operator.name(), library.name()));
    if path.exists() {
        return Ok(Ok(Program::new(library, path)));
    }
    Ok(Err(format!("{} does not exist; build kube-informer-operators", path.display())))
}
