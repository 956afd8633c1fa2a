//! Computes the coefficients of each library and their errors, and formats them as tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::calibration::{Calibrated, Calibration, Coefficients, Features, INPUTS, Tested, Versions, inputs};
use super::fit::fit;
use crate::report::page;

use super::workload::{ALL, Part, Workload};

/// The measured versions of libraries that are compiled into this program.
const LOCK: &str = include_str!("../../../../Cargo.lock");
const GO_MODULE: &str = include_str!("../../go/go.mod");

/// The measured memory of a program with a workload.
pub(super) struct Measurement {
    pub(super) contender: String,
    pub(super) workload: Workload,
    pub(super) features: Features,
    /// Resident memory in each round, in bytes. Not empty.
    pub(super) rounds: Vec<u64>,
}

impl Measurement {
    /// Returns the median of the rounds.
    fn median(&self) -> u64 {
        let mut rounds = self.rounds.clone();
        rounds.sort_unstable();
        rounds.get(rounds.len() / 2).copied().unwrap_or(0)
    }
}

/// The commands that measured the memory, and the measured versions.
#[derive(Clone, Default)]
pub(super) struct Origin {
    /// In the order of the measurements. The last command measured the workloads of `Part::Later`.
    pub(super) commands: Vec<String>,
    pub(super) versions: Versions,
}

/// The tables of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Fitted,
    HeldOut,
    /// Measured after the model was final.
    Later,
}

impl Group {
    fn of(tested: &Tested) -> Self {
        match (tested.is_held_out, tested.is_later) {
            (false, _) => Self::Fitted,
            (true, false) => Self::HeldOut,
            (true, true) => Self::Later,
        }
    }

    fn header(self) -> &'static str {
        match self {
            Self::Fitted => "Fitted workload",
            Self::HeldOut => "Held-out workload",
            Self::Later => "Workload, measured after the model was final",
        }
    }
}

/// Computes the coefficients of each library from the workloads of the training.
pub(super) fn calibration(origin: Origin, measured: &[Measurement]) -> Calibration {
    let mut names: Vec<&str> = Vec::new();
    for measurement in measured {
        if !names.contains(&&*measurement.contender) {
            names.push(&measurement.contender);
        }
    }
    let of = |name: &&str| {
        let measured: Vec<_> =
            measured.iter().filter(|measurement| measurement.contender == **name).collect();
        calibrated(name, &measured)
    };
    let libraries = names.iter().map(of).collect();
    let Origin { commands, versions } = origin;
    Calibration { commands, versions, allocator: "malloc of glibc".into(), libraries }
}

fn calibrated(name: &str, measured: &[&Measurement]) -> Calibrated {
    let training = measured.iter().filter(|measured| measured.workload.part == Part::Training);
    let rows: Vec<_> = training.map(|measured| (row(&measured.features), measured.median() as f64)).collect();
    let [base, fitted @ ..] = fit(&rows);
    let names = inputs(&Features::default()).map(|(name, _)| name.to_owned());
    let coefficients = Coefficients { base, inputs: BTreeMap::from_iter(names.into_iter().zip(fitted)) };
    let tested = |measured: &&Measurement| Tested {
        workload: measured.workload.name.to_owned(),
        resource: measured.workload.kind().plural().to_owned(),
        is_held_out: measured.workload.part != Part::Training,
        is_later: measured.workload.part == Part::Later,
        features: measured.features,
        measured: measured.median(),
        rounds: measured.rounds.clone(),
        predicted: (base + coefficients.bytes(&measured.features)) as u64,
    };
    let workloads: Vec<Tested> = measured.iter().map(tested).collect();
    let largest = |is_held_out: bool| {
        let tested = workloads.iter().filter(|tested| tested.is_held_out == is_held_out);
        tested.map(|tested| (ratio(tested) - 1.0).abs()).fold(0.0, f64::max)
    };
    Calibrated {
        name: name.to_owned(),
        training_error: largest(false),
        held_out_error: largest(true),
        coefficients,
        workloads,
    }
}

