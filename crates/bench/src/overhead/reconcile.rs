//! The measurement of a reconcile without user code: the part that both libraries in Rust share.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::objects::{OBJECTS_PER_GROUP, group, name, namespace, shuffled};
use super::usage::CpuTimer;

/// Contains the figures of a program by their keys.
pub type Figures = BTreeMap<String, f64>;

/// The maximum number of measured reads.
const MAX_READS: usize = 1_000_000;
/// A scan of all objects is too slow for more queries.
const MAX_SCANNED: usize = 20_000_000;

/// The names of the objects in the order of the reads.
pub(super) struct Lookups(Vec<(String, String)>);

impl Lookups {
    pub(super) fn new(objects: usize) -> Self {
        let order = shuffled(objects).into_iter().take(MAX_READS);
        Self(order.map(|number| (namespace(number), name(number))).collect())
    }

    /// Returns each namespace with a name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(namespace, name)| (&**namespace, &**name))
    }

    /// Returns the nanoseconds of a read. `found` is the number of reads that returned an object.
    pub(super) fn ns(&self, timer: &CpuTimer, found: usize) -> Result<f64> {
        ensure!(found == self.0.len(), "{found} of {} reads returned an object", self.0.len());
        timer.ns_per(self.0.len())
    }
}

/// Measures the queries of an index value. `query` returns the number of found objects. `scans` is
/// true if a query reads all objects.
pub(super) fn query_ns(objects: usize, scans: bool, query: impl Fn(&str) -> usize) -> Result<f64> {
    let queries = if scans { (MAX_SCANNED / objects).clamp(1, 100) } else { objects.min(100_000) };
    let numbers = shuffled(objects).into_iter().cycle().take(queries);
    let groups: Vec<String> = numbers.map(group).collect();
    let timer = CpuTimer::start()?;
    let found: usize = groups.iter().map(|group| query(group)).sum();
    let ns = timer.ns_per(groups.len())?;
    let complete = objects - objects % OBJECTS_PER_GROUP;
    // The last group may be smaller.
    ensure!(
        found <= groups.len() * OBJECTS_PER_GROUP && (found > 0 || complete == 0),
        "{} queries found {found} objects",
        groups.len()
    );
    Ok(ns)
}
