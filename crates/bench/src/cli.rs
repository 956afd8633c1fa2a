//! The commands of `kube-bench`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Parser};
use tokio::io::{AsyncWriteExt as _, BufReader, stdin, stdout};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::calibrate::{CalibrateArgs, calibrate};
use crate::client;
use crate::clusters::{ClustersArgs, clusters};
use crate::compare::{Paths, Settings, compare};
use crate::contenders::{self, Field};
use crate::event_path::{EventPathArgs, EventPathNumbers, event_path};
use crate::follow_advice::{FollowAdviceArgs, follow_advice};
use crate::operators::{OperatorNumbers, OperatorsArgs, compare_operators};
use crate::overhead::{self, OverheadArgs, OverheadNumbers, ProgramArgs, compare_overhead, run_program};
use crate::record::{RealServer, record};
use crate::recording::{Recording, exists, folder};
use crate::replay::{Listening, Replay, control};
use crate::report::page;
use crate::report::{Numbers, StoreNumbers};
use crate::restart::{RestartArgs, RestartProgramArgs, restart, run_program as run_restart_program};
use crate::scale::{RECORDED, ScaleArgs, ScaleNumbers, scale};
use crate::scale_out::{self, ReplicaArgs, ScaleOutArgs, ScaleOutServerArgs};
use crate::server::{self, ServerArgs, Subject};
use crate::stores::{Load, check as check_stores, compare_stores, run_store};
use crate::wire::Kind;

/// The pause after each stage.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// Measures this project, kube-runtime, client-go and controller-runtime.
#[derive(Debug, Parser)]
#[command(arg_required_else_help = false)]
pub enum Command {
    /// Measure all informers and stores, and print tables. Without a recording, first record Pods of a
    /// real kube-apiserver.
    Compare(CompareArgs),
    /// Measure the memory of informers with many workloads, and fit the coefficients of
    /// `kubectl informer cost`.
    Calibrate(CalibrateArgs),
    /// Measure the memory of an operator on client-go before and after the first advice of
    /// `kubectl informer cost`. Build the package kubectl-informer before, with the same profile.
    FollowAdvice(FollowAdviceArgs),
    /// Measure the cost per object for growing numbers of objects. Without a recording, first record
    /// Pods of a real kube-apiserver.
    Scale(ScaleArgs),
    /// Measure the cost of each layer and each step of an event. Without a recording, first record Pods of a
    /// real kube-apiserver.
    EventPath(EventPathArgs),
    /// Measure only the stores. The command `compare` also does this.
    Stores(StoresArgs),
    /// Measure the operators in examples/operators on kube-operator, kube-runtime and controller-runtime.
    /// Build the package kube-informer-operators before, with the same profile.
    Operators(OperatorsArgs),
    /// Measure the CPU time of a real kube-apiserver: starts and restarts of each program, and watches in
    /// each encoding.
    Server(ServerArgs),
    /// Measure single lists of a real kube-apiserver: paged, unpaged, streaming, and with gzip.
    Lists(ServerArgs),
    /// Measure programs behind a link with a limited rate to a real kube-apiserver, with and without gzip.
    Link(ServerArgs),
    /// Measure the overhead of operators on kube-operator, kube-runtime and controller-runtime: reconciles
    /// without user code, memory, sync, start, and many namespaces.
    Overhead(OverheadArgs),
    /// Measure one of several replicas that share the objects, and moves between replicas.
    ScaleOut(ScaleOutArgs),
    /// Run the server of the command `scale-out`, until standard input closes.
    ScaleOutServer(ScaleOutServerArgs),
    /// Run a replica of the command `scale-out`, until standard input closes.
    ScaleOutReplica(ReplicaArgs),
    /// Measure the memory of a manager with many idle clusters.
    Clusters(ClustersArgs),
    /// Measure restarts with a snapshot: the CPU time until the cache is synced, and the bytes of the server.
    Restart(RestartArgs),
    /// Run a program of the command `restart`, until standard input closes.
    RestartProgram(RestartProgramArgs),
    /// Record the Pods of a real kube-apiserver. The commands `compare`, `scale` and `event-path` also do
    /// this if there is no recording.
    Record {
        /// The number of Pods.
        #[arg(long, default_value_t = 20_000, value_parser = positive)]
        objects: usize,
    },
    /// Serve a recording. Reads instructions from standard input.
    Replay {
        /// The folder of the recording.
        recording: PathBuf,
        /// Serve this number of objects, which are generated from the recorded objects.
        #[arg(long)]
        objects: Option<usize>,
    },
    /// Run one of the compared clients. Reads instructions from standard input.
    Client {
        /// The name of the client.
        name: String,
        /// The URL of a server without TLS and authentication.
        #[arg(long, required_unless_present = "kubeconfig", conflicts_with = "kubeconfig")]
        server: Option<String>,
        /// The kubeconfig of the server.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
        /// The resource of the informer, for example configmaps.
        #[arg(long, default_value = "pods", value_parser = kind)]
        resource: Kind,
    },
    /// Run one of the programs of the command `overhead`. The program prints its figures as JSON.
    OverheadProgram(ProgramArgs),
    /// Run the server of the command `overhead`, until standard input closes.
    OverheadServer(overhead::OverheadServerArgs),
    /// Measure one store once, and print the result as JSON.
    Store {
        /// The name of the store.
        name: String,
        /// The load.
        #[command(flatten)]
        load: Load,
    },
}

