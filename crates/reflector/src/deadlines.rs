//! Everything that can wake a reflector besides the server, in one table.

use std::time::Duration;

use tokio::time::Instant;

/// What a deadline is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deadline {
    /// A page of a list, or a streaming list, takes too long.
    List,
    /// A streaming list that has not ended says nothing more.
    InitialEvents,
    /// A watch is open long after the server should have ended it.
    Watch,
    /// A watch that had brought a bookmark brings nothing more.
    Bookmark,
    /// The delay before the next attempt is over.
    Backoff,
}

/// When each deadline fires. A new request disarms those of the one before.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    armed: Vec<(Instant, Deadline)>,
}

impl Deadlines {
    /// Sets a deadline, in place of the same one set before.
    pub(crate) fn arm(&mut self, deadline: Deadline, at: Instant) {
        self.disarm(deadline);
        self.armed.push((at, deadline));
    }

    /// Forgets this deadline.
    pub(crate) fn disarm(&mut self, deadline: Deadline) {
        self.armed.retain(|(_, armed)| *armed != deadline);
    }

    /// Forgets all deadlines.
    pub(crate) fn disarm_all(&mut self) {
        self.armed.clear();
    }

    /// Moves all deadlines on by a time in which nothing was read.
    pub(crate) fn postpone(&mut self, by: Duration) {
        self.armed.iter_mut().for_each(|(at, _)| *at += by);
    }

    /// The deadline that fires first.
    pub(crate) fn first(&self) -> Option<(Instant, Deadline)> {
        self.armed.iter().copied().min_by_key(|(at, _)| *at)
    }
}
