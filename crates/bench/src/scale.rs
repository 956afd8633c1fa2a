//! The scale measurement: the cost per object for few objects and for a million.
//!
//! The server generates each object from a recorded one while it sends the object, because a
//! million Pods need 11 GB. The cost of a process without objects is measured separately and
//! subtracted. Otherwise the cost per object would be too high for few objects.

mod figures;
mod numbers;
pub(crate) mod unique;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::cli::positive;
use crate::client;
use crate::compare::{Paths, RunningContender};
use crate::stage::Stage;

pub(crate) use numbers::ScaleNumbers;

/// The number of recorded Pods.
pub(crate) const RECORDED: usize = 2_000;

/// The default cases. A million typed Pods do not fit into 24 GiB.
const DEFAULTS: [(&str, &[usize]); 3] =
    [("typed", &FEW), ("lazy", &[FEW[0], FEW[1], MANY]), ("compressed", &[FEW[0], FEW[1], MANY])];
const FEW: [usize; 2] = [10_000, 100_000];
const MANY: usize = 1_000_000;

/// Contains the options of `kube-bench scale`.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// Measure only this representation: typed, lazy, compressed, projection or metadata. Can be used
    /// several times.
    #[arg(long)]
    representation: Vec<String>,
    /// Measure each representation with this number of Pods. Can be used several times.
    #[arg(long, value_parser = positive)]
    objects: Vec<usize>,
    /// The number of events that the server sends at full speed, to measure the throughput.
    #[arg(long, default_value_t = 200_000)]
    events: u64,
    /// The number of rounds. The output contains the round with the median CPU time.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Write all numbers to this file in JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into this page (docs/performance.md). Write the numbers into the folder with the
    /// name of the page.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// Contains a representation and a number of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The name of the representation, such as `lazy`.
    pub representation: String,
    /// The number of objects.
    pub objects: usize,
}

/// Contains the settings of a scale measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScaleSettings {
    /// The cases, grouped by representation, in ascending order of the number of objects.
    pub cases: Vec<Case>,
    /// The number of events that are sent at full speed, for objects in random order.
    pub events: u64,
    /// The number of rounds.
    pub rounds: usize,
    /// The pause after each stage, before the memory is measured. The pause is part of the stage.
    pub settle: Duration,
}

/// Contains the measurement of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScaleMeasured {
    /// The case.
    pub case: Case,
    /// The stage until the cache of the same program is synced with a server without objects.
    pub empty: Stage,
    /// The stage from the start of the process until its cache is synced.
    pub sync: Stage,
    /// The stage in which the server sends events at full speed.
    pub events: Stage,
    /// The number of handler calls.
    pub handled: u64,
    /// The peak memory of the server in bytes.
    pub server_peak: u64,
}

impl ScaleArgs {
    /// Returns the settings of these options.
    pub(crate) fn settings(&self, settle: Duration) -> ScaleSettings {
        let default =
            |name: &str| DEFAULTS.iter().find(|(known, _)| *known == name).map_or(&FEW[..], |(_, all)| all);
        let names: Vec<&str> = if self.representation.is_empty() {
            DEFAULTS.iter().map(|(name, _)| *name).collect()
        } else {
            self.representation.iter().map(String::as_str).collect()
        };
        let mut cases = Vec::new();
        for name in names {
            let mut objects =
                if self.objects.is_empty() { default(name).to_vec() } else { self.objects.clone() };
            objects.sort_unstable();
            cases
                .extend(objects.into_iter().map(|objects| Case { representation: name.to_owned(), objects }));
        }
        ScaleSettings { cases, events: self.events, rounds: self.rounds.max(1), settle }
    }
}

impl ScaleSettings {
    /// Checks before a measurement that a program exists for each representation.
    pub(crate) fn check(&self) -> Result<()> {
        for Case { representation, .. } in &self.cases {
            ensure!(
                client::names().any(|name| name == representation),
                "no program has the representation {representation:?}; use typed, lazy, compressed, projection or metadata"
            );
        }
        Ok(())
    }
}

/// Measures all cases in several rounds, each with new processes. Returns the round with the median
/// CPU time for each case. Reports each step to `progress`.
///
/// # Errors
///
/// Fails if a program cannot be started, stops early, or misses an object or an event. The error
/// contains the case.
///
/// # Cancel safety
///
/// Dropping the future kills all programs.
pub async fn scale(
    settings: &ScaleSettings,
    paths: &Paths,
    mut progress: impl FnMut(&str),
) -> Result<Vec<ScaleMeasured>> {
    settings.check()?;
    let mut rounds: Vec<Vec<ScaleMeasured>> = vec![Vec::new(); settings.cases.len()];
    for number in 1..=settings.rounds {
        let mut last: Option<ScaleMeasured> = None;
        for (case, of_case) in settings.cases.iter().zip(&mut rounds) {
            let Case { representation, objects } = case;
            progress(&format!("round {number} of {}: {representation}, {objects} objects", settings.rounds));
            let run = async {
                let known = last.as_ref().filter(|last| last.case.representation == *representation);
                let empty = match known {
                    Some(last) => last.empty,
                    None => without_objects(settings, paths, representation).await?,
                };
                with_objects(settings, paths, case, empty).await
            };
            let measured = run.await.with_context(|| format!("{representation}, {objects} objects"))?;
            of_case.push(measured.clone());
            last = Some(measured);
        }
    }
    Ok(rounds.into_iter().filter_map(middle).collect())
}

fn middle(mut rounds: Vec<ScaleMeasured>) -> Option<ScaleMeasured> {
    let cpu = |of: &ScaleMeasured| of.sync.cpu + of.events.cpu;
    rounds.sort_unstable_by(|a, b| cpu(a).total_cmp(&cpu(b)));
    let at = rounds.len().saturating_sub(1) / 2;
    rounds.into_iter().nth(at)
}

async fn without_objects(settings: &ScaleSettings, paths: &Paths, representation: &str) -> Result<Stage> {
    let (run, _, sync) = start(settings, paths, representation, 0).await?;
    run.stop().await?;
    Ok(sync)
}

async fn with_objects(
    settings: &ScaleSettings,
    paths: &Paths,
    case: &Case,
    empty: Stage,
) -> Result<ScaleMeasured> {
    let (mut run, objects, sync) = start(settings, paths, &case.representation, case.objects).await?;
    ensure!(objects == case.objects, "the program has {objects} objects");
    let (events, handled) = run.events(settings.events).await?;
    let expected = case.objects as u64 + settings.events;
    ensure!(handled == expected, "the handler was called {handled} times, expected {expected}");
    let server_peak = run.server_peak()?;
    run.stop().await?;
    Ok(ScaleMeasured { case: case.clone(), empty, sync, events, handled, server_peak })
}

async fn start(
    settings: &ScaleSettings,
    paths: &Paths,
    representation: &str,
    objects: usize,
) -> Result<(RunningContender, usize, Stage)> {
    let mut server = Command::new(&paths.program);
    server.arg("replay").arg(&paths.recording).args(["--objects", &objects.to_string()]);
    let client = |url: &str| {
        let mut client = Command::new(&paths.program);
        client.args(["client", representation, "--server", url]);
        Ok(client)
    };
    RunningContender::start(server, representation, client, settings.settle, &paths.folder.join("logs")).await
}