/// Contains the options of `kube-bench compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The number of Pods.
    #[arg(long, default_value_t = 20_000, value_parser = positive)]
    objects: usize,
    /// The number of events that the server sends at full speed, to measure the throughput.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// The number of rounds. The output contains the median of each value.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The number of events per second during the latency measurement.
    #[arg(long, default_value_t = 5_000)]
    rate: u64,
    /// The duration of the latency measurement in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Measure only the programs and stores whose names contain this text.
    #[arg(long)]
    only: Option<String>,
    /// Write all numbers to this file in JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the tables into this page (docs/performance.md). Write the charts and numbers into the
    /// folder with the name of the page.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Contains the options of `kube-bench stores`.
#[derive(Debug, Args)]
pub struct StoresArgs {
    #[command(flatten)]
    load: Load,
    /// The number of rounds. The output contains the median of each value.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure only the stores whose names contain this text.
    #[arg(long)]
    only: Option<String>,
    /// Write all numbers to this file in JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Executes a command. Progress and results are written to `out`. A command that is driven by
/// another program writes its replies to standard output.
///
/// # Errors
///
/// Fails if the command fails. The error contains the operation and its cause.
pub fn run(command: Command, out: &mut impl Write) -> Result<()> {
    match command {
        Command::Compare(args) => runtime()?.block_on(run_compare(args, out)),
        Command::Calibrate(args) => runtime()?.block_on(calibrate(&args, out)),
        Command::FollowAdvice(args) => runtime()?.block_on(follow_advice(&args, out)),
        Command::Scale(args) => runtime()?.block_on(run_scale(&args, out)),
        Command::EventPath(args) => runtime()?.block_on(run_event_path(&args, out)),
        Command::Stores(args) => {
            let only = args.only.as_deref();
            check_stores(only)?;
            check_json(args.json.as_deref())?;
            let numbers = runtime()?.block_on(stores(args.load, args.rounds, only, out))?;
            writeln!(out, "\n{}\n{}", numbers.text(), numbers.aims())?;
            args.json.as_deref().map_or(Ok(()), |file| numbers.write_json(file))
        }
        Command::Operators(args) => runtime()?.block_on(run_operators(&args, out)),
        Command::Overhead(args) => runtime()?.block_on(run_overhead(&args, out)),
        // A program uses one thread, as both libraries in Rust need less CPU time with one thread.
        Command::OverheadProgram(args) => current_thread()?.block_on(run_program(&args)),
        Command::OverheadServer(args) => runtime()?.block_on(overhead::run_server(&args)),
        Command::ScaleOut(args) => runtime()?.block_on(scale_out::scale_out(&args, out)),
        Command::ScaleOutServer(args) => current_thread()?.block_on(scale_out::run_server(&args)),
        Command::ScaleOutReplica(args) => current_thread()?.block_on(scale_out::run_replica(&args)),
        // One thread, as of `overhead-program`.
        Command::Clusters(args) => current_thread()?.block_on(clusters(&args, out)),
        Command::Restart(args) => runtime()?.block_on(restart(&args, out)),
        Command::RestartProgram(args) => current_thread()?.block_on(run_restart_program(&args)),
        Command::Store { name, load } => run_store(&name, &load, out),
        Command::Record { objects } => {
            let folder = runtime()?.block_on(recorded(objects, out))?;
            Ok(writeln!(out, "{}", folder.display())?)
        }
        // The server uses one thread. A contender then has the other core.
        Command::Replay { recording, objects } => current_thread()?.block_on(run_replay(&recording, objects)),
        Command::Server(args) => runtime()?.block_on(run_server(Subject::Programs, &args, out)),
        Command::Lists(args) => runtime()?.block_on(run_server(Subject::Lists, &args, out)),
        Command::Link(args) => runtime()?.block_on(run_server(Subject::Link, &args, out)),
        Command::Client { name, server, kubeconfig, resource } => client::runtime(&name)?.block_on(async {
            let config = match (&server, &kubeconfig) {
                (_, Some(file)) => client::config_of_kubeconfig(file).await?,
                (server, None) => client::config_of_url(server.as_deref().unwrap_or_default())?,
            };
            client::run(&name, resource, config, BufReader::new(stdin()), stdout()).await
        }),
    }
}

fn current_thread() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// The maximum of each number. The memory of a usual machine does not contain more objects.
const MAX_NUMBER: usize = 10_000_000;

/// Parses a number, for example of objects.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_NUMBER).contains(number));
    number.ok_or_else(|| format!("expected a number from 1 to {MAX_NUMBER}, in digits"))
}

