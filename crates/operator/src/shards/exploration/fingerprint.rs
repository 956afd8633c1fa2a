//! The fingerprint of a state. States that differ only in the absolute time and in the distances of versions
//! have the same fingerprint.

use std::{
    fmt::{self, Write},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::world::{FIRST_VERSION, STEP, World};

/// Times that are longer ago have no further effect: this is longer than all durations of a member.
const OLDEST: u64 = 5 * STEP.as_secs();

impl World {
    /// Returns a hash of the state. The debug text is its input, because this text contains all fields.
    pub(super) fn fingerprint(&self) -> u64 {
        let Self { server, processes, late, budget, last, writes, is_table_replaced, now, .. } = self;
        let server = (server.state(0), server.version());
        let mut text = Canonical::default();
        let state = (now, server, processes, late, budget, last, writes, is_table_replaced);
        // Writing to a `Canonical` does not fail.
        let _ = write!(text, "{state:?}");
        text.hash()
    }
}

/// A debug text in which numbers are separate.
#[derive(Default)]
struct Canonical {
    /// The text without times and versions.
    text: String,
    /// The times in seconds. The first time is the current time.
    times: Vec<u64>,
    versions: Vec<u64>,
    /// The name of the last field.
    is_time: bool,
    is_fraction: bool,
}

impl Write for Canonical {
    /// Handles a part of the debug text. A number is a part, or the last characters of a part.
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let name = part.trim_end_matches(|char: char| char.is_ascii_digit());
        self.text.push_str(name);
        let Ok(number) = part[name.len()..].parse() else {
            (self.is_time, self.is_fraction) = match part {
                ": " => (self.is_time, self.is_fraction),
                _ => (part == "tv_sec", part == "tv_nsec"),
            };
            return Ok(());
        };
        if self.is_time {
            self.text.push('t');
            self.times.push(number);
        } else if number >= FIRST_VERSION && !self.is_fraction {
            self.text.push('v');
            self.versions.push(number);
        } else {
            self.text.push_str(&part[name.len()..]);
        }
        (self.is_time, self.is_fraction) = (false, false);
        Ok(())
    }
}

impl Canonical {
    /// Replaces each time by its distance from now, and each version by its position in the sorted versions.
    fn hash(self) -> u64 {
        let mut order = self.versions.clone();
        order.sort_unstable();
        order.dedup();
        let positions = self.versions.iter().map(|version| order.binary_search(version));
        let oldest = self.times.first().map_or(0, |now| now.saturating_sub(OLDEST));
        let times = self.times.iter().map(|time| time.saturating_sub(oldest));
        let mut hasher = DefaultHasher::new();
        let parts = (self.text, positions.collect::<Vec<_>>(), times.collect::<Vec<_>>());
        parts.hash(&mut hasher);
        hasher.finish()
    }
}
