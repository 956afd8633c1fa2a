//! The results of the comparison, as tables and as JSON.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::figures::{Figure, RECONCILE, median_of, of_part, ratio};
use super::{HANDLERS, MeasuredOverhead, OverheadOutcome, OverheadPart};
use crate::report::machine::{Machine, required};
use crate::report::page::with_generated;
use crate::report::table::{aligned, cell, header, row};
use crate::report::write_json;

/// The maximum ratio of a reconcile of kube-operator to a reconcile of the better peer.
const RECONCILE_BAR: f64 = 0.5;
/// The folder of the numbers, next to the page.
const FOLDER: &str = "performance";

/// The numbers of a comparison.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OverheadNumbers {
    machine: Machine,
    controller_runtime: String,
    outcome: OverheadOutcome,
}

impl OverheadNumbers {
    /// Computes the numbers of a comparison on this machine.
    pub(crate) fn new(outcome: OverheadOutcome) -> Self {
        let module = include_str!("../../go-overhead/go.mod");
        let controller_runtime = required(module, "sigs.k8s.io/controller-runtime").to_owned();
        Self { machine: Machine::here(), controller_runtime, outcome }
    }

    /// Returns the tables, the bar, and the skipped programs.
    pub(crate) fn text(&self) -> String {
        let OverheadOutcome { settings, measured, skipped } = &self.outcome;
        let mut text = String::new();
        for &part in &settings.parts {
            let programs: Vec<&MeasuredOverhead> = measured
                .iter()
                .filter(|of| figures(part).any(|figure| median_of(of, figure.key).is_some()))
                .collect();
            if programs.is_empty() {
                continue;
            }
            let titles = programs.iter().map(|of| of.program.clone());
            let mut rows = vec![header(titles.chain(["kube-operator / better peer".to_owned()]))];
            rows.extend(figures(part).map(|figure| {
                let values = programs.iter().map(|of| cell(median_of(of, figure.key), figure.digits));
                row(figure.title, values.chain([cell(ratio(measured, figure.key), 2)]))
            }));
            text.push_str(&format!("### {}\n\n{}\n", self.title(part), aligned(&rows)));
        }
        if let Some(ratio) = ratio(measured, RECONCILE) {
            let reached = if ratio <= RECONCILE_BAR { "reached" } else { "missed" };
            text.push_str(&format!(
                "The bar for a reconcile without user code is at most {RECONCILE_BAR} times the CPU time of the better peer. \
                 The measured ratio is {ratio:.2}: the bar is {reached}.\n"
            ));
        }
        for skipped in skipped {
            text.push_str(&format!("Not compared: {}: {}.\n", skipped.contender, skipped.why));
        }
        text
    }

    fn title(&self, part: OverheadPart) -> String {
        let load = &self.outcome.settings.load;
        match part {
            OverheadPart::Reconcile => format!("Reconciles of {} keys", load.objects),
            OverheadPart::Memory => {
                format!("Memory of indexes of {} objects, and of {HANDLERS} handlers", load.objects)
            }
            OverheadPart::Sync => format!("Sync of 20 kinds, 10 of them with {} objects", load.per_kind),
            OverheadPart::Start => {
                "Start of a manager with these 20 caches, until its first reconcile".into()
            }
            OverheadPart::Namespaces => format!("Caches of {} namespaces", load.namespaces),
        }
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
    /// the performance pages.
    ///
    /// # Errors
    ///
    /// Fails if the page has no such section, or if a file cannot be written.
    pub(crate) fn write_page(&self, page: &Path) -> Result<()> {
        let folder = page.with_file_name(FOLDER);
        fs::create_dir_all(&folder)?;
        self.write_json(&folder.join("overhead.json"))?;
        let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let all = format!("All numbers: [{FOLDER}/overhead.json]({FOLDER}/overhead.json).");
        let generated = format!("{}{}\n{all}\n", self.summary(), self.text());
        Ok(fs::write(page, with_generated(&text, "overhead", &generated)?)?)
    }

    fn summary(&self) -> String {
        let Self { machine, controller_runtime, outcome } = self;
        format!(
            "The figures were measured on {machine}. The figures are medians of {} rounds. The libraries are kube-runtime \
             {} and controller-runtime {controller_runtime}.\n\n",
            outcome.settings.rounds, machine.kube_runtime,
        )
    }
}

fn figures(part: OverheadPart) -> std::slice::Iter<'static, Figure> {
    of_part(part).iter()
}
