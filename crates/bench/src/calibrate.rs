//! The calibration of `kubectl informer cost`: measures the memory of informers of each library with many
//! workloads, computes coefficients, and tests the coefficients with other workloads.
//!
//! The memory of a program is measured after each object has changed several times. The garbage collector
//! of a Go program has then run, so its heap has the usual size.

#[path = "../../cli/src/cost/features.rs"]
mod features;
mod fit;
mod managed_fields;
mod outcome;
mod recorded;
mod workload;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::cli::{SETTLE, check_json, positive, work_folder};
use crate::compare::RunningContender;
use crate::contenders::{
    CLIENT_GO_JSON, CLIENT_GO_PROTOBUF, Contender, Contenders, Endpoint, Field, KUBE_RUNTIME_ONE_THREAD,
    NO_GO, TYPED, has_go,
};
use outcome::{Measurement, Outcome};
use workload::ALL;

/// The measured programs.
const MEASURED: [&str; 4] = [CLIENT_GO_PROTOBUF, CLIENT_GO_JSON, KUBE_RUNTIME_ONE_THREAD, TYPED];

/// The number of times that each object changes before the memory is measured.
const CHANGES: u64 = 3;

/// The number of Pods with `--quick`.
const QUICK_OBJECTS: usize = 1_000;

/// Contains the options of `kube-bench calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// The number of Pods of a usual workload. Workloads with large Pods have fewer, and workloads with small
    /// Pods have more.
    #[arg(long, default_value_t = 5_000, value_parser = positive)]
    objects: usize,
    /// The number of rounds. The memory is the median of the rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure one round with 1,000 Pods. The coefficients are then inaccurate.
    #[arg(long)]
    quick: bool,
    /// Write the coefficients and their errors to this file in JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Measures all workloads, and prints and writes the coefficients.
pub(crate) async fn calibrate(args: &CalibrateArgs, out: &mut impl Write) -> Result<()> {
    ensure!(has_go().await, "cannot measure client-go: {NO_GO}");
    check_json(args.out.as_deref())?;
    let program = std::env::current_exe()?;
    let folder = work_folder(&program)?;
    let mut contenders = Contenders::select(Field::Replay, None, &program, true, &folder).await?;
    contenders.contenders.retain(|contender| MEASURED.contains(&contender.name));
    let (objects, rounds) = if args.quick { (QUICK_OBJECTS, 1) } else { (args.objects, args.rounds.max(1)) };
    let mut measured = Vec::new();
    for workload in &ALL {
        let temporary = tempfile::tempdir_in(&folder).context("cannot create a folder for a recording")?;
        let objects = workload.objects(objects);
        let features = recorded::recorded(workload, objects, contenders.encoder()?, temporary.path()).await?;
        for contender in &contenders.contenders {
            // The measurement continues even if the output is closed.
            let _ = writeln!(out, "{}: {objects} Pods: {}", workload.name, contender.name);
            let resident =
                median(rounds, || resident(&contenders, contender, objects, temporary.path(), &folder));
            let resident =
                resident.await.with_context(|| format!("{}: {}", workload.name, contender.name))?;
            measured.push(Measurement { contender: contender.name, workload: *workload, features, resident });
        }
    }
    let outcome = Outcome::new(command(objects, rounds), &MEASURED, &measured).await?;
    writeln!(out, "\n{}", outcome.text())?;
    args.out.as_deref().map_or(Ok(()), |file| outcome.write(file))
}

/// Returns the command that repeats a calibration.
fn command(objects: usize, rounds: usize) -> String {
    format!(
        "cargo run --release -p kube-bench -- calibrate --objects {objects} --rounds {rounds} --out crates/cli/src/cost/coefficients.json"
    )
}

/// Returns the median of the resident memory in several rounds.
async fn median<F: Future<Output = Result<u64>>>(rounds: usize, measure: impl Fn() -> F) -> Result<u64> {
    let mut all = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        all.push(measure().await?);
    }
    all.sort_unstable();
    all.get(all.len() / 2).copied().context("no round was measured")
}

/// Returns the resident memory of a program after each object has changed several times, in bytes.
async fn resident(
    contenders: &Contenders,
    contender: &Contender,
    objects: usize,
    recording: &Path,
    folder: &Path,
) -> Result<u64> {
    let client = |url: &str| contenders.command(contender, Endpoint::Url(url));
    let server = contenders.server(recording);
    let (mut run, synced, _) =
        RunningContender::start(server, contender.name, client, SETTLE, &folder.join("logs")).await?;
    ensure!(synced == objects, "the program cached {synced} of {objects} objects");
    let (events, _) = run.events(CHANGES * objects as u64).await?;
    run.stop().await?;
    Ok(events.after)
}
