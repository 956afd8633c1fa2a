//! The events of a chaos test, in order.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;

use tokio::time::Duration;

use crate::chaos::hazard::Hazard;

/// The maximum number of lines in memory.
const MAX_LINES: usize = 8192;

#[derive(Debug, Default)]
pub(super) struct Trace {
    lines: VecDeque<String>,
    pub hazards: BTreeMap<Hazard, usize>,
}

impl Trace {
    pub(super) fn add(&mut self, at: Duration, process: u64, event: impl Display) {
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>10.3}s process {process}: {event}", at.as_secs_f64()));
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}
