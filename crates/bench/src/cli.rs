//! The program's commands.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser};
use tokio::io::{AsyncWriteExt as _, BufReader, stdin, stdout};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::client;
use crate::compare::{Places, Settings, compare};
use crate::operators::{self, OperatorNumbers, OperatorsArgs, compare_operators, run_cluster, run_operator};
use crate::record::{RealServer, record};
use crate::recording::{Recording, exists, folder};
use crate::replay::{Listening, Replay, control};
use crate::report::page;
use crate::report::{Numbers, StoreNumbers};
use crate::scale::{RECORDED, ScaleArgs, ScaleNumbers, scale};
use crate::stores::{Load, compare_stores, run_store};

/// How long a contender is left alone after each stage.
const SETTLE: Duration = Duration::from_secs(1);

/// This project, kube-runtime and client-go over the same recorded bytes, side by side.
#[derive(Debug, Parser)]
pub enum Command {
    /// Measure all of them and print tables. Records first, where that was not done yet.
    Compare(CompareArgs),
    /// Measure what an object costs while their number grows. Records first, where that was not done yet.
    Scale(ScaleArgs),
    /// Measure the stores alone, as `compare` does too.
    Stores(StoresArgs),
    /// Measure one operator on this project's kube-operator, on kube-runtime and on controller-runtime.
    Operators(OperatorsArgs),
    /// Record a real kube-apiserver, as `compare` does.
    Record {
        /// How many Pods.
        #[arg(long, default_value_t = 20_000)]
        objects: usize,
    },
    /// Serve a recording; driven by its standard input.
    Replay {
        /// The folder of the recording.
        recording: PathBuf,
        /// So many objects, each made from a recorded one while it is sent.
        #[arg(long)]
        objects: Option<usize>,
    },
    /// One of the programs that are compared; driven by its standard input.
    Client {
        /// Which.
        name: String,
        /// The server's URL.
        #[arg(long)]
        server: String,
    },
    /// The cluster of an operator; driven by its standard input.
    Cluster {
        /// How many Websites it has.
        #[arg(long)]
        objects: usize,
        /// On a real kube-apiserver.
        #[arg(long)]
        real: bool,
    },
    /// One of the operators that are compared; driven by its standard input.
    Operator {
        /// Which.
        name: String,
        /// How to get to the server.
        #[arg(long)]
        kubeconfig: PathBuf,
        /// How many Websites there are.
        #[arg(long)]
        objects: usize,
    },
    /// One of the stores that are compared; says what came out.
    Store {
        /// Which.
        name: String,
        /// What is done with it.
        #[command(flatten)]
        load: Load,
    },
}

/// What is compared.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// How many Pods.
    #[arg(long, default_value_t = 20_000)]
    objects: usize,
    /// How many events are sent as fast as they are read.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
    /// How often all is measured; medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Events a second while latency is measured.
    #[arg(long, default_value_t = 5_000)]
    rate: u64,
    /// For so many seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Only those with this in their names.
    #[arg(long)]
    only: Option<String>,
    /// Write all numbers to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write tables, charts and numbers into this page (docs/performance.md) and the folder beside it.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What is measured of the stores.
