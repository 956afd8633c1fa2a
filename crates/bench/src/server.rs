//! Measures the CPU time, memory and sent bytes of a real kube-apiserver while programs and single requests
//! read objects.
//!
//! - [`programs`] starts the contenders of the comparison twice. [`events`] watches past changes.
//! - [`lists`] sends single lists, in pages, unpaged, as streaming lists, and with gzip.
//! - [`link`] runs programs behind a link with a limited rate.
//!
//! All programs read through a [`relay::Relay`], which counts the bytes of the server. The figures exclude
//! the CPU time of an idle server, and mostly exclude garbage collections of the server.

mod cluster;
mod events;
mod link;
mod lists;
mod numbers;
mod programs;
mod relay;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::cli::positive;
use crate::compare::Paths;
use crate::contenders::{self, Field};
use crate::report::{page, write_json};
pub(crate) use cluster::{Cluster, Meter, ServerCpu};
use numbers::ServerNumbers;
pub(crate) use relay::Relay;

/// Contains the options of `kube-bench server`, `kube-bench lists` and `kube-bench link`.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// The number of Pods.
    #[arg(long, default_value_t = 3_000, value_parser = positive)]
    objects: usize,
    /// The number of changed Pods. Only `kube-bench server` changes Pods.
    #[arg(long, default_value_t = 2_000)]
    events: usize,
    /// The number of rounds. The output contains the median of each value.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A rate of the link in MB/s. Can be used several times. Only `kube-bench link` has a link.
    #[arg(long, default_values_t = [20, 100], value_parser = clap::value_parser!(u64).range(1..))]
    rate: Vec<u64>,
    /// Measure only the programs or lists whose names contain this text.
    #[arg(long)]
    only: Option<String>,
    /// Write all numbers to this file in JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the tables into this page (docs/performance.md). Write the numbers into the folder with the
    /// name of the page.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Identifies a measurement of a real kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The programs of the comparison.
    Programs,
    /// Single lists.
    Lists,
    /// Programs behind a slow link.
    Link,
}

impl Subject {
    /// The name of the command.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Programs => "server",
            Self::Lists => "lists",
            Self::Link => "link",
        }
    }
}

/// The settings of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ServerSettings {
    objects: usize,
    events: usize,
    rounds: usize,
    rates: Vec<u64>,
    settle: Duration,
}

impl ServerArgs {
    /// Checks the options before a measurement.
    pub(crate) fn check(&self, subject: Subject) -> Result<()> {
        match subject {
            Subject::Programs => contenders::check(Field::Server, self.only.as_deref())?,
            Subject::Lists => ensure!(lists::is_case(self.only.as_deref()), "no list has such a name"),
            Subject::Link => ensure!(link::is_case(self.only.as_deref()), "no program has such a name"),
        }
        self.out.as_deref().map_or(Ok(()), |file| page::check(file, subject.command()))
    }

    /// Returns the file for the numbers.
    pub(crate) fn json(&self) -> Option<&Path> {
        self.json.as_deref()
    }
}

/// Starts a kube-apiserver, measures, and writes the results.
///
/// # Errors
///
/// Fails if a server or program cannot be started or stops early, or if the results cannot be written.
///
/// # Cancel safety
///
/// Dropping the future kills all programs.
pub(crate) async fn measure(
    subject: Subject,
    args: &ServerArgs,
    paths: &Paths,
    settle: Duration,
    out: &mut impl Write,
) -> Result<()> {
    let settings = ServerSettings {
        objects: args.objects,
        events: args.events,
        rounds: args.rounds.max(1),
        rates: args.rate.clone(),
        settle,
    };
    let mut progress = |step: &str| {
        // The measurement continues even if the output is closed.
        let _ = writeln!(out, "{step}");
    };
    progress(&format!("creating {} Pods on a real kube-apiserver", settings.objects));
    let cluster = Cluster::start(settings.objects).await?;
    let only = args.only.as_deref();
    let tables = match subject {
        Subject::Programs => programs::measure(&settings, &cluster, paths, only, &mut progress).await?,
        Subject::Lists => lists::measure(&settings, &cluster, only, &mut progress).await?,
        Subject::Link => link::measure(&settings, &cluster, paths, only, &mut progress).await?,
    };
    let numbers = ServerNumbers::new(settings, cluster.version(), tables);
    cluster.stop().await?;
    writeln!(out, "\n{}", numbers.text())?;
    args.json.as_deref().map_or(Ok(()), |file| write_json(&numbers, file))?;
    args.out.as_deref().map_or(Ok(()), |file| numbers.write_page(file, subject.command()))
}
