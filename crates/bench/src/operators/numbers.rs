//! The results of the comparison of operators, as tables and as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::OperatorsOutcome;
use super::figures::{Better, Figure, GROUPS, OperatorMedians, Ratio, all, medians};
use crate::report::machine::{Machine, required};
use crate::report::page::with_generated;
use crate::report::table::{aligned, cell, header, row};
use crate::report::write_json;

/// The numbers of a comparison of operators.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OperatorNumbers {
    machine: Machine,
    controller_runtime: String,
    medians: Vec<OperatorMedians>,
    outcome: OperatorsOutcome,
}

impl OperatorNumbers {
    /// Computes the numbers of a comparison on this machine.
    pub(crate) fn new(outcome: OperatorsOutcome) -> Self {
        let module = include_str!("../../go-operator/go.mod");
        Self {
            machine: Machine::here(),
            controller_runtime: required(module, "sigs.k8s.io/controller-runtime").to_owned(),
            medians: medians(&outcome),
            outcome,
        }
    }

    /// Returns the tables, the ratios to the better peer, and the skipped operators.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for group in &GROUPS {
            let mut rows = vec![header(group.figures.iter().map(|figure| figure.title.to_owned()))];
            rows.extend(self.medians.iter().map(|of| {
                let value = |figure: &Figure| cell(of.figures.get(figure.key).copied(), figure.digits);
                row(&of.operator, group.figures.iter().map(value))
            }));
            // Writing to a String cannot fail.
            let _ = write!(text, "{}\n\n{}\n", heading(group.title), aligned(&rows));
        }
        text.push_str(&ratios(&self.medians));
        for skipped in &self.outcome.skipped {
            let _ = writeln!(text, "Not compared: {}: {}.", skipped.contender, skipped.why);
        }
        text
    }

    /// Writes all numbers as JSON.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(crate) fn write_json(&self, file: &Path) -> Result<()> {
        write_json(self, file)
    }

    /// Replaces the section of this comparison in a page, and writes the numbers to the folder of
    /// the same name.
    ///
    /// # Errors
    ///
    /// Fails if the page has no such section, or if a file cannot be written.
    pub(crate) fn write_page(&self, page: &Path) -> Result<()> {
        let folder = page.with_extension("");
        fs::create_dir_all(&folder)?;
        let command = self.outcome.settings.command();
        let numbers = format!("{}.json", command.replace(" --", "-"));
        self.write_json(&folder.join(&numbers))?;
        let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let generated = format!(
            "{}{}\nAll numbers: [{name}/{numbers}]({name}/{numbers}).\n",
            self.summary(),
            self.text(),
        );
        Ok(fs::write(page, with_generated(&text, command, &generated)?)?)
    }

    fn summary(&self) -> String {
        let Self { machine, controller_runtime, outcome, .. } = self;
        let settings = &outcome.settings;
        format!(
            "The figures were measured on {machine}. The workload has {} Websites, {} changes at {} changes per second, and \
             {} s without changes. The figures are medians. The number of rounds is {}. The libraries are \
             kube-runtime {} and controller-runtime {controller_runtime}.\n\n",
            settings.objects,
            settings.changes,
            settings.rate,
            settings.idle.as_secs(),
            settings.rounds,
            machine.kube_runtime,
        )
    }
}

/// Returns a heading below the heading of the server.
fn heading(title: &str) -> String {
    format!("#### {title}")
}

/// Returns the table of ratios to the better peer, which may differ between columns.
fn ratios(medians: &[OperatorMedians]) -> String {
    let figures: Vec<(&Figure, Ratio)> = all().filter_map(|figure| Some((figure, figure.ratio?))).collect();
    if !medians.iter().any(|of| of.is_peer) {
        return String::new();
    }
    let best = |figure: &Figure, better| {
        let peers = medians.iter().filter(|of| of.is_peer);
        let values = peers.filter_map(|of| of.figures.get(figure.key).copied());
        match better {
            Better::Less => values.min_by(f64::total_cmp),
            Better::More => values.max_by(f64::total_cmp),
        }
    };
    let mut rows = vec![header(figures.iter().map(|(_, ratio)| ratio.title.to_owned()))];
    rows.extend(medians.iter().map(|of| {
        let ratio = |(figure, Ratio { better, .. }): &(&Figure, Ratio)| {
            let ratio = of.figures.get(figure.key)? / best(figure, *better)?;
            // The value of the better peer may be too small to measure.
            ratio.is_finite().then_some(ratio)
        };
        row(&of.operator, figures.iter().map(|figure| cell(ratio(figure), 2)))
    }));
    let explained = "Each figure is divided by the best figure of kube-runtime and controller-runtime. Less is better, \
                     except for Websites/s. A dash means that the best figure is 0.";
    format!(
        "{}\n\n{explained}\n\n{}\n",
        heading("Ratios to the best figure of the other libraries"),
        aligned(&rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medians(operator: &str, is_peer: bool, cpu: f64, rate: f64) -> OperatorMedians {
        let figures = [("cold_cpu_us".to_owned(), cpu), ("cold_per_s".to_owned(), rate)].into();
        OperatorMedians { operator: operator.to_owned(), is_peer, figures }
    }

    #[test]
    fn ratios_compare_with_better_peer() {
        assert_eq!(ratios(&[medians("a", false, 1.0, 1.0)]), "");
        let text = ratios(&[
            medians("a", false, 1.0, 8.0),
            medians("b", true, 4.0, 16.0),
            medians("c", true, 2.0, 4.0),
        ]);
        for (name, [cpu, rate]) in [("a", ["0.50", "0.50"]), ("b", ["2.00", "1.00"]), ("c", ["1.00", "0.25"])]
        {
            let line = text.lines().find(|line| line.starts_with(&format!("| {name} "))).unwrap();
            let cells: Vec<&str> = line.split('|').map(str::trim).skip(2).take(2).collect();
            assert_eq!(cells, [cpu, rate], "{text}");
        }
    }
}
