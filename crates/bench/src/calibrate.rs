//! The calibration of `kubectl informer cost`: measures the memory of informers of each library with many
//! workloads, computes coefficients, and tests the coefficients with other workloads.
//!
//! The memory of a program is measured after each object has changed several times. The garbage collector
//! of a Go program has then run, so its heap has the usual size.

#[path = "../../cli/src/cost/calibration.rs"]
mod calibration;
#[path = "../../cli/src/cost/features.rs"]
mod features;
mod fit;
mod managed_fields;
mod objects;
mod outcome;
mod recorded;
mod sampled;
mod workload;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::cli::{SETTLE, check_json, positive, work_folder};
use crate::compare::RunningContender;
use crate::contenders::{
    CLIENT_GO_JSON, CLIENT_GO_PROTOBUF, Contender, Contenders, Endpoint, Field, KUBE_RUNTIME_ONE_THREAD,
    NO_GO, TYPED, has_go,
};
use crate::cost_program::cost_program;
use crate::report::page;
use crate::wire::Kind;
use calibration::Features;
use outcome::{Group, Measurement, Origin};
use workload::{ALL, Part, USUAL_PODS, Workload};

/// The measured programs.
const MEASURED: [&str; 4] = [CLIENT_GO_PROTOBUF, CLIENT_GO_JSON, KUBE_RUNTIME_ONE_THREAD, TYPED];

/// The number of times that each object changes before the memory is measured.
pub(crate) const CHANGES: u64 = 3;

/// The number of objects with `--quick`.
const QUICK_OBJECTS: usize = 1_000;

/// Contains the options of `kube-bench calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// The number of objects of a usual workload. Workloads with large objects have fewer, and workloads with
    /// small objects have more.
    #[arg(long, default_value_t = 3_000, value_parser = positive)]
    objects: usize,
    /// The number of rounds. The memory is the median of the rounds.
    #[arg(long, default_value_t = 3, value_parser = positive)]
    rounds: usize,
    /// Measure one round with 1,000 objects. The coefficients are then inaccurate.
    #[arg(long)]
    quick: bool,
    /// Compute the coefficients from the memory in this earlier output of the command, without measurements.
    /// The inputs of the model are computed again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["objects", "rounds", "quick"])]
    refit: Option<PathBuf>,
    /// Measure only the workloads that are not in this earlier output of the command. Its measurements and
    /// the inputs of the model do not change. The new workloads must be held out.
    #[arg(long, value_name = "FILE", conflicts_with = "refit")]
    extend: Option<PathBuf>,
    /// Write the coefficients and their errors to this file in JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The program `kubectl-informer`, which computes the inputs of the model. The default is the program in
    /// the folder of this program.
    #[arg(long, value_name = "FILE")]
    cost_program: Option<PathBuf>,
    /// Write the tables into this page (docs/cost.md).
    #[arg(long)]
    page: Option<PathBuf>,
}

/// Measures all workloads, and prints and writes the coefficients.
pub(crate) async fn calibrate(args: &CalibrateArgs, out: &mut impl Write) -> Result<()> {
    check_json(args.out.as_deref())?;
    args.page.as_deref().map_or(Ok(()), |page| page::check(page, "calibrate"))?;
    let cost_program = cost_program(args.cost_program.as_deref())?;
    let (origin, measured) = match (&args.refit, &args.extend) {
        (Some(file), _) => {
            let (origin, mut measured) = outcome::read(file)?;
            sampled::read_features(&mut measured, &cost_program).await?;
            (origin, measured)
        }
        (None, Some(file)) => extended(file, args, &cost_program, out).await?,
        (None, None) => {
            let origin = Origin { commands: vec![command(args)], versions: outcome::versions().await? };
            let mut measured = measure(args, |_| true, out).await?;
            sampled::read_features(&mut measured, &cost_program).await?;
            (origin, measured)
        }
    };
    let calibration = outcome::calibration(origin, &measured);
    for group in [Group::Fitted, Group::HeldOut, Group::Later] {
        writeln!(out, "\n{}", outcome::measurements(&calibration, group))?;
    }
    writeln!(out, "{}", outcome::errors(&calibration))?;
    for library in &calibration.libraries {
        writeln!(out, "{}: {:?}", library.name, library.coefficients)?;
    }
    args.out.as_deref().map_or(Ok(()), |file| outcome::write(&calibration, file))?;
    args.page.as_deref().map_or(Ok(()), |page| outcome::write_page(&calibration, page))
}

