//! `Input`: the keys of the terminal, and the changes of its size.

use std::thread;

use crossterm::event::{Event, read};
use tokio::sync::mpsc;

/// The maximum number of pending events. Then the thread waits, and the terminal holds further keys.
const MAX_PENDING: usize = 64;

/// Receives the events of the terminal.
///
/// A thread reads them, and not the task of the table: after the terminal was closed, `read` of crossterm
/// never returns. The thread ends with the process.
#[derive(Debug)]
pub(super) struct Input {
    events: mpsc::Receiver<Event>,
}

impl Input {
    /// Starts the thread.
    pub(super) fn start() -> Self {
        let (sender, events) = mpsc::channel(MAX_PENDING);
        thread::spawn(move || {
            while let Ok(event) = read() {
                if sender.blocking_send(event).is_err() {
                    return;
                }
            }
        });
        Self { events }
    }

    /// Waits for the next event. Returns `None` if the terminal cannot be read.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no event is lost.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}
