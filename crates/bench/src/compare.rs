//! The comparison: each contender in turn, several rounds, every one a process of its own with a server of its own.

mod round;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::contenders::{Family, Field, Skipped};
use crate::recording::{Manifest, Recording};

pub use round::Round;
pub(crate) use round::Run;

/// What is measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Events that are sent as fast as they are read.
    pub events: u64,
    /// How often all is measured.
    pub rounds: usize,
    /// Events a second while their latency is measured.
    pub rate: u64,
    /// For so many seconds.
    pub seconds: u64,
    /// How long a contender is left alone after each stage, before its memory is looked at. What it does then counts.
    pub settle: Duration,
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct Places {
    /// This program.
    pub program: PathBuf,
    /// The recording.
    pub recording: PathBuf,
    /// What is built, and logs.
    pub folder: PathBuf,
}

/// What came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// What was measured.
    pub settings: Settings,
    /// On which objects.
    pub recording: Manifest,
    /// Of whom, in the order of the tables.
    pub measured: Vec<Measured>,
    /// Who is missing.
    pub skipped: Vec<Skipped>,
}

/// The rounds of a contender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub contender: String,
    /// Whose it is.
    pub family: Family,
    /// One after the other.
    pub rounds: Vec<Round>,
}

/// Compares those whose name contains `only`. `say` is told what is being done.
///
/// # Errors
/// A program that can't be built or started, or ends early. The error names it.
///
/// # Cancel safety
/// Dropped early, all programs are killed.
pub async fn compare(
    settings: &Settings,
    places: &Places,
    only: Option<&str>,
    mut say: impl FnMut(&str),
) -> Result<Outcome> {
    let manifest = Recording::manifest(&places.recording)?;
    let field = Field::gather(only, &places.program, manifest.protobuf, &places.folder).await?;
    let new = |contender: &crate::contenders::Contender| Measured {
        contender: contender.name.to_owned(),
        family: contender.family,
        rounds: Vec::new(),
    };
    let mut measured: Vec<Measured> = field.contenders.iter().map(new).collect();
    for number in 1..=settings.rounds {
        for (contender, measured) in field.contenders.iter().zip(&mut measured) {
            say(&format!("round {number} of {}: {}", settings.rounds, contender.name));
            let round = round::run(settings, places, &field, contender).await;
            measured.rounds.push(round.with_context(|| contender.name.to_owned())?);
        }
    }
    Ok(Outcome { settings: settings.clone(), recording: manifest, measured, skipped: field.skipped })
}