/// Adds the workloads that an earlier output does not contain.
async fn extended(
    file: &Path,
    args: &CalibrateArgs,
    cost_program: &Path,
    out: &mut impl Write,
) -> Result<(Origin, Vec<Measurement>)> {
    let (mut origin, mut measured) = outcome::read(file)?;
    let versions = outcome::versions().await?;
    ensure!(origin.versions == versions, "{} contains other versions than {versions:?}", file.display());
    let is_new = |workload: &Workload| !measured.iter().any(|known| known.workload.name == workload.name);
    ensure!(
        !ALL.iter().any(|workload| is_new(workload) && workload.part == Part::Training),
        "{} does not contain all workloads of the training; measure all workloads",
        file.display()
    );
    let mut added = measure(args, is_new, out).await?;
    sampled::read_features(&mut added, cost_program).await?;
    measured.extend(added);
    origin.commands.push(command(args));
    Ok((origin, measured))
}

/// Measures all programs with the selected workloads.
async fn measure(
    args: &CalibrateArgs,
    is_selected: impl Fn(&Workload) -> bool,
    out: &mut impl Write,
) -> Result<Vec<Measurement>> {
    ensure!(has_go().await, "cannot measure client-go: {NO_GO}");
    let program = std::env::current_exe()?;
    let folder = work_folder(&program)?;
    let mut contenders = Contenders::select(Field::Replay, None, &program, true, &folder).await?;
    contenders.contenders.retain(|contender| MEASURED.contains(&contender.name));
    let (objects, rounds) = if args.quick { (QUICK_OBJECTS, 1) } else { (args.objects, args.rounds) };
    let mut measured = Vec::new();
    for workload in ALL.iter().filter(|workload| is_selected(workload)) {
        let temporary = tempfile::tempdir_in(&folder).context("cannot create a folder for a recording")?;
        let (kind, objects) = (workload.kind(), workload.objects(objects));
        let encoder = kind.has_protobuf().then(|| contenders.encoder(kind)).transpose()?;
        recorded::recorded(workload, objects, encoder, temporary.path()).await?;
        for contender in &contenders.contenders {
            if contender.name == CLIENT_GO_PROTOBUF && !kind.has_protobuf() {
                continue;
            }
            let mut all = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                let resident =
                    resident(&contenders, contender, kind, objects, temporary.path(), &folder).await;
                all.push(resident.with_context(|| format!("{}: {}", workload.name, contender.name))?);
            }
            // The measurement continues even if the output is closed.
            let _ = writeln!(out, "{}: {objects} objects: {}: {all:?} bytes", workload.name, contender.name);
            measured.push(Measurement {
                contender: contender.name.to_owned(),
                workload: *workload,
                features: Features { objects: objects as u64, ..Features::default() },
                rounds: all,
            });
        }
    }
    Ok(measured)
}

/// Returns a Pod with the managedFields of a real cluster and two containers, before or after their restart.
pub(crate) fn pod_of_a_cluster(index: usize, is_restarted: bool) -> Result<Value> {
    USUAL_PODS.object(index, is_restarted)
}

/// Returns the command that repeats a calibration.
fn command(args: &CalibrateArgs) -> String {
    let mut command = String::from("cargo run --release -p kube-bench -- calibrate");
    if args.quick {
        command += " --quick";
    } else {
        command += &format!(" --objects {} --rounds {}", args.objects, args.rounds);
    }
    if let Some(file) = &args.extend {
        command += &format!(" --extend {}", file.display());
    }
    if let Some(file) = &args.out {
        command += &format!(" --out {}", file.display());
    }
    if cfg!(debug_assertions) { command.replace(" --release", "") } else { command }
}

/// Returns the resident memory of a program after each object has changed several times, in bytes.
async fn resident(
    contenders: &Contenders,
    contender: &Contender,
    kind: Kind,
    objects: usize,
    recording: &Path,
    folder: &Path,
) -> Result<u64> {
    let client = |url: &str| contenders.command_of(contender, kind, Endpoint::Url(url));
    let server = contenders.server(recording);
    let (mut run, synced, _) =
        RunningContender::start(server, contender.name, client, SETTLE, &folder.join("logs")).await?;
    ensure!(synced == objects, "the program cached {synced} of {objects} objects");
    let (events, _) = run.events(CHANGES * objects as u64).await?;
    run.stop().await?;
    Ok(events.after)
}
