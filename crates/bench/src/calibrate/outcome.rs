//! The coefficients of each library, and their errors.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::features::{FEATURES, Features};
use super::fit::fit;
use super::workload::{Part, Workload};

/// The measured versions of libraries that are compiled into this program.
const LOCK: &str = include_str!("../../../../Cargo.lock");
const GO_MODULE: &str = include_str!("../../go/go.mod");

/// The measured memory of a program with a workload.
pub(super) struct Measurement {
    pub(super) contender: &'static str,
    pub(super) workload: Workload,
    pub(super) features: Features,
    /// Resident memory in bytes.
    pub(super) resident: u64,
}

/// The result of a calibration, as it is stored.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    /// The command that created this file.
    command: String,
    versions: Versions,
    /// The allocator of the measured programs in Rust.
    allocator: &'static str,
    libraries: Vec<Library>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    kube_informer: &'static str,
    kube_runtime: String,
    client_go: String,
    go: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Library {
    name: &'static str,
    coefficients: Coefficients,
    /// The largest relative error of the workloads to which the coefficients are fitted.
    training_error: f64,
    /// The largest relative error of the held-out workloads.
    held_out_error: f64,
    workloads: Vec<Tested>,
}

/// Bytes of resident memory.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Coefficients {
    base: f64,
    object: f64,
    byte: f64,
    value: f64,
    managed_byte: f64,
    managed_value: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tested {
    workload: &'static str,
    is_held_out: bool,
    features: Features,
    measured: u64,
    predicted: u64,
    /// The predicted divided by the measured memory.
    ratio: f64,
}

impl Outcome {
    /// Computes the coefficients of each library from the workloads of the training. `command` repeats the
    /// calibration.
    pub(super) async fn new(
        command: String,
        contenders: &[&'static str],
        measured: &[Measurement],
    ) -> Result<Self> {
        let library = |name: &&'static str| {
            Library::new(name, measured.iter().filter(|measured| measured.contender == *name))
        };
        Ok(Self {
            command,
            versions: Versions::read().await?,
            allocator: "malloc of glibc",
            libraries: contenders.iter().map(library).collect(),
        })
    }

    /// Formats the errors and the coefficients as Markdown.
    pub(super) fn text(&self) -> String {
        let mut text =
            String::from("| Library | Workload | Objects | Measured MiB | Predicted MiB | Ratio |\n");
        text += "|---|---|---:|---:|---:|---:|\n";
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        for library in &self.libraries {
            for tested in &library.workloads {
                let held_out = if tested.is_held_out { " (held out)" } else { "" };
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "| {} | {}{held_out} | {} | {:.1} | {:.1} | {:.3} |",
                    library.name,
                    tested.workload,
                    tested.features.objects,
                    mib(tested.measured),
                    mib(tested.predicted),
                    tested.ratio,
                );
            }
        }
        text.push('\n');
        for library in &self.libraries {
            let _ = writeln!(
                text,
                "{}: error {:.1} % held out, {:.1} % training; {:?}",
                library.name,
                100.0 * library.held_out_error,
                100.0 * library.training_error,
                library.coefficients,
            );
        }
        text
    }

    /// Writes the coefficients to a file.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))
    }
}

impl Library {
    fn new<'a>(name: &'static str, measured: impl Iterator<Item = &'a Measurement> + Clone) -> Self {
        let training = measured.clone().filter(|measured| measured.workload.part == Part::Training);
        let rows: Vec<_> =
            training.map(|measured| (row(&measured.features), measured.resident as f64)).collect();
        let fitted = fit(&rows);
        let workloads: Vec<Tested> = measured.map(|measured| Tested::new(measured, &fitted)).collect();
        let largest = |is_held_out: bool| {
            let tested = workloads.iter().filter(|tested| tested.is_held_out == is_held_out);
            tested.map(|tested| (tested.ratio - 1.0).abs()).fold(0.0, f64::max)
        };
        let [base, object, byte, value, managed_byte, managed_value] = fitted;
        Self {
            name,
            coefficients: Coefficients { base, object, byte, value, managed_byte, managed_value },
            training_error: largest(false),
            held_out_error: largest(true),
            workloads,
        }
    }
}

/// Returns the factors of the coefficients. The base has the first factor.
fn row(features: &Features) -> [f64; FEATURES + 1] {
    let [objects, bytes, values, managed_bytes, managed_values] = features.array();
    [1.0, objects, bytes, values, managed_bytes, managed_values]
}

impl Tested {
    fn new(measured: &Measurement, fitted: &[f64; FEATURES + 1]) -> Self {
        let predicted: f64 = row(&measured.features).iter().zip(fitted).map(|(a, b)| a * b).sum();
        Self {
            workload: measured.workload.name,
            is_held_out: measured.workload.part == Part::HeldOut,
            features: measured.features,
            measured: measured.resident,
            predicted: predicted as u64,
            ratio: predicted / measured.resident as f64,
        }
    }
}

impl Versions {
    async fn read() -> Result<Self> {
        let go = tokio::process::Command::new("go").args(["env", "GOVERSION"]).output().await?;
        let after = |text: &str, name: &str| -> Option<String> {
            let (_, rest) = text.split_once(name)?;
            Some(rest.lines().next()?.trim_matches('"').to_owned())
        };
        Ok(Self {
            kube_informer: env!("CARGO_PKG_VERSION"),
            kube_runtime: after(LOCK, "name = \"kube-runtime\"\nversion = ")
                .context("no version of kube-runtime")?,
            client_go: after(GO_MODULE, "k8s.io/client-go ").context("no version of client-go")?,
            go: String::from_utf8(go.stdout)?.trim().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::ALL;
    use super::*;

    fn measurements(resident: impl Fn(&Features) -> f64) -> Vec<Measurement> {
        let measure = |(at, workload): (usize, &Workload)| {
            let at = at as u64 + 1;
            let features = Features {
                objects: 1000 * at,
                bytes: 7_000_000 * (at % 5 + 1),
                values: 30_000 * (at % 3 + 1),
                managed_bytes: 900_000 * (at % 4),
                managed_values: 20_000 * (at % 7),
            };
            Measurement {
                contender: "one",
                workload: *workload,
                features,
                resident: resident(&features) as u64,
            }
        };
        ALL.iter().enumerate().map(measure).collect()
    }

    #[tokio::test]
    async fn linear_memory_is_predicted_exactly() -> Result<()> {
        let linear =
            |features: &Features| 2e7 + 900.0 * features.objects as f64 + 1.2 * features.bytes as f64;
        let outcome = Outcome::new(String::new(), &["one"], &measurements(linear)).await?;
        let library = &outcome.libraries[0];
        assert!(library.held_out_error < 0.001 && library.training_error < 0.001, "{library:?}");
        assert!((library.coefficients.byte - 1.2).abs() < 0.01, "{library:?}");
        assert!(outcome.text().contains("held out"), "{}", outcome.text());
        assert!(outcome.versions.client_go.starts_with("v0."), "{:?}", outcome.versions);
        Ok(())
    }
}
