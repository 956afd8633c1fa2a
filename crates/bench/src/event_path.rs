//! The way of one event from the socket to a handler: the cost of each layer and of each step.
//!
//! Layers are programs that read events from a replay server. Each program contains one layer more than
//! the program before, so the difference of their CPU times is the cost of the layer. Steps are measured in
//! memory, without a connection.

mod numbers;
mod steps;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::Serialize;
use tokio::process::Command;

use crate::cli::positive;
use crate::compare::{Paths, RunningContender};

pub(crate) use numbers::EventPathNumbers;
pub use steps::Step;
use steps::measure_steps;

/// The measured representations.
const REPRESENTATIONS: [&str; 3] = ["typed", "lazy", "compressed"];

/// Contains the options of `kube-bench event-path`.
#[derive(Debug, Args)]
pub struct EventPathArgs {
    /// The number of Pods.
    #[arg(long, default_value_t = 20_000, value_parser = positive)]
    pub(crate) objects: usize,
    /// The number of events that the server sends to each program.
    #[arg(long, default_value_t = 200_000)]
    events: u64,
    /// The number of rounds. The output contains the median of each value.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Write all numbers to this file in JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into this page (docs/event-path.md).
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// Contains the settings of the measurement.
#[derive(Clone, Debug, Serialize)]
pub struct EventPathSettings {
    /// The number of events that are sent to each program.
    pub events: u64,
    /// The number of rounds.
    pub rounds: usize,
    /// The pause after each stage. The pause is part of the stage.
    pub settle: Duration,
}

/// Contains the CPU times per event of all rounds, in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventPathMeasured {
    /// The CPU time of each program. The key is the name of the program.
    pub programs: BTreeMap<String, Vec<f64>>,
    /// The CPU time of each step, for each representation.
    pub steps: BTreeMap<String, BTreeMap<Step, Vec<f64>>>,
}

impl EventPathArgs {
    /// Returns the settings of these options.
    pub(crate) fn settings(&self, settle: Duration) -> EventPathSettings {
        EventPathSettings { events: self.events.max(1), rounds: self.rounds.max(1), settle }
    }
}

/// Measures all layers and steps in several rounds. Reports each operation to `progress`.
///
/// # Errors
///
/// Fails if a program cannot be started, stops early or misses an event, or if the recording is damaged.
///
/// # Cancel safety
///
/// Dropping the future kills all programs.
pub async fn event_path(
    settings: &EventPathSettings,
    paths: &Paths,
    mut progress: impl FnMut(&str),
) -> Result<EventPathMeasured> {
    let mut measured = EventPathMeasured::default();
    for number in 1..=settings.rounds {
        for program in programs() {
            progress(&format!("round {number} of {}: {program}", settings.rounds));
            let cpu = run(settings, paths, &program).await.with_context(|| program.clone())?;
            measured.programs.entry(program).or_default().push(cpu);
        }
        for representation in REPRESENTATIONS {
            progress(&format!("round {number} of {}: steps, {representation}", settings.rounds));
            let steps = measure_steps(&paths.recording, representation)?;
            let of = measured.steps.entry(representation.to_owned()).or_default();
            for (step, cpu) in steps {
                of.entry(step).or_default().push(cpu);
            }
        }
    }
    Ok(measured)
}

/// Returns the names of all programs, with the first layers first.
fn programs() -> Vec<String> {
    let layers = ["list-watch-", "reflector-", ""];
    let each =
        |layer: &'static str| REPRESENTATIONS.map(move |representation| format!("{layer}{representation}"));
    std::iter::once("read".to_owned()).chain(layers.into_iter().flat_map(each)).collect()
}

/// Returns the CPU time per event of a program, in microseconds.
async fn run(settings: &EventPathSettings, paths: &Paths, program: &str) -> Result<f64> {
    let mut server = Command::new(&paths.program);
    server.arg("replay").arg(&paths.recording);
    let client = |url: &str| {
        let mut client = Command::new(&paths.program);
        client.args(["client", program, "--server", url]);
        Ok(client)
    };
    let logs = paths.folder.join("logs");
    let (mut run, _, _) = RunningContender::start(server, program, client, settings.settle, &logs).await?;
    let (stage, handled) = run.events(settings.events).await?;
    run.stop().await?;
    ensure!(handled >= settings.events, "the program received {handled} of {} events", settings.events);
    Ok(stage.cpu * 1e6 / settings.events as f64)
}
