//! The number of occurrences of each event of a restart.

use std::{collections::BTreeMap, fmt};

/// All events that must occur in many seeds.
const EVENTS: [&str; 20] = [
    "cold start",
    "crash",
    "damaged",
    "discarded file",
    "fault of the first requests",
    "flipped bit",
    "intact",
    "list",
    "missed delete",
    "missed update",
    "missing",
    "other transform",
    "old file",
    "removed file",
    "restore",
    "restore with a higher version",
    "resumed watch",
    "stop",
    "truncated file",
    "zeroed end",
];

/// Counts events of the restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartCounts(BTreeMap<&'static str, u64>);

impl RestartCounts {
    pub(super) fn count(&mut self, event: &'static str) {
        self.add_number(event, 1);
    }

    pub(super) fn add_number(&mut self, event: &'static str, number: u64) {
        *self.0.entry(event).or_default() += number;
    }

    /// Adds the numbers of another seed.
    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(event, number)| self.add_number(event, *number));
    }

    /// Returns the events that did not occur.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        EVENTS.into_iter().filter(|event| !self.0.contains_key(event)).collect()
    }
}

impl fmt::Display for RestartCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(event, number)| writeln!(f, "{number:>9}  {event}"))
    }
}