/// Returns the factors of the coefficients. The base has the first factor.
fn row(features: &Features) -> [f64; INPUTS + 1] {
    let mut row = [1.0; INPUTS + 1];
    for (place, (_, count)) in row[1..].iter_mut().zip(inputs(features)) {
        *place = count;
    }
    row
}

/// Returns the predicted divided by the measured memory.
fn ratio(tested: &Tested) -> f64 {
    tested.predicted as f64 / tested.measured as f64
}

/// Formats the measurements of a group of workloads as a table in Markdown.
pub(super) fn measurements(calibration: &Calibration, group: Group) -> String {
    let kind = group.header();
    let mut text = format!(
        "| Library | {kind} | Objects | Measured, MiB | Predicted, MiB | Predicted / measured |\n|---|---|---:|---:|---:|---:|\n"
    );
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for library in &calibration.libraries {
        for tested in library.workloads.iter().filter(|tested| Group::of(tested) == group) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.1} | {:.1} | {:.3} |",
                library.name,
                tested.workload,
                tested.features.objects,
                mib(tested.measured),
                mib(tested.predicted),
                ratio(tested),
            );
        }
    }
    text
}

/// Formats the largest error of each library as a table in Markdown.
pub(super) fn errors(calibration: &Calibration) -> String {
    let mut text = String::from(
        "| Library | Largest error, fitted | Largest error, held out | Largest error, after the model was final |\n|---|---:|---:|---:|\n",
    );
    for library in &calibration.libraries {
        let [fitted, held_out, later] = [Group::Fitted, Group::HeldOut, Group::Later].map(|group| {
            let tested = library.workloads.iter().filter(|tested| Group::of(tested) == group);
            let largest = tested.map(|tested| (ratio(tested) - 1.0).abs()).reduce(f64::max);
            largest.map_or("not measured".to_owned(), |error| format!("{:.1} %", 100.0 * error))
        });
        let _ = writeln!(text, "| {} | {fitted} | {held_out} | {later} |", library.name);
    }
    text
}

/// Writes the coefficients to a file.
pub(super) fn write(calibration: &Calibration, file: &Path) -> Result<()> {
    let json = serde_json::to_string_pretty(calibration)? + "\n";
    std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))
}

/// Writes the tables into the generated section of a page.
pub(super) fn write_page(calibration: &Calibration, page: &Path) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let text = page::with_generated(&text, "calibrate", &section(calibration))?;
    std::fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))
}

/// Formats the section of the page.
fn section(calibration: &Calibration) -> String {
    let Calibration { versions, allocator, commands, .. } = calibration;
    let is_measured =
        calibration.libraries.iter().flat_map(|library| &library.workloads).any(|tested| tested.is_later);
    let (later, last) = if is_measured {
        (
            measurements(calibration, Group::Later),
            "\nThe last command measured the workloads after the model was final.",
        )
    } else {
        ("The workloads for a test after the model was final are not measured yet.\n".to_owned(), "")
    };
    format!(
        "{}\n{later}\n{}\nThese commands measured the workloads. A command with `--extend` measures the workloads that the file does not contain.{last}\nThe versions are client-go {}, {}, kube-runtime {} and the {allocator}:\n\n```text\n{}\n```\n",
        measurements(calibration, Group::HeldOut),
        errors(calibration),
        versions.client_go,
        versions.go,
        versions.kube_runtime,
        commands.join("\n"),
    )
}

/// Reads the measurements from an earlier output.
///
/// # Errors
///
/// Fails if this program does not have a measured workload.
pub(super) fn read(file: &Path) -> Result<(Origin, Vec<Measurement>)> {
    let json = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let stored: Calibration = serde_json::from_slice(&json)
        .with_context(|| format!("{} is not an output of this command", file.display()))?;
    let mut measured = Vec::new();
    for library in &stored.libraries {
        for tested in &library.workloads {
            let workload = ALL.iter().find(|workload| workload.name == tested.workload);
            let workload = workload.with_context(|| format!("unknown workload {:?}", tested.workload))?;
            measured.push(Measurement {
                contender: library.name.clone(),
                workload: *workload,
                features: tested.features,
                rounds: tested.rounds.clone(),
            });
        }
    }
    let Calibration { commands, versions, .. } = stored;
    Ok((Origin { commands, versions }, measured))
}

