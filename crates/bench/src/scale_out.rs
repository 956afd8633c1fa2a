//! The cost of one of several replicas that share the objects, and the times of moves between replicas.
//!
//! Each replica is a process with an informer of Pods. The server is kube-testserver in a process of its own,
//! so the CPU time of a replica does not contain the server. One replica runs at a time.

mod moves;
mod replica;
mod server;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::cli::positive;
use crate::process::{Process, REST_INTERVAL};

use moves::MoveArgs;
use moves::measure_moves;
pub use replica::ReplicaArgs;
pub(crate) use replica::run_replica;
pub use server::ServerArgs as ScaleOutServerArgs;
use server::{Changed, Ready};
pub(crate) use server::{print as print_json, run_server};

/// Contains the options of `kube-bench scale-out`.
#[derive(Debug, Args)]
pub struct ScaleOutArgs {
    /// The number of Pods. They are in 400 namespaces.
    #[arg(long, default_value_t = 20_000, value_parser = positive)]
    objects: usize,
    /// The number of replicas that share the Pods. It must be a power of two, at most 64.
    #[arg(long, default_value_t = 4)]
    replicas: u8,
    /// The number of Pods that change at once. The server then sends their changes together.
    #[arg(long, default_value_t = 1, value_parser = positive)]
    burst: usize,
    /// The options of the measured moves.
    #[command(flatten)]
    moves: MoveArgs,
    /// Measure only the caches, and no moves.
    #[arg(long)]
    no_moves: bool,
}

/// Selects how the objects are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Division {
    /// One replica has all objects.
    None,
    /// The server filters by the uid.
    Uid,
    /// The replica filters by the namespace.
    Namespace,
}

/// Selects how an object is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Representation {
    /// `Pod`.
    Typed,
    /// `Compressed<Pod>`.
    Compressed,
}

/// The first line of a replica.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Synced {
    objects: usize,
}

/// The figures of a replica.
#[derive(Clone, Copy, Debug)]
struct Figures {
    objects: usize,
    /// The seconds of CPU time until the first list was cached.
    sync_cpu: f64,
    /// The seconds of CPU time while all objects changed once.
    events_cpu: f64,
    /// The part of `events_cpu` that the kernel needed, mostly to wake the process and to copy bytes.
    events_kernel: f64,
    /// The resident memory after the changes, in bytes.
    memory: u64,
}

/// Measures the replicas, prints a table, and measures moves.
///
/// # Errors
///
/// Fails if a process cannot be started, stops early, or does not have the expected number of objects.
///
/// # Cancel safety
///
/// Dropping the future kills all processes.
pub(crate) async fn scale_out(args: &ScaleOutArgs, out: &mut impl Write) -> Result<()> {
    ensure!(
        args.replicas.is_power_of_two() && args.replicas <= 64,
        "--replicas must be a power of two, at most 64"
    );
    let slots = format!("0-{}", 64 / args.replicas - 1);
    for representation in [Representation::Typed, Representation::Compressed] {
        let name = value_name(representation);
        let all = measure(args, representation, Division::None, "0-63").await?;
        writeln!(
            out,
            "\n| {name} | objects | CPU until sync, s | CPU of changes, s | of it kernel, s | RSS, MB |"
        )?;
        writeln!(out, "|---|--:|--:|--:|--:|--:|")?;
        print(out, "one replica", &all, None)?;
        for (title, division) in [
            ("the server filters by uid", Division::Uid),
            ("the replica filters by namespace", Division::Namespace),
        ] {
            let part = measure(args, representation, division, &slots).await?;
            print(out, &format!("one of {} replicas: {title}", args.replicas), &part, Some(&all))?;
        }
    }
    if args.no_moves {
        return Ok(());
    }
    measure_moves(&args.moves, out).await
}

fn value_name(representation: Representation) -> String {
    representation.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn print(out: &mut impl Write, title: &str, figures: &Figures, base: Option<&Figures>) -> Result<()> {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let Figures { objects, sync_cpu, events_cpu, events_kernel, memory } = *figures;
    let memory = mb(memory);
    writeln!(
        out,
        "| {title} | {objects} | {sync_cpu:.2} | {events_cpu:.2} | {events_kernel:.2} | {memory:.1} |"
    )?;
    let Some(base) = base else { return Ok(()) };
    let ratio = |part: f64, all: f64| part / all;
    writeln!(
        out,
        "| ratio | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
        ratio(objects as f64, base.objects as f64),
        ratio(sync_cpu, base.sync_cpu),
        ratio(events_cpu, base.events_cpu),
        ratio(events_kernel, base.events_kernel),
        ratio(memory, mb(base.memory)),
    )?;
    Ok(())
}

/// Measures one replica with a new server.
async fn measure(
    args: &ScaleOutArgs,
    representation: Representation,
    division: Division,
    slots: &str,
) -> Result<Figures> {
    let (program, logs) = (std::env::current_exe().context("the program has no path")?, logs()?);
    let mut command = Command::new(&program);
    command.args(["scale-out-server", "--objects", &args.objects.to_string()]);
    command.args(["--burst", &args.burst.to_string()]);
    let mut server = Process::spawn("the server", command, &logs)?;
    let Ready { url } = server.receive().await?;

    let mut command = Command::new(&program);
    let division_name = division.to_possible_value().map(|value| value.get_name().to_owned());
    command.args(["scale-out-replica", "--server", &url, "--slots", slots]);
    command.args(["--representation", &value_name(representation)]);
    command.args(["--division", &division_name.unwrap_or_default()]);
    let mut replica = Process::spawn("a replica", command, &logs)?;
    let Synced { objects } = replica.receive().await?;
    replica.rest(REST_INTERVAL).await?;
    let (sync_cpu, sync_user) = (replica.cpu()?, replica.user()?);

    server.send(&"change").await?;
    let Changed {} = server.receive().await?;
    replica.rest(REST_INTERVAL).await?;
    let events_cpu = replica.cpu()? - sync_cpu;
    let figures = Figures {
        objects,
        sync_cpu: sync_cpu.as_secs_f64(),
        events_cpu: events_cpu.as_secs_f64(),
        events_kernel: events_cpu.saturating_sub(replica.user()? - sync_user).as_secs_f64(),
        memory: replica.memory()?.resident,
    };
    replica.stop().await?;
    server.stop().await?;
    Ok(figures)
}

fn logs() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join("kube-bench-scale-out");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
