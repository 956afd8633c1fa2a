//! What an API server has seen of etcd: its watch cache, which may lag behind. All caches are views of the one log;
//! a cache is no more than a position in it.
//!
//! Invariant: a position never goes back, except when the cache starts anew.

use std::collections::VecDeque;

use tokio::time::{Duration, Instant};

/// How far a watch cache is behind etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lag {
    /// Not at all.
    #[default]
    None,
    /// By so many revisions, whatever is written. (So many events are kept for it, beyond the history.)
    Revisions(u64),
    /// By so much of tokio's time. (What is written in that time is kept for it, beyond the history.)
    Time(Duration),
    /// It stands still. (All history since is kept for it meanwhile, without a bound: that is what it means to be able to
    /// catch up.)
    Frozen,
}

/// Which of the watch caches. Never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CacheId(u64);

impl CacheId {
    /// The cache of a server that is alone.
    pub(crate) const MAIN: Self = Self(0);

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// How far a watch cache sees, forwards and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// It has seen everything up to here.
    pub seen: u64,
    /// It knows no event up to here.
    pub born: u64,
    /// The time by which what it has seen grows old; `None` where that stands still with the last it has seen.
    pub clock: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct WatchCache {
    lag: Lag,
    /// It has seen everything up to here, at least.
    reached: u64,
    /// It does not know the events up to here: it began with the state of then, or was told to forget them.
    born: u64,
    /// Writes that it may not have seen yet, and when they were; only where it lags by time. As many as are written in
    /// that time, at different moments.
    pending: VecDeque<(Instant, u64)>,
}

impl WatchCache {
    /// A cache that has seen everything up to `reached`.
    pub(crate) fn new(lag: Lag, reached: u64) -> Self {
        Self { lag, reached, born: 0, pending: VecDeque::new() }
    }

    /// Where `revision` is the latest, it has seen everything up to this.
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

    /// How many of the pending writes it has seen.
    fn due(&self, behind: Duration, now: Instant) -> usize {
        self.pending.partition_point(|(at, _)| at.checked_add(behind).is_some_and(|due| due <= now))
    }

    pub(crate) fn sight(&self, revision: u64, now: Instant) -> Sight {
        let clock = match self.lag {
            Lag::None => Some(now),
            Lag::Time(behind) => now.checked_sub(behind),
            Lag::Revisions(_) | Lag::Frozen => None,
        };
        Sight { seen: self.position(revision, now), born: self.born, clock }
    }

    pub(crate) fn lags(&self) -> bool {
        self.lag != Lag::None
    }

    /// When it will see more, if nothing else happens.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        let Lag::Time(behind) = self.lag else { return None };
        self.pending.get(self.due(behind, now)).and_then(|(at, _)| at.checked_add(behind))
    }

    /// It forgets the events up to `oldest`, as far as it has seen them.
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

    /// It forgets everything and begins with the state at `revision`.
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
    async fn a_position_follows_its_lag_and_never_goes_back() {
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
    async fn a_restarted_cache_begins_where_etcd_is() {
        let mut cache = WatchCache::new(Lag::Revisions(3), 0);
        cache.restart(10);
        let sight = cache.sight(10, Instant::now());
        assert_eq!((sight.seen, sight.born), (10, 10));
        assert_eq!(cache.position(14, Instant::now()), 11);
        cache.forget(20, 14, Instant::now());
        assert_eq!(cache.sight(14, Instant::now()).born, 11);
    }
}
