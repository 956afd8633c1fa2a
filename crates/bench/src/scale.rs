//! The scale run: what an object costs when there are a million of them, beside what it costs when there are few.
//!
//! The server makes each object while it sends it, out of a recorded one: a million Pods are 11 GB. What a process costs
//! that has no objects is measured, too, and taken off before anything is divided by their number; otherwise few objects
//! would look dearer than they are.

mod figures;
mod numbers;
pub(crate) mod own;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::client;
use crate::compare::{Places, Run};
use crate::stage::Stage;

pub(crate) use numbers::ScaleNumbers;

/// As many Pods are recorded for it.
pub(crate) const RECORDED: usize = 2_000;

/// What is measured where nothing else is asked for: a million typed Pods have no room in 24 GiB.
const DEFAULTS: [(&str, &[usize]); 3] =
    [("typed", &FEW), ("lazy", &[FEW[0], FEW[1], MANY]), ("compressed", &[FEW[0], FEW[1], MANY])];
const FEW: [usize; 2] = [10_000, 100_000];
const MANY: usize = 1_000_000;

/// What is measured.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// Only these representations: typed, lazy, compressed, projection, metadata.
    #[arg(long)]
    representation: Vec<String>,
    /// These numbers of Pods, each with each representation.
    #[arg(long)]
    objects: Vec<usize>,
    /// How many events are sent as fast as they are read.
    #[arg(long, default_value_t = 200_000)]
    events: u64,
    /// How often all is measured; of each case the round counts whose processor time is in the middle.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Write all numbers to this file.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into this page (docs/performance.md) and the numbers into the folder beside it.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// One representation of so many objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Its name among the programs.
    pub representation: String,
    /// Their number.
    pub objects: usize,
}

/// What is measured, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScaleSettings {
    /// One after the other; those of a representation stand together, with few objects first.
    pub cases: Vec<Case>,
    /// Events that are sent as fast as they are read, to objects all over the cache.
    pub events: u64,
    /// How often all is measured.
    pub rounds: usize,
    /// How long a program is left alone after each stage, before its memory is looked at. What it does then counts.
    pub settle: Duration,
}

/// What was measured of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScaleMeasured {
    /// Of which.
    pub case: Case,
    /// The same program until it was in sync with a server that had no object.
    pub empty: Stage,
    /// From its start until its cache was in sync.
    pub sync: Stage,
    /// Events, sent as fast as it read them.
    pub events: Stage,
    /// How often its handler was called.
    pub handled: u64,
    /// The most that the server had in memory, in bytes.
    pub server_peak: u64,
}

impl ScaleArgs {
    /// What is to be measured.
    pub(crate) fn settings(&self, settle: Duration) -> ScaleSettings {
        let default =
            |name: &str| DEFAULTS.iter().find(|(known, _)| *known == name).map_or(&FEW[..], |(_, all)| all);
        let names: Vec<&str> = match self.representation.is_empty() {
            true => DEFAULTS.iter().map(|(name, _)| *name).collect(),
            false => self.representation.iter().map(String::as_str).collect(),
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

/// Measures all cases in turn, each with processes of its own, in several rounds; gives the middle one of each case, by
/// processor time. `say` is told what is being done.
///
/// # Errors
/// A program that can't be started, ends early, or misses an object or an event. The error names the case.
///
/// # Cancel safety
/// Dropped early, all programs are killed.
pub async fn scale(
    settings: &ScaleSettings,
    places: &Places,
    mut say: impl FnMut(&str),
) -> Result<Vec<ScaleMeasured>> {
    for Case { representation, .. } in &settings.cases {
        ensure!(client::names().any(|name| name == representation), "there is no program {representation:?}");
    }
    let mut rounds: Vec<Vec<ScaleMeasured>> = vec![Vec::new(); settings.cases.len()];
    for number in 1..=settings.rounds {
        let mut last: Option<ScaleMeasured> = None;
        for (case, of_case) in settings.cases.iter().zip(&mut rounds) {
            let Case { representation, objects } = case;
            say(&format!("round {number} of {}: {representation}, {objects} objects", settings.rounds));
            let run = async {
                let known = last.as_ref().filter(|last| last.case.representation == *representation);
                let empty = match known {
                    Some(last) => last.empty,
                    None => without_objects(settings, places, representation).await?,
                };
                with_objects(settings, places, case, empty).await
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

async fn without_objects(settings: &ScaleSettings, places: &Places, representation: &str) -> Result<Stage> {
    let (run, _, sync) = start(settings, places, representation, 0).await?;
    run.stop().await?;
    Ok(sync)
}

async fn with_objects(
    settings: &ScaleSettings,
    places: &Places,
    case: &Case,
    empty: Stage,
) -> Result<ScaleMeasured> {
    let (mut run, objects, sync) = start(settings, places, &case.representation, case.objects).await?;
    ensure!(objects == case.objects, "it has {objects} of them");
    let (events, handled) = run.events(settings.events).await?;
    let expected = case.objects as u64 + settings.events;
    ensure!(handled == expected, "its handler was called {handled} times instead of {expected}");
    let server_peak = run.server_peak()?;
    run.stop().await?;
    Ok(ScaleMeasured { case: case.clone(), empty, sync, events, handled, server_peak })
}

async fn start(
    settings: &ScaleSettings,
    places: &Places,
    representation: &str,
    objects: usize,
) -> Result<(Run, usize, Stage)> {
    let mut server = Command::new(&places.program);
    server.arg("replay").arg(&places.recording).args(["--objects", &objects.to_string()]);
    let client = |url: &str| {
        let mut client = Command::new(&places.program);
        client.args(["client", representation, "--server", url]);
        Ok(client)
    };
    Run::start(server, representation, client, settings.settle, &places.folder.join("logs")).await
}
