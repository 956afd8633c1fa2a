//! `Timeline`: releases the inputs of a recording in their recorded order, at their recorded times.

use std::{collections::BTreeSet, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};

/// The maximum time that an input waits for earlier inputs, which the program did not request.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// An input: the head, a part or the completion of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// The position in the order of all inputs.
    pub(super) position: usize,
    /// The time since the start. No two inputs have the same time, in milliseconds.
    pub(super) due: Duration,
}

/// Releases inputs in their recorded order.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The time at which the first input was requested, minus its recorded time.
    start: Option<Instant>,
    next: usize,
    /// The later inputs that the program no longer reads.
    skipped: BTreeSet<usize>,
}

impl State {
    fn advance(&mut self) {
        while self.skipped.remove(&self.next) {
            self.next += 1;
        }
    }
}

impl Timeline {
    /// Waits until this input is due, and all earlier inputs were released. Returns false if an earlier input
    /// was never requested.
    ///
    /// # Cancel safety
    /// If the future is dropped, the input is not released. The caller must skip it.
    pub(super) async fn release(&self, input: Input) -> bool {
        let start = *self.state.lock().start.get_or_insert_with(Instant::now);
        sleep_until(start + input.due).await;
        let turn = async {
            loop {
                // Created before the check. A change after the check then completes this future.
                let changed = self.changed.notified();
                if self.state.lock().next >= input.position {
                    return;
                }
                changed.await;
            }
        };
        let is_in_order = timeout(MAX_WAIT, turn).await.is_ok();
        let mut state = self.state.lock();
        state.next = state.next.max(input.position + 1);
        state.advance();
        drop(state);
        self.changed.notify_waiters();
        is_in_order
    }

    /// Skips an input that the program does not read.
    pub(super) fn skip(&self, position: usize) {
        let mut state = self.state.lock();
        if position >= state.next {
            state.skipped.insert(position);
            state.advance();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns the number of released and skipped inputs.
    pub(super) fn released(&self) -> usize {
        self.state.lock().next
    }

    /// Waits until this number of inputs was released or skipped.
    pub(super) async fn until(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.released() >= count {
                return;
            }
            changed.await;
        }
    }
}
