//! The table of the stores: a column per store, and the ratios of this project to each other store.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::table::{aligned, cell, header, heading, row};
use super::{aims, machine::Machine, write_json};
use crate::figures::median;
use crate::stores::{MeasuredStore, OURS, StoreRound, StoresOutcome, Writing};

/// A figure of a store.
struct Figure {
    key: &'static str,
    title: &'static str,
    /// The number of decimal places.
    digits: usize,
    value: fn(&StoreRound) -> f64,
}

const fn figure(
    key: &'static str,
    title: &'static str,
    digits: usize,
    value: fn(&StoreRound) -> f64,
) -> Figure {
    Figure { key, title, digits, value }
}

/// The figures. For rates, more is better. For all other figures, less is better.
const FIGURES: [Figure; 14] = [
    figure("writes_per_s", "writes/s", 0, |round| per_s(&round.alone)),
    figure("write_cpu_us", "CPU time of a write, us", 2, |round| cpu_us(&round.alone)),
    figure("get_ns", "get of one Pod, CPU ns", 0, |round| round.get_ns),
    figure("look_ns", "get of one Pod and read of its node, CPU ns", 0, |round| round.look_ns),
    figure("scattered_look_ns", "the same, in another order than the writes, CPU ns", 0, |round| {
        round.scattered_look_ns
    }),
    figure("shared_get_ns", "get beside another getting thread, CPU ns", 0, |round| round.shared_get_ns),
    figure("list_ns", "list of all Pods, CPU ns/Pod", 1, |round| round.list_ns),
    figure("visit_ns", "visit of all Pods and read of their nodes, CPU ns/Pod", 1, |round| round.visit_ns),
    figure("by_index_ns", "query of the Pods of one node, CPU ns", 0, |round| round.by_index_ns),
    figure("read_writes_per_s", "with readers: writes/s", 0, |round| per_s(&round.read)),
    figure("read_write_cpu_us", "with readers: CPU time of a write, us", 2, |round| cpu_us(&round.read)),
    figure("read_group_p99_us", "with readers: CPU time of 64 writes, p99, us", 0, |round| {
        round.read.group_cpu_p99 * 1e6
    }),
    figure("read_waits", "with readers: waits of the writer for a lock, per 1,000 writes", 3, |round| {
        round.read.waits as f64 * 1e3 / round.read.writes as f64
    }),
    figure("read_lists_per_s", "with readers: lists/s of all readers", 0, |round| round.lists_per_s),
];

/// Contains the numbers of the stores.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoreNumbers {
    machine: Machine,
    /// The medians, by figure and store.
    medians: BTreeMap<String, BTreeMap<String, f64>>,
    outcome: StoresOutcome,
}

impl StoreNumbers {
    /// Computes the numbers of stores on this machine.
    pub fn new(outcome: StoresOutcome) -> Self {
        let of = |figure: &Figure| {
            let stores = outcome.measured.iter();
            let medians = stores.filter_map(|of| Some((of.store.clone(), median_of(of, figure)?))).collect();
            (figure.key.to_owned(), medians)
        };
        Self { machine: Machine::here(), medians: FIGURES.iter().map(of).collect(), outcome }
    }

    /// Returns the median of a figure of a store.
    pub(super) fn median(&self, store: &str, figure: &str) -> Option<f64> {
        self.medians.get(figure)?.get(store).copied()
    }

    /// Returns the table in Markdown and the names of the skipped stores. If no store was selected,
    /// returns an empty text.
    pub fn text(&self) -> String {
        let StoresOutcome { load, measured, skipped } = &self.outcome;
        if measured.is_empty() && skipped.is_empty() {
            return String::new();
        }
        let names: Vec<&str> = measured.iter().map(|of| &*of.store).collect();
        let others = names.iter().filter(|name| !name.starts_with(OURS) && names.contains(&OURS));
        let ratios = others.clone().map(|name| format!("{OURS} / {name}"));
        let mut rows = vec![header(names.iter().map(|&name| name.to_owned()).chain(ratios))];
        for Figure { key, title, digits, .. } in FIGURES {
            let value = |name: &str| self.median(name, key);
            let ratio = |name: &str| Some(value(OURS)? / value(name)?).filter(|ratio| ratio.is_finite());
            let values = names.iter().map(|name| cell(value(name), digits));
            rows.push(row(title, values.chain(others.clone().map(|name| cell(ratio(name), 3)))));
        }
        let title = format!(
            "Stores of {} Pods, without readers and with {} listing readers",
            load.objects, load.readers
        );
        let mut text = format!("{}\n\n{}\n", heading(&title), aligned(&rows));
        for skipped in skipped {
            text.push_str(&format!("Not compared: the store of {}: {}.\n", skipped.contender, skipped.why));
        }
        text
    }

    /// Returns the aims for the stores as a table.
    pub fn aims(&self) -> String {
        aims::table(&[], self)
    }

    /// Writes all numbers as JSON.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn write_json(&self, file: &Path) -> Result<()> {
        write_json(self, file)
    }
}

#[cfg(test)]
pub(super) fn is_figure(key: &str) -> bool {
    FIGURES.iter().any(|figure| figure.key == key)
}

fn per_s(writing: &Writing) -> f64 {
    writing.writes as f64 / writing.wall
}

fn cpu_us(writing: &Writing) -> f64 {
    writing.cpu * 1e6 / writing.writes as f64
}

fn median_of(measured: &MeasuredStore, figure: &Figure) -> Option<f64> {
    median(measured.rounds.iter().map(figure.value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::Skipped;
    use crate::stores::Load;

    fn measured(store: &str, list_ns: f64) -> MeasuredStore {
        let writing = Writing { writes: 128, wall: 1.0, cpu: 1.0, group_cpu_p99: 0.5, waits: 64 };
        let round = StoreRound {
            objects: 1,
            alone: writing,
            get_ns: 1.0,
            look_ns: 1.0,
            scattered_look_ns: 1.0,
            shared_get_ns: 1.0,
            list_ns,
            visit_ns: 1.0,
            by_index_ns: 1.0,
            read: writing,
            lists_per_s: 1.0,
        };
        MeasuredStore { store: store.into(), rounds: vec![round] }
    }

    fn numbers(measured: Vec<MeasuredStore>, skipped: Vec<Skipped>) -> StoreNumbers {
        StoreNumbers::new(StoresOutcome { load: Load::default(), measured, skipped })
    }

    #[test]
    fn ratios_compare_this_project_with_others() {
        let text = numbers(vec![measured(OURS, 2.0), measured("other", 8.0)], Vec::new()).text();
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| list ")).collect();
        assert_eq!(rows.len(), 1, "{text}");
        let cells: Vec<&str> = rows[0].split('|').map(str::trim).collect();
        assert_eq!(cells, ["", "list of all Pods, CPU ns/Pod", "2.0", "8.0", "0.250", ""]);
        assert!(text.contains(" 500.000 |"), "{text}");
    }

    #[test]
    fn text_lists_skipped_stores_and_may_be_empty() {
        let skipped = Skipped { contender: "other".into(), why: "it is missing".into() };
        let text = numbers(Vec::new(), vec![skipped]).text();
        assert!(text.ends_with("Not compared: the store of other: it is missing.\n"), "{text}");
        assert_eq!(numbers(Vec::new(), Vec::new()).text(), "");
    }
}
