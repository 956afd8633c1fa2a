//! The tables of the measurements with a real kube-apiserver.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::ServerSettings;
use crate::figures::median;
use crate::report::machine::Machine;
use crate::report::table::{aligned, cell, header, row};
use crate::report::{page, write_json};

/// The values of several rounds, by row and column.
pub(super) struct Rows {
    columns: &'static [(&'static str, usize)],
    rows: Vec<(String, Vec<Vec<f64>>)>,
}

/// A table of medians.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Table {
    title: String,
    /// The titles and the numbers of decimal places.
    columns: Vec<(String, usize)>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    name: String,
    medians: Vec<Option<f64>>,
    /// The values of each column, in the order of the rounds.
    rounds: Vec<Vec<f64>>,
}

impl Rows {
    /// Creates an empty table with these titles and numbers of decimal places.
    pub(super) fn new(columns: &'static [(&'static str, usize)]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds the values of a round.
    pub(super) fn add(&mut self, name: &str, values: &[f64]) {
        let at = self.rows.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.rows.push((name.to_owned(), vec![Vec::new(); self.columns.len()]));
            self.rows.len() - 1
        });
        for (column, value) in self.rows[at].1.iter_mut().zip(values) {
            column.push(*value);
        }
    }

    /// Returns the table of medians.
    pub(super) fn table(self, title: &str) -> Table {
        let rows = self.rows.into_iter().map(|(name, rounds)| Row {
            name,
            medians: rounds.iter().map(|values| median(values.clone())).collect(),
            rounds,
        });
        let columns = self.columns.iter().map(|(title, digits)| ((*title).to_owned(), *digits)).collect();
        Table { title: title.to_owned(), columns, rows: rows.collect() }
    }
}

impl Table {
    fn text(&self) -> String {
        let mut rows = vec![header(self.columns.iter().map(|(title, _)| title.clone()))];
        for Row { name, medians, .. } in &self.rows {
            let cells = medians.iter().zip(&self.columns).map(|(value, (_, digits))| cell(*value, *digits));
            rows.push(row(name, cells));
        }
        format!("#### {}\n\n{}\n", self.title, aligned(&rows))
    }
}

/// The results of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ServerNumbers {
    machine: Machine,
    server: String,
    settings: ServerSettings,
    tables: Vec<Table>,
}

impl ServerNumbers {
    pub(super) fn new(settings: ServerSettings, server: String, tables: Vec<Table>) -> Self {
        Self { machine: Machine::here(), server, settings, tables }
    }

    /// Returns the tables in Markdown.
    pub(super) fn text(&self) -> String {
        self.tables.iter().map(Table::text).collect()
    }

    /// Replaces the generated section of a page. Writes the numbers into the folder with the name of the
    /// page.
    pub(super) fn write_page(&self, page: &Path, command: &str) -> Result<()> {
        let folder = page.with_extension("");
        fs::create_dir_all(&folder)?;
        write_json(self, &folder.join(format!("{command}.json")))?;
        let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let Self { machine, server, settings, .. } = self;
        let mut generated = format!(
            "The figures were measured on {machine}. The server is kube-apiserver {server} with {} Pods. The figures are \
             medians of {} rounds. The libraries are kube-runtime {} and client-go {}.\n\n",
            settings.objects, settings.rounds, machine.kube_runtime, machine.client_go,
        );
        generated.push_str(&self.text());
        // Writing to a String cannot fail.
        let _ = writeln!(generated, "All numbers: [{name}/{command}.json]({name}/{command}.json).");
        Ok(fs::write(page, page::with_generated(&text, command, &generated)?)?)
    }
}
