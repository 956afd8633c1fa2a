//! The timeout and the bookmark timer of a watch.

use tokio::time::{Duration, Instant};

/// The last bookmark is sent this long before the watch times out.
const LAST_BOOKMARK_BEFORE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct WatchTimers {
    deadline: Instant,
    bookmark_period: Duration,
    /// The time of the next bookmark. `None`: the watch sends no bookmarks.
    next_bookmark: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum FiredTimer {
    Timeout,
    Bookmark,
}

impl WatchTimers {
    pub(super) fn new(now: Instant, timeout: Duration, bookmark_period: Duration, bookmarks: bool) -> Self {
        let deadline = now + timeout;
        let mut timers = Self { deadline, bookmark_period, next_bookmark: None };
        timers.next_bookmark = bookmarks.then(|| timers.bookmark_after(now));
        timers
    }

    pub(super) fn sends_bookmarks(&self) -> bool {
        self.next_bookmark.is_some()
    }

    pub(super) fn next(&self) -> Instant {
        self.next_bookmark.map_or(self.deadline, |bookmark| bookmark.min(self.deadline))
    }

    /// Returns the timer that fires at [`Self::next`], and schedules the next bookmark. Returns `None` before
    /// the deadline of a watch without bookmarks.
    pub(super) fn fire(&mut self, now: Instant) -> Option<FiredTimer> {
        if now >= self.deadline {
            return Some(FiredTimer::Timeout);
        }
        self.next_bookmark?;
        self.next_bookmark = Some(self.bookmark_after(now));
        Some(FiredTimer::Bookmark)
    }

    fn bookmark_after(&self, now: Instant) -> Instant {
        let next = now + self.bookmark_period;
        let last = self.deadline.checked_sub(LAST_BOOKMARK_BEFORE_TIMEOUT).filter(|last| *last > now);
        last.map_or(next, |last| last.min(next))
    }
}
