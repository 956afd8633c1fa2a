//! The results of the measurement of one event, as tables and as JSON.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::steps::Step;
use super::{EventPathMeasured, EventPathSettings, REPRESENTATIONS};
use crate::figures::median;
use crate::report::machine::Machine;
use crate::report::page::with_generated;
use crate::report::table::{aligned, cell, header, row};
use crate::report::write_json;

/// The layers of an event: title, prefix of the program with this layer, and prefix of the program
/// without this layer. The program `read` is the same for all representations.
const LAYERS: [(&str, Prefix, Option<Prefix>); 5] = [
    ("read from the socket, find lines", Prefix::Read, None),
    ("scan and decode (list-watch)", Prefix::Of("list-watch-"), Some(Prefix::Read)),
    ("reflector", Prefix::Of("reflector-"), Some(Prefix::Of("list-watch-"))),
    ("queue, store and handler (informer)", Prefix::Of(""), Some(Prefix::Of("reflector-"))),
    ("all", Prefix::Of(""), None),
];

#[derive(Clone, Copy)]
enum Prefix {
    /// The program `read`.
    Read,
    /// The program with this prefix and the name of the representation.
    Of(&'static str),
}

/// The steps in memory and their titles.
const fn title(step: Step) -> &'static str {
    match step {
        Step::Line => "find the end of the line",
        Step::Scan => "find type, identity, labels and managedFields",
        Step::Digest => "compute the digest",
        Step::Decode => "decode the object",
        Step::Store => "apply the change to the store",
        Step::Drop => "drop the event with the replaced state",
    }
}

/// The numbers of the measurement.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EventPathNumbers {
    machine: Machine,
    objects: usize,
    settings: EventPathSettings,
    measured: EventPathMeasured,
}

impl EventPathNumbers {
    /// Collects the numbers of a measurement on this machine.
    pub(crate) fn new(objects: usize, settings: EventPathSettings, measured: EventPathMeasured) -> Self {
        Self { machine: Machine::here(), objects, settings, measured }
    }

    /// Returns the cost of the layers and of the steps.
    pub(crate) fn text(&self) -> String {
        let layers =
            LAYERS.map(|(title, with, without)| (title, move |name: &str| self.layer(name, with, without)));
        let steps = Step::ALL.map(|step| (title(step), move |name: &str| self.step(name, step)));
        format!(
            "### Layers, CPU time per event in microseconds\n\n{}\n### Steps in memory, CPU time per event in \
             microseconds\n\n{}",
            table(layers),
            table(steps)
        )
    }

    fn layer(&self, representation: &str, with: Prefix, without: Option<Prefix>) -> Option<f64> {
        let cpu = |prefix| {
            let program = match prefix {
                Prefix::Read => "read".to_owned(),
                Prefix::Of(prefix) => format!("{prefix}{representation}"),
            };
            self.measured.programs.get(&program).and_then(|rounds| median(rounds.clone()))
        };
        Some(cpu(with)? - without.map_or(Some(0.0), cpu)?)
    }

    fn step(&self, representation: &str, step: Step) -> Option<f64> {
        median(self.measured.steps.get(representation)?.get(&step)?.clone())
    }

    /// Writes all numbers as JSON.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(crate) fn write_json(&self, file: &Path) -> Result<()> {
        write_json(self, file)
    }

    /// Replaces the section of this measurement in a page.
    ///
    /// # Errors
    ///
    /// Fails if the page has no such section, or if a file cannot be written.
    pub(crate) fn write_page(&self, page: &Path) -> Result<()> {
        let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        let generated = format!(
            "The figures were measured on {}.\nThe server has {} Pods and sends {} events to each program. The figures are medians of {} rounds.\n\n{}",
            self.machine,
            self.objects,
            self.settings.events,
            self.settings.rounds,
            self.text(),
        );
        Ok(fs::write(page, with_generated(&text, "event-path", &generated)?)?)
    }
}

fn table<const N: usize, F: Fn(&str) -> Option<f64>>(rows: [(&str, F); N]) -> String {
    let mut table = vec![header(REPRESENTATIONS.iter().map(|name| (*name).to_owned()))];
    table.extend(
        rows.map(|(title, value)| row(title, REPRESENTATIONS.iter().map(|name| cell(value(name), 2)))),
    );
    aligned(&table)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn layer_is_difference_of_medians() {
        let programs = [("read", 1.0), ("list-watch-lazy", 3.0), ("reflector-lazy", 3.5), ("lazy", 5.0)];
        let measured = EventPathMeasured {
            programs: programs.map(|(name, cpu)| (name.to_owned(), vec![9.0, cpu, 0.0])).into(),
            steps: [("lazy".to_owned(), [(Step::Scan, vec![0.5])].into())].into(),
        };
        let settings = EventPathSettings { events: 1, rounds: 3, settle: Duration::ZERO };
        let text = EventPathNumbers::new(1, settings, measured).text();
        let lazy = |title: &str| {
            let line = text.lines().find(|line| line.contains(title)).unwrap_or_default();
            line.split('|').nth(3).unwrap_or_default().trim().to_owned()
        };
        assert_eq!(
            ["read", "list-watch", "reflector", "queue", "all"].map(lazy),
            ["1.00", "2.00", "0.50", "1.50", "5.00"]
        );
        assert_eq!([lazy("find type"), lazy("digest")], ["0.50", "-"]);
    }
}
