//! Programs behind a link with a limited rate, with and without gzip.

use anyhow::{Context as _, Result};
use tokio::process::Command;

use super::ServerSettings;
use super::cluster::Cluster;
use super::numbers::{Rows, Table};
use super::programs::{Runner, Start};
use super::relay::Relay;
use crate::compare::Paths;

/// The programs: the name of the row, and the name of the program.
const CASES: [(&str, &str); 4] =
    [("typed", "typed"), ("typed, gzip", "typed-gzip"), ("lazy", "lazy"), ("lazy, gzip", "lazy-gzip")];

const COLUMNS: &[(&str, usize)] = &[
    ("time until sync, s", 2),
    ("received, MB", 1),
    ("CPU of the program, s", 2),
    ("peak RSS of the program, MB", 0),
    ("CPU of the server, s", 2),
];

/// Returns whether the name of a program contains `only`.
pub(super) fn is_case(only: Option<&str>) -> bool {
    chosen(only).next().is_some()
}

fn chosen(only: Option<&str>) -> impl Iterator<Item = (&'static str, &'static str)> {
    CASES.into_iter().filter(move |(name, _)| only.is_none_or(|only| name.contains(only)))
}

/// Measures the start of all programs at all rates in several rounds.
pub(super) async fn measure(
    settings: &ServerSettings,
    cluster: &Cluster,
    paths: &Paths,
    only: Option<&str>,
    progress: &mut impl FnMut(&str),
) -> Result<Vec<Table>> {
    let rates = || settings.rates.iter().copied().map(Some).chain([None]);
    let mut tables: Vec<Rows> = rates().map(|_| Rows::new(COLUMNS)).collect();
    let logs = paths.folder.join("logs");
    let original = cluster.real().kubeconfig();
    let kubeconfig = original.with_extension("link");
    for number in 1..=settings.rounds {
        let idle = cluster.idle().await?;
        for (rate, rows) in rates().zip(&mut tables) {
            let relay = Relay::start(original, rate.map(|rate| rate * 1_000_000)).await?;
            relay.write_kubeconfig(original, &kubeconfig)?;
            let runner = Runner { cluster, settle: settings.settle, relay: &relay, logs: &logs, idle };
            for (name, program) in chosen(only) {
                progress(&format!("round {number} of {}: {}, {name}", settings.rounds, title(rate)));
                let mut command = Command::new(&paths.program);
                command.args(["client", program, "--kubeconfig"]).arg(&kubeconfig);
                let started = runner.start(program, command).await.with_context(|| name.to_owned())?;
                let (process, Start { wall, received, cpu, peak, server_cpu, .. }) = started;
                process.stop().await?;
                rows.add(name, &[wall, received / 1e6, cpu, peak / 1e6, server_cpu]);
            }
        }
    }
    Ok(rates().zip(tables).map(|(rate, rows)| rows.table(&title(rate))).collect())
}

fn title(rate: Option<u64>) -> String {
    rate.map_or_else(|| "Loopback without a limit".to_owned(), |rate| format!("Link with {rate} MB/s"))
}