#[derive(Debug, Args)]
pub struct StoresArgs {
    #[command(flatten)]
    load: Load,
    /// How often all is measured; medians are shown.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only those with this in their names.
    #[arg(long)]
    only: Option<String>,
    /// Write all numbers to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Carries out a command. `out` gets what it has to say, unless its standard output belongs to another program.
///
/// # Errors
/// What failed, and how.
pub fn run(command: Command, out: &mut impl Write) -> Result<()> {
    match command {
        Command::Compare(args) => runtime()?.block_on(run_compare(args, out)),
        Command::Scale(args) => runtime()?.block_on(run_scale(&args, out)),
        Command::Stores(args) => {
            let only = args.only.as_deref();
            let numbers = runtime()?.block_on(stores(args.load, args.rounds, only, out))?;
            ensure!(!numbers.text().is_empty(), "no store has {only:?} in its name");
            writeln!(out, "\n{}", numbers.text())?;
            args.json.as_deref().map_or(Ok(()), |file| numbers.write_json(file))
        }
        Command::Operators(args) => runtime()?.block_on(run_operators(&args, out)),
        Command::Cluster { objects, real } => {
            runtime()?.block_on(run_cluster(objects, real, BufReader::new(stdin()), stdout()))
        }
        Command::Operator { name, kubeconfig, objects } => {
            let input = BufReader::new(stdin());
            operators::runtime(&name)?.block_on(run_operator(&name, &kubeconfig, objects, input, stdout()))
        }
        Command::Store { name, load } => run_store(&name, &load, out),
        Command::Record { objects } => {
            let folder = runtime()?.block_on(recorded(objects, out))?;
            Ok(writeln!(out, "{}", folder.display())?)
        }
        // One thread is enough, and leaves the other core to who is measured.
        Command::Replay { recording, objects } => {
            Builder::new_current_thread().enable_all().build()?.block_on(run_replay(&recording, objects))
        }
        Command::Client { name, server } => {
            client::runtime(&name)?.block_on(client::run(&name, &server, BufReader::new(stdin()), stdout()))
        }
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

async fn run_compare(args: CompareArgs, out: &mut impl Write) -> Result<()> {
    args.out.as_deref().map_or(Ok(()), |page| page::check(page, "compare"))?;
    let recording = recorded(args.objects, out).await?;
    let settings = Settings {
        events: args.events,
        rounds: args.rounds.max(1),
        rate: args.rate,
        seconds: args.seconds,
        settle: SETTLE,
    };
    let places = places(recording)?;
    let outcome = compare(&settings, &places, args.only.as_deref(), |what| {
        // Whoever does not listen gets the tables all the same.
        let _ = writeln!(out, "{what}");
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
    args.out.as_deref().map_or(Ok(()), |page| page::check(page, "scale"))?;
    let places = places(recorded(RECORDED, out).await?)?;
    let settings = args.settings(SETTLE);
    let measured = scale(&settings, &places, |what| {
        let _ = writeln!(out, "{what}");
    });
    let numbers = ScaleNumbers::new(settings.clone(), measured.await?);
    writeln!(out, "\n{}", numbers.text())?;
    args.json.as_deref().map_or(Ok(()), |file| numbers.write_json(file))?;
    args.out.as_deref().map_or(Ok(()), |page| numbers.write_page(page))
}

async fn run_operators(args: &OperatorsArgs, out: &mut impl Write) -> Result<()> {
    let settings = args.settings();
    args.out.as_deref().map_or(Ok(()), |page| page::check(page, settings.command()))?;
    let program = std::env::current_exe()?;
    let (folder, only) = (built(&program)?, args.only.as_deref());
    let outcome = compare_operators(&settings, &program, &folder, only, |what| {
        let _ = writeln!(out, "{what}");
    });
    let numbers = OperatorNumbers::new(outcome.await?);
    writeln!(out, "\n{}", numbers.text())?;
    args.json.as_deref().map_or(Ok(()), |file| numbers.write_json(file))?;
    args.out.as_deref().map_or(Ok(()), |page| numbers.write_page(page))
}

/// This program, a recording, and where it builds and logs.
fn places(recording: PathBuf) -> Result<Places> {
    let program = std::env::current_exe()?;
    Ok(Places { folder: built(&program)?, program, recording })
}

async fn stores(load: Load, rounds: usize, only: Option<&str>, out: &mut impl Write) -> Result<StoreNumbers> {
    let program = std::env::current_exe()?;
    let say = |what: &str| {
        let _ = writeln!(out, "{what}");
    };
    let outcome = compare_stores(load, rounds.max(1), &program, &built(&program)?, only, say).await?;
    Ok(StoreNumbers::new(outcome))
}

/// What is built, and logs.
fn built(program: &Path) -> Result<PathBuf> {
    Ok(target(program)?.join("kube-bench"))
}

/// The recording of so many objects, which is made where there is none.
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

/// Cargo's target folder, out of which this program runs.
fn target(program: &Path) -> Result<&Path> {
    program.ancestors().nth(2).context("this program is in no target folder")
}

async fn run_replay(recording: &Path, objects: Option<usize>) -> Result<()> {
    let recording = Recording::load(recording)?;
    let replay = match objects {
        None => Replay::new(recording),
        Some(objects) => Replay::of_many(recording, objects)?,
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
