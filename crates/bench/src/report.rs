//! The results as tables and charts, and the page with both.

mod aims;
mod chart;
pub(crate) mod machine;
pub(crate) mod page;
mod stores;
pub(crate) mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::compare::Outcome;
use crate::figures::{Medians, medians};
use machine::Machine;

pub use stores::StoreNumbers;

/// Contains the numbers of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Numbers {
    machine: Machine,
    medians: Vec<Medians>,
    outcome: Outcome,
    stores: StoreNumbers,
}

impl Numbers {
    /// Computes the numbers of a comparison on this machine.
    pub fn new(outcome: Outcome, stores: StoreNumbers) -> Self {
        Self { machine: Machine::here(), medians: medians(&outcome), outcome, stores }
    }

    /// Returns the tables in Markdown, and the names of the skipped contenders.
    pub fn text(&self) -> String {
        let mut text = table::figures(&self.medians);
        text.push_str(&table::ratios(&self.medians));
        for skipped in &self.outcome.skipped {
            text.push_str(&format!("Not compared: {}: {}.\n", skipped.contender, skipped.why));
        }
        text.push('\n');
        text.push_str(&self.stores.text());
        text.push('\n');
        text.push_str(&aims::table(&self.medians, &self.stores));
        text
    }

    /// Writes all numbers as JSON.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn write_json(&self, file: &Path) -> Result<()> {
        write_json(self, file)
    }

    /// Replaces the generated section of a page. Writes charts and numbers into the folder with the name
    /// of the page.
    ///
    /// # Errors
    ///
    /// Fails if the page has no such section, or if a file cannot be written.
    pub fn write_page(&self, page: &Path) -> Result<()> {
        let folder = page.with_extension("");
        fs::create_dir_all(&folder)?;
        let charts = chart::all(&self.medians);
        for chart in &charts {
            fs::write(folder.join(chart.file), &chart.svg)?;
        }
        self.write_json(&folder.join("numbers.json"))?;
        let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let generated = page::generated(self, &charts, &name);
        Ok(fs::write(page, page::with_generated(&text, "compare", &generated)?)?)
    }
}

/// Writes numbers to a file, as JSON.
pub(crate) fn write_json(numbers: &impl Serialize, file: &Path) -> Result<()> {
    let json = format!("{}\n", serde_json::to_string_pretty(numbers)?);
    fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))
}
