//! `Output`: the lines of events, or the live table.

use kube_informer::ObjectKey;

use super::{
    live::{Live, Wake},
    printer::Printer,
    record::EventRecord,
};
use crate::{
    error::CliError,
    feed::{Notice, Target},
};

/// The size of the pending lines from which they are written although more events are ready.
const MAX_PENDING_BYTES: usize = 64 << 10;

/// Displays events and the states of watches.
#[derive(Debug)]
pub(super) struct Output {
    printer: Printer,
    /// The table of `--live`, until [`Output::leave`].
    live: Option<Box<Live>>,
}

impl Output {
    /// Creates an output that prints lines.
    pub(super) fn new(printer: Printer) -> Self {
        Self { printer, live: None }
    }

    /// Displays the live table instead of lines, until [`leave`](Self::leave).
    ///
    /// # Errors
    ///
    /// Fails if standard output is not a terminal.
    pub(super) fn enter(&mut self, cluster: &str, targets: &[Target]) -> Result<(), CliError> {
        self.live = Some(Box::new(Live::start(self.printer.terminal(), cluster, targets)?));
        Ok(())
    }

    /// Restores the terminal, stops the process until SIGCONT, and displays the live table again.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written.
    pub(super) fn suspend(&mut self) -> Result<(), CliError> {
        self.live.as_mut().map_or(Ok(()), |live| live.suspend())
    }

    /// Adds an object of the first list to the live table.
    pub(super) fn insert(&mut self, target: usize, key: &ObjectKey) {
        if let Some(live) = &mut self.live {
            live.insert(target, key);
        }
    }

    /// Removes an object from the live table that disappeared before the first list was complete.
    pub(super) fn remove(&mut self, target: usize, key: &ObjectKey) {
        if let Some(live) = &mut self.live {
            live.remove(target, key);
        }
    }

    /// Adds an event.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be serialized.
    pub(super) fn push(&mut self, target: usize, record: &EventRecord) -> Result<(), CliError> {
        match &mut self.live {
            Some(live) => live.push(target, record),
            None => self.printer.push(record)?,
        }
        Ok(())
    }

    /// Displays that the first list of a target is complete.
    pub(super) fn listed(&mut self, target: usize) {
        if let Some(live) = &mut self.live {
            live.listed(target);
        }
    }

    /// Displays an incident of a watch. `text` describes it.
    pub(super) fn observe(&mut self, target: usize, notice: &Notice, text: &str) {
        if let Some(live) = &mut self.live {
            live.observe(target, notice);
        }
        self.note(text);
    }

    /// Displays a line of less importance.
    pub(super) fn note(&mut self, text: &str) {
        match &mut self.live {
            Some(live) => live.note(text),
            None => self.printer.note(text),
        }
    }

    /// Writes the pending lines if there are many.
    ///
    /// # Errors
    ///
    /// Fails if standard output cannot be written.
    pub(super) fn flush_many(&mut self) -> Result<(), CliError> {
        if self.printer.pending() >= MAX_PENDING_BYTES { self.printer.flush() } else { Ok(()) }
    }

    /// Writes the pending lines, or draws the live table.
    ///
    /// # Errors
    ///
    /// Fails if standard output cannot be written.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        match &mut self.live {
            Some(live) => live.draw_events(),
            None => self.printer.flush(),
        }
    }

    /// Waits until the live table must be drawn, or until the user closes it. Without a live table, waits
    /// indefinitely.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no key is lost.
    pub(super) async fn next(&mut self) -> Wake {
        match &mut self.live {
            Some(live) => live.next().await,
            None => std::future::pending().await,
        }
    }

    /// Draws the live table.
    ///
    /// # Errors
    ///
    /// Fails if the terminal cannot be written.
    pub(super) fn draw(&mut self) -> Result<(), CliError> {
        self.live.as_mut().map_or(Ok(()), |live| live.draw())
    }

    /// Closes the live table and restores the terminal. Later calls print lines.
    pub(super) fn leave(&mut self) {
        if let Some(live) = self.live.take() {
            let summary = live.summary();
            drop(live);
            self.printer.note(&summary);
        }
    }
}
