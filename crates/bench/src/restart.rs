//! The cost of a restart with a snapshot, as a part of the cost of a start without one.
//!
//! Each start is a process of its own, so its CPU time does not contain the server. The server is
//! kube-testserver in this process, or a real kube-apiserver, whose CPU time is then measured too.

mod program;
mod source;

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::cli::positive;
use crate::process::{Process, REST_INTERVAL};
use source::{ServerCost, Source};

pub(crate) use program::{RestartProgramArgs, run_program};

/// Contains the options of `kube-bench restart`.
#[derive(Debug, Args)]
pub struct RestartArgs {
    /// The number of Pods.
    #[arg(long, default_value_t = 20_000, value_parser = positive)]
    pods: usize,
    /// Measure only this representation. Can be used several times.
    #[arg(long, value_enum)]
    representation: Vec<Representation>,
    /// Verify each snapshot with a list, as after a longer time, in place of a watch.
    #[arg(long)]
    list: bool,
    /// Start a real kube-apiserver in place of kube-testserver, and also measure its CPU time.
    #[arg(long)]
    real: bool,
}

/// Selects how an object is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Representation {
    /// `Pod`.
    Typed,
    /// `Lazy<Pod>`.
    Lazy,
    /// `Compressed<Pod>`.
    Compressed,
}

/// The line of a program whose cache is synced.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Synced {
    objects: usize,
    /// Whether the cache was restored from a file.
    restored: bool,
}

/// The figures of a start.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// The seconds of CPU time until the cache was synced, and the handler had received all objects.
    cpu: f64,
    /// The part of `cpu` that the kernel needed, for example to read the file and to provide memory.
    kernel: f64,
    server: ServerCost,
}

impl fmt::Display for Representation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

/// Measures the starts, and prints a table.
///
/// # Errors
///
/// Fails if a process cannot be started, stops early, or does not have the expected number of objects.
///
/// # Cancel safety
///
/// Dropping the future kills all processes.
pub(crate) async fn restart(args: &RestartArgs, out: &mut impl Write) -> Result<()> {
    let source = if args.real { Source::real(args.pods).await? } else { Source::embedded(args.pods).await? };
    let all = [Representation::Typed, Representation::Lazy, Representation::Compressed];
    let wanted = if args.representation.is_empty() { all.to_vec() } else { args.representation.clone() };
    writeln!(out, "| {} Pods | CPU, s | of it kernel, s | server CPU, s | bytes | file, bytes |", args.pods)?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|")?;
    for representation in wanted {
        let folder = tempfile::tempdir()?;
        let program = Program { representation, source: &source, folder: folder.path(), list: args.list };
        let cold = program.measure(args.pods, false).await?;
        let warm = program.measure(args.pods, true).await?;
        print(out, representation, cold, warm, file_bytes(folder.path())?)?;
    }
    source.stop().await
}

fn print(
    out: &mut impl Write,
    representation: Representation,
    cold: Figures,
    warm: Figures,
    file: u64,
) -> Result<()> {
    let server = |figures: Figures| figures.server.cpu.map_or(String::new(), |cpu| format!("{cpu:.3}"));
    let (before, after) = (cold.server, warm.server);
    writeln!(
        out,
        "| {representation}, without a snapshot | {:.2} | {:.2} | {} | {} | |",
        cold.cpu,
        cold.kernel,
        server(cold),
        before.bytes
    )?;
    writeln!(
        out,
        "| {representation}, with a snapshot | {:.2} | {:.2} | {} | {} | {file} |",
        warm.cpu,
        warm.kernel,
        server(warm),
        after.bytes
    )?;
    let (cpu, kernel) = (warm.cpu / cold.cpu, warm.kernel / cold.kernel);
    let bytes = after.bytes as f64 / before.bytes as f64;
    let server = before.cpu.zip(after.cpu).map(|(cold, warm)| format!("{:.3}", warm / cold));
    writeln!(out, "| ratio | {cpu:.2} | {kernel:.2} | {} | {bytes:.4} | |", server.unwrap_or_default())?;
    Ok(())
}

fn file_bytes(folder: &Path) -> Result<u64> {
    let mut largest = 0;
    for file in fs::read_dir(folder)? {
        largest = largest.max(file?.metadata()?.len());
    }
    Ok(largest)
}

/// The program whose starts are measured.
struct Program<'a> {
    representation: Representation,
    source: &'a Source,
    folder: &'a Path,
    list: bool,
}

impl Program<'_> {
    /// Starts the program, and stops it when its cache is synced.
    async fn measure(&self, pods: usize, restored: bool) -> Result<Figures> {
        let before = self.source.begin().await?;
        let mut command = Command::new(std::env::current_exe().context("the program has no path")?);
        command.args(["restart-program", "--folder"]).arg(self.folder);
        self.source.add_arguments(&mut command);
        command.args(["--representation", &self.representation.to_string()]);
        if self.list {
            command.arg("--list");
        }
        let logs = std::env::temp_dir().join("kube-bench-restart");
        let mut program = Process::spawn("a program", command, &logs)?;
        let synced: Synced = program.receive().await?;
        ensure!(synced.objects == pods, "the program has {} of {pods} Pods", synced.objects);
        ensure!(synced.restored == restored, "the program has no snapshot, or an unexpected one");
        program.rest(REST_INTERVAL).await?;
        let cpu = program.cpu()?;
        let kernel = cpu.saturating_sub(program.user()?).as_secs_f64();
        let server = self.source.end(before)?;
        program.stop().await?;
        Ok(Figures { cpu: cpu.as_secs_f64(), kernel, server })
    }
}
