//! The results of the scale measurement, as tables and as JSON.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::figures::{ALL, Figure, Figures, figures};
use super::{RECORDED, ScaleMeasured, ScaleSettings};
use crate::report::machine::Machine;
use crate::report::page::with_generated;
use crate::report::table::{aligned, cell, header, row};
use crate::report::write_json;

/// The numbers of a scale measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ScaleNumbers {
    machine: Machine,
    settings: ScaleSettings,
    /// The figures, in the order of the cases.
    figures: Vec<Figures>,
    measured: Vec<ScaleMeasured>,
}

impl ScaleNumbers {
    /// Computes the numbers of a measurement on this machine.
    pub(crate) fn new(settings: ScaleSettings, measured: Vec<ScaleMeasured>) -> Self {
        let figures = measured.iter().map(|of| figures(of, settings.events)).collect();
        Self { machine: Machine::here(), settings, figures, measured }
    }

    /// Returns the costs, and their ratios to the case with the fewest objects of the same
    /// representation.
    pub(crate) fn text(&self) -> String {
        let (all, staying): (Vec<_>, Vec<_>) =
            (ALL.iter().collect(), ALL.iter().filter(|of| of.is_constant).collect());
        let costs =
            self.table(&all, |at, figure| cell(self.figures[at].get(figure.key).copied(), figure.digits));
        let ratios = self.table(&staying, |at, figure| {
            let fewest = &self.figures[self.fewest(at)];
            let ratio = || Some(self.figures[at].get(figure.key)? / fewest.get(figure.key)?);
            cell(ratio(), 2)
        });
        format!(
            "### Costs\n\n{costs}\n### Costs relative to the smallest number of objects\n\nFor each representation, each figure \
             is divided by the figure for the smallest number of objects. A ratio near 1 means that the cost per \
             object does not depend on the number of objects.\n\n{ratios}"
        )
    }

    fn table(&self, columns: &[&Figure], cell: impl Fn(usize, &Figure) -> String) -> String {
        let mut rows = vec![header(columns.iter().map(|figure| figure.title.to_owned()))];
        for (at, of) in self.measured.iter().enumerate() {
            let name = format!("{}, {} objects", of.case.representation, grouped(of.case.objects));
            rows.push(row(&name, columns.iter().map(|figure| cell(at, figure))));
        }
        aligned(&rows)
    }

    /// Returns the case with the fewest objects of the same representation.
    fn fewest(&self, at: usize) -> usize {
        let case = |at: usize| &self.measured[at].case;
        let same =
            (0..self.measured.len()).filter(|&other| case(other).representation == case(at).representation);
        same.min_by_key(|&other| case(other).objects).unwrap_or(at)
    }

    /// Writes all numbers as JSON.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(crate) fn write_json(&self, file: &Path) -> Result<()> {
        write_json(self, file)
    }

    /// Replaces the section of this measurement in a page, and writes the numbers to the folder of
    /// the same name.
    ///
    /// # Errors
    ///
    /// Fails if the page has no such section, or if a file cannot be written.
    pub(crate) fn write_page(&self, page: &Path) -> Result<()> {
        let folder = page.with_extension("");
        fs::create_dir_all(&folder)?;
        self.write_json(&folder.join("scale.json"))?;
        let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let generated = format!(
            "The figures were measured on {}. The server generates the Pods from {RECORDED} recorded Pods, and sends {} events. The figures are from the round with the median CPU time of {} rounds.\n\n{}\n[{name}/scale.json]({name}/scale.json) contains all numbers.\n",
            self.machine,
            grouped(usize::try_from(self.settings.events)?),
            self.settings.rounds,
            self.text(),
        );
        Ok(fs::write(page, with_generated(&text, "scale", &generated)?)?)
    }
}

/// Formats a number with a comma after every three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}
