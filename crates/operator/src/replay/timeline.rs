//! `Timeline`: releases the inputs of a recording in their recorded order, at their recorded times.

use std::{collections::BTreeSet, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout, timeout_at},
};

/// The maximum time that an input waits for earlier inputs, which the program did not request.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// An input: the head, a part or the completion of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// The position in the order of all inputs.
    pub(super) position: usize,
    /// The time since the start of the recording. No two inputs have the same time, in milliseconds.
    pub(super) due: Duration,
}

/// Releases inputs in their recorded order.
#[derive(Debug)]
pub(super) struct Timeline {
    /// The due times of all inputs, by position.
    due: Vec<Duration>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The time at which an input was first requested. It corresponds to the time of the first input.
    start: Option<Instant>,
    next: usize,
    /// The positions of later inputs that the program does not read.
    skipped: BTreeSet<usize>,
    /// The number of requested inputs that were not released yet.
    requested: usize,
}

impl State {
    fn advance(&mut self) {
        while self.skipped.remove(&self.next) {
            self.next += 1;
        }
    }

    /// Returns the inputs before this position that were neither released nor skipped.
    fn missing(&self, end: usize) -> Vec<usize> {
        (self.next..end).filter(|position| !self.skipped.contains(position)).collect()
    }
}

/// Counts a requested input.
struct Requested<'a>(&'a Timeline);

impl Drop for Requested<'_> {
    fn drop(&mut self) {
        self.0.state.lock().requested -= 1;
        self.0.changed.notify_waiters();
    }
}

impl Timeline {
    pub(super) fn new(due: Vec<Duration>) -> Self {
        Self { due, state: Mutex::default(), changed: Notify::new() }
    }

    /// Waits until this input is due, and all earlier inputs were released. Returns the earlier inputs that
    /// were never requested.
    ///
    /// # Cancel safety
    /// If the future is dropped, the input is not released. The caller must skip it.
    pub(super) async fn release(&self, input: Input) -> Vec<usize> {
        let start = {
            let mut state = self.state.lock();
            state.requested += 1;
            *state.start.get_or_insert_with(Instant::now)
        };
        let _requested = Requested(self);
        sleep_until(start + self.since_first(input.due)).await;
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
        let _is_in_order = timeout(MAX_WAIT, turn).await;
        let mut state = self.state.lock();
        let missing = state.missing(input.position);
        state.next = state.next.max(input.position + 1);
        state.advance();
        missing
    }

    fn since_first(&self, due: Duration) -> Duration {
        due.saturating_sub(self.due.first().copied().unwrap_or_default())
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

    /// Returns the number of all inputs.
    pub(super) fn inputs(&self) -> usize {
        self.due.len()
    }

    /// Waits until all inputs were released or skipped. Returns the missing inputs after the program has
    /// requested no input for ten minutes, although one was due.
    pub(super) async fn finished(&self) -> Vec<usize> {
        loop {
            let changed = self.changed.notified();
            let next_due = {
                let state = self.state.lock();
                let Some(due) = self.due.get(state.next) else { return Vec::new() };
                state.start.map_or(Instant::now() + *due, |start| start + self.since_first(*due))
            };
            if timeout_at(next_due.max(Instant::now()) + MAX_WAIT, changed).await.is_ok() {
                continue;
            }
            // Created before the check, as in `release`.
            let changed = self.changed.notified();
            {
                let state = self.state.lock();
                if state.requested == 0 {
                    return state.missing(self.due.len());
                }
            }
            changed.await;
        }
    }
}
