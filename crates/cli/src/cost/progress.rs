//! The progress of long work on standard error, if it is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::bytes;

const TICK: Duration = Duration::from_millis(120);

/// Displays the current resource, its objects and bytes, and the rate.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Creates a progress bar on standard error. It is hidden if standard error is not a terminal.
    pub(super) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {prefix}: {pos} objects, {msg} ({per_sec})");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self(bar)
    }

    /// Creates a hidden progress bar.
    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Starts a new part of the work.
    pub(super) fn start(&self, name: &str) {
        self.0.reset();
        self.0.set_prefix(name.to_owned());
        self.0.set_message(String::new());
    }

    /// Displays the objects and bytes until now.
    pub(super) fn listed(&self, objects: u64, json_bytes: u64) {
        self.0.set_position(objects);
        self.0.set_message(bytes(json_bytes));
    }

    /// Displays the number of remaining objects.
    pub(super) fn remaining(&self, objects: u64, remaining: Option<u64>) {
        if let Some(remaining) = remaining {
            self.0.set_message(of_about(objects, remaining));
        }
    }
}

fn of_about(objects: u64, remaining: u64) -> String {
    format!("{objects} of about {}", objects.saturating_add(remaining))
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_count_of_server_does_not_overflow() {
        assert_eq!(of_about(3, u64::MAX), format!("3 of about {}", u64::MAX));
    }
}
