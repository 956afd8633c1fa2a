//! The timers of a reflector.

use std::{pin::Pin, time::Duration};

use tokio::time::{Instant, Sleep, sleep_until};

/// Identifies a timer of the open request or of a backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deadline {
    /// Limits the duration of one page of a list, or of an entire streaming list.
    List,
    /// Limits the time until a streaming list receives its next ADDED event.
    InitialEvents,
    /// Limits the time that a watch can stay open after its requested duration.
    Watch,
    /// Limits the time until a watch receives its next event or bookmark. Applies only after the first
    /// bookmark of the watch.
    Bookmark,
    /// Fires when the delay of the backoff has passed.
    Backoff,
}

/// The armed deadlines and their times. A new request disarms all deadlines.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    armed: Vec<(Instant, Deadline)>,
}

impl Deadlines {
    /// Starts a deadline. If the deadline is already running, restarts it.
    pub(crate) fn arm(&mut self, deadline: Deadline, at: Instant) {
        self.disarm(deadline);
        self.armed.push((at, deadline));
    }

    /// Removes a deadline.
    pub(crate) fn disarm(&mut self, deadline: Deadline) {
        self.armed.retain(|(_, armed)| *armed != deadline);
    }

    /// Removes all deadlines.
    pub(crate) fn disarm_all(&mut self) {
        self.armed.clear();
    }

    /// Moves all deadlines by a time in which the reflector did not read.
    pub(crate) fn postpone(&mut self, by: Duration) {
        self.armed.iter_mut().for_each(|(at, _)| *at += by);
    }

    /// Returns the next deadline.
    pub(crate) fn first(&self) -> Option<(Instant, Deadline)> {
        self.armed.iter().copied().min_by_key(|(at, _)| *at)
    }
}

/// A timer that is reused, because tokio must register each new timer.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Waits until `at`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the timer stays registered for the next call.
    pub(crate) async fn wait_until(&mut self, at: Instant) {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if sleep.deadline() != at {
            sleep.as_mut().reset(at);
        }
        sleep.await;
    }
}