/// Parses the name of a resource, for example `configmaps`.
fn kind(text: &str) -> Result<Kind, String> {
    Kind::of_plural(text).ok_or_else(|| format!("unknown resource {text:?}; use for example pods or secrets"))
}

/// Checks before a measurement that the JSON file can be written. Does not change an existing file.
pub(crate) fn check_json(file: Option<&Path>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let is_new = !file.exists();
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .with_context(|| format!("cannot write to {}; choose another file with --json", file.display()))?;
    if is_new {
        fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(())
}

async fn run_compare(args: CompareArgs, out: &mut impl Write) -> Result<()> {
    contenders::check(Field::Replay, args.only.as_deref())?;
    check_json(args.json.as_deref())?;
    args.out.as_deref().map_or(Ok(()), |page| page::check(page, "compare"))?;
    let recording = recorded(args.objects, out).await?;
    let settings = Settings {
        events: args.events,
        rounds: args.rounds.max(1),
        rate: args.rate,
        seconds: args.seconds,
        settle: SETTLE,
    };
    let paths = paths(recording)?;
    let outcome = compare(&settings, &paths, args.only.as_deref(), |step| {
        // The measurement continues even if the output is closed.
        let _ = writeln!(out, "{step}");
    });
    let outcome = outcome.await?;
    let stores = stores(Load::default(), settings.rounds, args.only.as_deref(), out).await?;
    let numbers = Numbers::new(outcome, stores);
    writeln!(out, "\n{}", numbers.text())?;
    if let Some(file) = &args.json {
        numbers.write_json(file)?;
    }
    args.out.as_deref().map_or(Ok(()), |page| numbers.write_page(page))
}

async fn run_scale(args: &ScaleArgs, out: &mut impl Write) -> Result<()> {
    let settings = args.settings(SETTLE);
    settings.check()?;
    check_json(args.json.as_deref())?;
    args.out.as_deref().map_or(Ok(()), |page| page::check(page, "scale"))?;
    let paths = paths(recorded(RECORDED, out).await?)?;
    let measured = scale(&settings, &paths, |step| {
        let _ = writeln!(out, "{step}");
    });
    let numbers = ScaleNumbers::new(settings.clone(), measured.await?);
    writeln!(out, "\n{}", numbers.text())?;
    args.json.as_deref().map_or(Ok(()), |file| numbers.write_json(file))?;
    args.out.as_deref().map_or(Ok(()), |page| numbers.write_page(page))
}

async fn run_event_path(args: &EventPathArgs, out: &mut impl Write) -> Result<()> {
    let settings = args.settings(SETTLE);
    check_json(args.json.as_deref())?;
    args.out.as_deref().map_or(Ok(()), |page| page::check(page, "event-path"))?;
    let paths = paths(recorded(args.objects, out).await?)?;
    let measured = event_path(&settings, &paths, |step| {
        let _ = writeln!(out, "{step}");
    });
    let numbers = EventPathNumbers::new(args.objects, settings.clone(), measured.await?);
    writeln!(out, "\n{}", numbers.text())?;
    args.json.as_deref().map_or(Ok(()), |file| numbers.write_json(file))?;
    args.out.as_deref().map_or(Ok(()), |page| numbers.write_page(page))
}

async fn run_operators(args: &OperatorsArgs, out: &mut impl Write) -> Result<()> {
    let settings = args.settings();
    check_json(args.json.as_deref())?;
    args.out.as_deref().map_or(Ok(()), |page| page::check(page, settings.command()))?;
    let program = std::env::current_exe()?;
    let folder = program.parent().context("the path of this program has no folder")?;
    let outcome = compare_operators(&settings, folder, |step| {
        let _ = writeln!(out, "{step}");
    });
    let numbers = OperatorNumbers::new(outcome.await?);
    writeln!(out, "\n{}", numbers.text())?;
    args.json.as_deref().map_or(Ok(()), |file| numbers.write_json(file))?;
    args.out.as_deref().map_or(Ok(()), |page| numbers.write_page(page))
}

async fn run_server(subject: Subject, args: &ServerArgs, out: &mut impl Write) -> Result<()> {
    args.check(subject)?;
    check_json(args.json())?;
    // These measurements use no recording.
    server::measure(subject, args, &paths(PathBuf::new())?, SETTLE, out).await
}

async fn run_overhead(args: &OverheadArgs, out: &mut impl Write) -> Result<()> {
    overhead::check(args.only.as_deref())?;
    check_json(args.json.as_deref())?;
    args.out.as_deref().map_or(Ok(()), |page| page::check(page, "overhead"))?;
    let program = std::env::current_exe()?;
    let (folder, only) = (work_folder(&program)?, args.only.as_deref());
    let settings = args.settings();
    let outcome = compare_overhead(&settings, &program, &folder, only, |step| {
        let _ = writeln!(out, "{step}");
    });
    let numbers = OverheadNumbers::new(outcome.await?);
    writeln!(out, "\n{}", numbers.text())?;
    args.json.as_deref().map_or(Ok(()), |file| numbers.write_json(file))?;
    args.out.as_deref().map_or(Ok(()), |page| numbers.write_page(page))
}

/// Returns the paths of this program, the recording, and the folder for builds and logs.
fn paths(recording: PathBuf) -> Result<Paths> {
    let program = std::env::current_exe()?;
    Ok(Paths { folder: work_folder(&program)?, program, recording })
}

async fn stores(load: Load, rounds: usize, only: Option<&str>, out: &mut impl Write) -> Result<StoreNumbers> {
    let program = std::env::current_exe()?;
    let progress = |step: &str| {
        let _ = writeln!(out, "{step}");
    };
    let outcome =
        compare_stores(load, rounds.max(1), &program, &work_folder(&program)?, only, progress).await?;
    Ok(StoreNumbers::new(outcome))
}

/// Returns the folder for builds and logs.
pub(crate) fn work_folder(program: &Path) -> Result<PathBuf> {
    Ok(target(program)?.join("kube-bench"))
}

/// Returns the recording of `objects` objects. Records them if there is no recording.
async fn recorded(objects: usize, out: &mut impl Write) -> Result<PathBuf> {
    let folder = folder(target(&std::env::current_exe()?)?, objects);
    if !exists(&folder) {
        writeln!(out, "recording {objects} Pods of a real kube-apiserver")?;
        let server = RealServer::start().await?;
        let client = server.client().await?;
        let version = client.apiserver_version().await?.git_version;
        let recorded = record(&client, objects, true, &format!("kube-apiserver {version}"), &folder).await;
        server.stop().await?;
        recorded?;
    }
    Ok(folder)
}

/// Returns the target folder of cargo that contains this program.
fn target(program: &Path) -> Result<&Path> {
    program.ancestors().nth(2).context("this program is not in a target folder of cargo")
}

async fn run_replay(recording: &Path, objects: Option<usize>) -> Result<()> {
    let recording = Recording::load(recording)?;
    let replay = match objects {
        None => Replay::new(recording),
        Some(objects) => Replay::with_generated_objects(recording, objects)?,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let listening = Listening { url: format!("http://{}", listener.local_addr()?) };
    let mut output = stdout();
    output.write_all(format!("{}\n", serde_json::to_string(&listening)?).as_bytes()).await?;
    output.flush().await?;
    tokio::select! {
        served = std::sync::Arc::clone(&replay).serve(listener) => served?,
        driven = control(&replay, BufReader::new(stdin()), output) => driven?,
    }
    Ok(())
}
