//! The watch cache of an API server, which may lag behind etcd. All watch caches read one log. A watch
//! cache is only a position in this log.
//!
//! Invariant: a position moves back only if the watch cache restarts.

use std::collections::VecDeque;

use tokio::time::{Duration, Instant};

/// Selects the lag of a watch cache behind etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lag {
    #[default]
    /// The watch cache does not lag.
    None,
    /// The watch cache lags by this number of revisions. In addition to the history, the server keeps
    /// the events that the watch cache has not seen.
    Revisions(u64),
    /// The watch cache lags by this duration of tokio's time. In addition to the history, the server
    /// keeps the events that the watch cache has not seen.
    Time(Duration),
    /// The watch cache does not advance. The server keeps all later events, without a limit, so that the
    /// watch cache can catch up.
    Frozen,
}

/// Identifies a watch cache. A number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CacheId(u64);

impl CacheId {
    /// The cache of a server without replicas.
    pub(crate) const MAIN: Self = Self(0);

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheView {
    /// The last revision whose events the cache has seen.
    pub seen: u64,
    /// The cache contains only events after this revision.
    pub born: u64,
    /// The current time for the expiry of events. With `None`, the time of the last event that the cache
    /// has seen counts as the current time.
    pub clock: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct WatchCache {
    lag: Lag,
    /// The cache has seen at least all events up to this revision.
    reached: u64,
    /// The cache does not contain the events up to this revision. It started from the state at that
    /// revision, or the events were dropped.
    born: u64,
    /// The writes that the cache may not have seen yet, with their times. Used only if the cache lags by
    /// time. The length is the number of distinct write times within the lag.
    pending: VecDeque<(Instant, u64)>,
}

impl WatchCache {
    /// Creates a cache that has seen all events up to `reached`.
    pub(crate) fn new(lag: Lag, reached: u64) -> Self {
        Self { lag, reached, born: 0, pending: VecDeque::new() }
    }

    /// Returns the revision up to which the cache has seen all events, if `revision` is the latest.
    pub(crate) fn position(&self, revision: u64, now: Instant) -> u64 {
        let position = match self.lag {
            Lag::None => revision,
            Lag::Revisions(behind) => revision.saturating_sub(behind).max(self.reached),
            Lag::Time(behind) => match self.due(behind, now) {
                all if all == self.pending.len() => revision,
                0 => self.reached,
                some => self.pending.get(some - 1).map_or(self.reached, |(_, revision)| *revision),
            },
            Lag::Frozen => self.reached,
        };
        position.min(revision)
    }

    fn due(&self, behind: Duration, now: Instant) -> usize {
        self.pending.partition_point(|(at, _)| at.checked_add(behind).is_some_and(|due| due <= now))
    }

    pub(crate) fn sight(&self, revision: u64, now: Instant) -> CacheView {
        let clock = match self.lag {
            Lag::None => Some(now),
            Lag::Time(behind) => now.checked_sub(behind),
            Lag::Revisions(_) | Lag::Frozen => None,
        };
        CacheView { seen: self.position(revision, now), born: self.born, clock }
    }

    pub(crate) fn lags(&self) -> bool {
        self.lag != Lag::None
    }

    /// Returns the time at which the cache will see more events without a further write.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let Lag::Time(behind) = self.lag else { return None };
        self.pending.get(self.due(behind, now)).and_then(|(at, _)| at.checked_add(behind))
    }

    /// Drops the events up to `oldest` that the cache has seen.
    pub(crate) fn forget(&mut self, oldest: u64, revision: u64, now: Instant) {
        self.born = self.born.max(oldest.min(self.position(revision, now)));
    }

    pub(crate) fn wrote(&mut self, revision: u64, at: Instant) {
        let Lag::Time(behind) = self.lag else { return };
        let seen = self.due(behind, at);
        if let Some((_, revision)) = self.pending.drain(..seen).next_back() {
            self.reached = self.reached.max(revision);
        }
        match self.pending.back_mut() {
            Some((last, pending)) if *last == at => *pending = revision,
            _ => self.pending.push_back((at, revision)),
        }
    }

    pub(crate) fn set_lag(&mut self, lag: Lag, revision: u64, now: Instant) {
        self.reached = self.position(revision, now);
        self.pending.clear();
        if self.reached < revision && matches!(lag, Lag::Time(_)) {
            self.pending.push_back((now, revision));
        }
        self.lag = lag;
    }

    /// Drops all events and starts from the state at `revision`.
    pub(crate) fn restart(&mut self, revision: u64) {
        self.pending.clear();
        self.reached = revision;
        self.born = revision;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn position_follows_lag_and_never_moves_back() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut cache = WatchCache::new(Lag::Revisions(3), 0);
        assert_eq!(cache.position(10, start), 7);
        cache.set_lag(Lag::Revisions(9), 10, start);
        assert_eq!(cache.position(11, start), 7);
        assert_eq!(cache.position(20, start), 11);
        cache.set_lag(Lag::Frozen, 20, start);
        assert_eq!(cache.position(30, later(99)), 11);
        cache.set_lag(Lag::Time(Duration::from_secs(5)), 30, later(100));
        cache.wrote(31, later(102));
        cache.wrote(32, later(102));
        assert_eq!(cache.position(32, later(104)), 11);
        assert_eq!(cache.next_due(later(104)), Some(later(105)));
        assert_eq!(cache.position(32, later(105)), 30);
        assert_eq!(cache.next_due(later(105)), Some(later(107)));
        cache.wrote(33, later(106));
        assert_eq!(cache.position(33, later(107)), 32);
        assert_eq!(cache.position(33, later(111)), 33);
        assert_eq!(cache.next_due(later(111)), None);
        cache.set_lag(Lag::None, 40, later(112));
        assert_eq!(cache.position(40, start), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn restarted_cache_starts_at_current_revision() {
        let mut cache = WatchCache::new(Lag::Revisions(3), 0);
        cache.restart(10);
        let sight = cache.sight(10, Instant::now());
        assert_eq!((sight.seen, sight.born), (10, 10));
        assert_eq!(cache.position(14, Instant::now()), 11);
        cache.forget(20, 14, Instant::now());
        assert_eq!(cache.sight(14, Instant::now()).born, 11);
    }
}
