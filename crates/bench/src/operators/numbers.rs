//! The results of the comparison of operators, as tables and as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::figures::of_operator;
use super::{MeasuredOperator, Operator, OperatorsOutcome};
use crate::report::machine::{Machine, required};
use crate::report::page::with_generated;
use crate::report::table::{aligned, cell, header, row};
use crate::report::write_json;

/// The numbers of a comparison of operators.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OperatorNumbers {
    machine: Machine,
    controller_runtime: String,
    outcome: OperatorsOutcome,
}

impl OperatorNumbers {
    /// Computes the numbers of a comparison on this machine.
    pub(crate) fn new(outcome: OperatorsOutcome) -> Self {
        let module = include_str!("../../../../examples/operators/go.mod");
        let controller_runtime = required(module, "sigs.k8s.io/controller-runtime").to_owned();
        Self { machine: Machine::here(), controller_runtime, outcome }
    }

    /// Returns a table for each operator, and the skipped programs.
    pub(crate) fn text(&self) -> String {
        let OperatorsOutcome { settings, measured, skipped } = &self.outcome;
        let mut text = String::new();
        for operator in Operator::ALL {
            let measured: Vec<&MeasuredOperator> =
                measured.iter().filter(|of| of.operator == operator).collect();
            if measured.is_empty() {
                continue;
            }
            let titles = measured.iter().map(|of| of.library.clone());
            let mut rows = vec![header(titles.chain(["kube-operator / better peer".to_owned()]))];
            for figure in of_operator(operator) {
                let medians: Vec<Option<f64>> =
                    measured.iter().map(|of| figure.median(of, settings)).collect();
                // kube-apiserver does not count requests.
                if medians.iter().any(Option::is_some) {
                    let values = medians.into_iter().map(|median| cell(median, figure.digits));
                    let ratio = cell(figure.ratio(&measured, settings), 2);
                    rows.push(row(figure.title, values.chain([ratio])));
                }
            }
            // Writing to a String cannot fail.
            let _ = writeln!(text, "#### Operator of {}s\n\n{}", operator.kind(), aligned(&rows));
        }
        for skipped in skipped {
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
        let Self { machine, controller_runtime, outcome } = self;
        let settings = &outcome.settings;
        format!(
            "The figures were measured on {machine}.\nThe workload has {} objects, and {} changes at {} changes per second.\n\
             The Bucket operator polls every {} s, and the idle part takes as long. The figures are medians of {} rounds.\n\
             The libraries are kube-runtime {} and controller-runtime {controller_runtime}.\n\n",
            settings.objects,
            settings.changes,
            settings.rate,
            settings.poll.as_secs(),
            settings.rounds,
            machine.kube_runtime,
        )
    }
}
