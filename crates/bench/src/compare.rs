//! The comparison of informers, in several rounds. Each measurement uses a new process and a new
//! server.

mod round;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::contenders::{Contenders, Family, Field, Skipped};
use crate::recording::{Manifest, Recording};

pub use round::Round;
pub(crate) use round::RunningContender;

/// Contains the settings of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The number of events that are sent at full speed.
    pub events: u64,
    /// The number of rounds.
    pub rounds: usize,
    /// The number of events per second during the latency measurement.
    pub rate: u64,
    /// The duration of the latency measurement in seconds.
    pub seconds: u64,
    /// The pause after each stage, before the memory is measured. The pause is part of the stage.
    pub settle: Duration,
}

/// Contains the paths of a comparison.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The path of `kube-bench`.
    pub program: PathBuf,
    /// The folder of the recording.
    pub recording: PathBuf,
    /// The folder for built programs and logs.
    pub folder: PathBuf,
}

/// Contains the result of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The settings.
    pub settings: Settings,
    /// The description of the recording.
    pub recording: Manifest,
    /// The measured contenders, in the order of the tables.
    pub measured: Vec<Measured>,
    /// The contenders that were not measured.
    pub skipped: Vec<Skipped>,
}

/// Contains the measurements of a contender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The name of the contender.
    pub contender: String,
    /// The project of the contender.
    pub family: Family,
    /// The measurements, in the order of the rounds.
    pub rounds: Vec<Round>,
}

/// Compares the contenders whose name contains `only`. Reports each step to `progress`.
///
/// # Errors
///
/// Fails if a program cannot be built or started, or stops early. The error contains the name of the
/// program.
///
/// # Cancel safety
///
/// Dropping the future kills all programs.
pub async fn compare(
    settings: &Settings,
    paths: &Paths,
    only: Option<&str>,
    mut progress: impl FnMut(&str),
) -> Result<Outcome> {
    let manifest = Recording::manifest(&paths.recording)?;
    let contenders =
        Contenders::select(Field::Replay, only, &paths.program, manifest.protobuf, &paths.folder).await?;
    let new = |contender: &crate::contenders::Contender| Measured {
        contender: contender.name.to_owned(),
        family: contender.family,
        rounds: Vec::new(),
    };
    let mut measured: Vec<Measured> = contenders.contenders.iter().map(new).collect();
    for number in 1..=settings.rounds {
        for (contender, measured) in contenders.contenders.iter().zip(&mut measured) {
            progress(&format!("round {number} of {}: {}", settings.rounds, contender.name));
            let round = round::run(settings, paths, &contenders, contender).await;
            measured.rounds.push(round.with_context(|| contender.name.to_owned())?);
        }
    }
    Ok(Outcome { settings: settings.clone(), recording: manifest, measured, skipped: contenders.skipped })
}
