//! `Lanes`: the ready keys in the order in which workers take them.

use std::collections::BTreeMap;

use crate::priority::Priority;

/// A position in the ready list. Positions are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The time of the add minus the priority, in nanoseconds since the queue was created.
    pub(crate) rank: i64,
    /// Orders keys with the same rank by their arrival.
    pub(crate) sequence: u64,
}

/// After this number of normal keys, a background key is taken.
const NORMAL_PER_BACKGROUND: u32 = 7;

/// The ready keys of both lanes. Each lane is sorted by position.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) normal: BTreeMap<Position, usize>,
    pub(crate) background: BTreeMap<Position, usize>,
    /// The number of normal keys that were taken since the last background key, while the background
    /// lane contained keys.
    normal_taken: u32,
}

impl Lanes {
    pub(crate) fn lane(&mut self, priority: Priority) -> &mut BTreeMap<Position, usize> {
        if priority.is_background() { &mut self.background } else { &mut self.normal }
    }

    pub(crate) fn len(&self) -> usize {
        self.normal.len() + self.background.len()
    }

    /// Takes the next key: after [`NORMAL_PER_BACKGROUND`] normal keys, a background key.
    pub(crate) fn pop_first(&mut self) -> Option<(Position, usize)> {
        let is_background_due = self.normal.is_empty() || self.normal_taken >= NORMAL_PER_BACKGROUND;
        if is_background_due && let Some(first) = self.background.pop_first() {
            self.normal_taken = 0;
            return Some(first);
        }
        self.normal_taken = if self.background.is_empty() { 0 } else { self.normal_taken + 1 };
        self.normal.pop_first()
    }
}
