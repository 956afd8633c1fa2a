//! Runs operators with unknown faults: see docs/reliability.md.

use std::{
    hash::{BuildHasher as _, RandomState},
    path::PathBuf,
    process::{self, ExitCode},
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use kube_informer_cli as cli;
use kube_informer_e2e::blind::{CASES, ServerKind, Settings, run, run_operator};

/// Runs an operator with six faults, in a random order, and writes the log and the pages of each case.
///
/// A reader receives the folder of the cases, and finds the cause of each case: a missing right, a missing
/// CRD, a webhook that rejects objects, a conflict storm, a hung reconcile, or a lost lease. A separate file
/// contains the solutions.
#[derive(Debug, Parser)]
struct Arguments {
    /// The seed of the order and of the variants of the faults. The default is random.
    #[arg(long)]
    seed: Option<u64>,
    /// The folder for the cases. It must not exist or must be empty.
    #[arg(long, value_name = "FOLDER", required_unless_present = "operator")]
    out: Option<PathBuf>,
    /// The file for the solutions, outside of the folder for the cases.
    #[arg(long, value_name = "FILE", required_unless_present = "operator")]
    answers: Option<PathBuf>,
    /// The time in seconds for which each operator runs. A reconcile that blocks its thread needs at least
    /// 72 s.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(10..=3600))]
    seconds: u64,
    /// Use a real kube-apiserver for each case. The cases run sequentially. Needs .ci/real-apiserver.
    #[arg(long)]
    real: bool,
    /// Run only these cases, for example 1,3.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=CASES as u64))]
    cases: Vec<u64>,
    /// Run the operator with these settings.
    #[arg(long, hide = true)]
    operator: Option<String>,
}

fn main() -> ExitCode {
    cli::run(|arguments: Arguments| blind_faults(arguments).map(|()| ExitCode::SUCCESS))
}

fn blind_faults(arguments: Arguments) -> Result<()> {
    if let Some(settings) = arguments.operator {
        return run_operator(&settings);
    }
    let settings = Settings {
        seed: arguments.seed.unwrap_or_else(random_seed),
        out: arguments.out.context("the option --out is missing")?,
        answers: arguments.answers.context("the file for the solutions is missing")?,
        time: Duration::from_secs(arguments.seconds),
        server: if arguments.real { ServerKind::Real } else { ServerKind::Embedded },
        cases: arguments.cases.into_iter().filter_map(|case| usize::try_from(case).ok()).collect(),
        program: std::env::current_exe().context("cannot find the path of this program")?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&settings, |line| println!("{line}")))
}

/// Returns a seed that differs between processes. The operating system seeds `RandomState`.
fn random_seed() -> u64 {
    RandomState::new().hash_one(process::id())
}