/// Returns the versions of the measured programs.
pub(super) async fn versions() -> Result<Versions> {
    let go = tokio::process::Command::new("go").args(["env", "GOVERSION"]).output().await?;
    let after = |text: &str, name: &str| -> Option<String> {
        let (_, rest) = text.split_once(name)?;
        Some(rest.lines().next()?.trim_matches('"').to_owned())
    };
    Ok(Versions {
        kube_informer: env!("CARGO_PKG_VERSION").to_owned(),
        kube_runtime: after(LOCK, "name = \"kube-runtime\"\nversion = ")
            .context("no version of kube-runtime")?,
        client_go: after(GO_MODULE, "k8s.io/client-go ").context("no version of client-go")?,
        go: String::from_utf8(go.stdout)?.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measurements with features that do not depend on each other.
    fn measurements_of(resident: impl Fn(&Features) -> f64) -> Vec<Measurement> {
        let measure = |(at, workload): (usize, &Workload)| {
            let at = at as u64 + 1;
            let features = Features {
                objects: 1000 * at,
                bytes: 7_000_000,
                text_bytes: 3_000_000 * (at % 5 + 1),
                texts: 30_000 * (at % 3 + 1),
                typed_bytes: 1_000_000 * (at * at % 11),
                dynamic_bytes: 2_000_000 * (at * at % 13),
                managed_bytes: 900_000 * (at % 4),
                managed_nodes: 20_000 * (at % 7),
                go_map_bytes: 500_000 * (at % 17),
                ..Features::default()
            };
            let resident = resident(&features) as u64;
            Measurement {
                contender: "one".into(),
                workload: *workload,
                features,
                rounds: vec![resident + 9, resident, 1],
            }
        };
        ALL.iter().enumerate().map(measure).collect()
    }

    #[tokio::test]
    async fn linear_memory_is_predicted_exactly() -> Result<()> {
        let linear =
            |features: &Features| 2e7 + 900.0 * features.objects as f64 + 1.2 * features.text_bytes as f64;
        let origin = Origin { versions: versions().await?, ..Origin::default() };
        let outcome = calibration(origin, &measurements_of(linear));
        let library = &outcome.libraries[0];
        assert!(library.held_out_error < 0.001 && library.training_error < 0.001, "{library:?}");
        assert!((library.coefficients.inputs["textByte"] - 1.2).abs() < 0.01, "{library:?}");
        assert!(outcome.versions.client_go.starts_with("v0."), "{:?}", outcome.versions);
        Ok(())
    }

    /// A change of a held-out measurement changes no coefficient.
    #[test]
    fn held_out_workloads_are_not_fitted() {
        let mut measured = measurements_of(|features| 1e7 + features.text_bytes as f64);
        let fitted = |measured: &[Measurement]| calibration(Origin::default(), measured).libraries.remove(0);
        let before = fitted(&measured);
        for measurement in measured.iter_mut().filter(|one| one.workload.part != Part::Training) {
            measurement.rounds = vec![1_000_000_000];
        }
        let after = fitted(&measured);
        assert_eq!(before.coefficients, after.coefficients);
        assert!(after.held_out_error > before.held_out_error);
    }

    /// The page contains the tables of the stored coefficients.
    #[test]
    fn page_contains_the_measured_errors() -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let file = root.join("crates/cli/src/cost/coefficients.json");
        let (origin, measured) = read(&file)?;
        let page = std::fs::read_to_string(root.join("docs/cost.md"))?;
        let again = calibration(origin, &measured);
        assert_eq!(page::with_generated(&page, "calibrate", &section(&again))?, page);
        // The file contains the output of this program, without later changes.
        assert_eq!(serde_json::to_string_pretty(&again)? + "\n", std::fs::read_to_string(&file)?);
        Ok(())
    }
}
