//! `RecentRuns`: the recent reconciles of a controller, for the page for browsers. It holds keys and
//! reasons, never objects.

use std::{collections::VecDeque, fmt, hash::Hash, time::Duration};

use tokio::time::Instant;

use super::{
    history::{LastRun, RunHistory},
    reason::Reason,
};

/// The number of recent reconciles that each controller remembers.
pub(crate) const MAX_RECENT_RUNS: usize = 256;

/// The upper bounds of the durations in a histogram. A last interval has no bound.
pub(crate) const DURATION_BOUNDS: [Duration; 8] = [
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(25),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

/// Remembers the recent reconciles of all keys, and counts all reconciles.
pub(crate) struct RecentRuns<Q> {
    runs: VecDeque<RecentRun<Q>>,
    total: u64,
    failed: u64,
}

struct RecentRun<Q> {
    key: Q,
    reason: Option<Reason>,
    further_reasons: usize,
    ended: Instant,
    took: Duration,
    has_failed: bool,
}

/// A completed reconcile, with its key as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRun {
    pub(crate) key: String,
    pub(crate) reason: String,
    pub(crate) ended: Instant,
    pub(crate) took: Duration,
    pub(crate) has_failed: bool,
}

/// A key that waits for a reconcile.
pub(crate) struct WaitingKey {
    pub(crate) key: String,
    pub(crate) reasons: String,
    /// The time since the first reason, with delays.
    pub(crate) waited: Duration,
}

/// The reconciles of a controller, in numbers.
pub(crate) struct RunSummary {
    /// The number of keys whose last reconcile took a time in each interval of [`DURATION_BOUNDS`].
    pub(crate) durations: [usize; DURATION_BOUNDS.len() + 1],
    /// The slowest last reconciles.
    pub(crate) slowest: Vec<KeyRun>,
    /// The recent reconciles, the latest first.
    pub(crate) recent: Vec<KeyRun>,
}

impl<Q> Default for RecentRuns<Q> {
    fn default() -> Self {
        Self { runs: VecDeque::new(), total: 0, failed: 0 }
    }
}

impl<Q: Eq + Clone> RecentRuns<Q> {
    pub(super) fn add(&mut self, key: &Q, run: &LastRun) {
        self.total += 1;
        self.failed += u64::from(run.failure.is_some());
        if self.runs.len() == MAX_RECENT_RUNS {
            self.runs.pop_front();
        }
        let reasons = &run.reasons;
        self.runs.push_back(RecentRun {
            key: key.clone(),
            reason: reasons.first.first().cloned(),
            further_reasons: reasons.first.len().saturating_sub(1) + reasons.omitted,
            ended: run.ended,
            took: run.took,
            has_failed: run.failure.is_some(),
        });
    }

    pub(super) fn remove_where(&mut self, is_selected: impl Fn(&Q) -> bool) {
        self.runs.retain(|run| !is_selected(&run.key));
    }

    /// Returns the number of all reconciles, and the number of failed reconciles.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.total, self.failed)
    }
}

impl<Q: Eq + fmt::Display> RecentRuns<Q> {
    /// Returns the recent reconciles of a key, the latest first.
    pub(super) fn of(&self, key: &Q) -> Vec<KeyRun> {
        self.runs.iter().rev().filter(|run| run.key == *key).map(RecentRun::to_text).collect()
    }

    fn latest(&self, limit: usize) -> Vec<KeyRun> {
        self.runs.iter().rev().take(limit).map(RecentRun::to_text).collect()
    }
}

impl<Q: fmt::Display> RecentRun<Q> {
    fn to_text(&self) -> KeyRun {
        let reason = match (&self.reason, self.further_reasons) {
            (None, _) => "unknown".to_owned(),
            (Some(reason), 0) => reason.to_string(),
            (Some(reason), further) => format!("{reason} (and {further} more)"),
        };
        let Self { ended, took, has_failed, .. } = *self;
        KeyRun { key: self.key.to_string(), reason, ended, took, has_failed }
    }
}

impl RunSummary {
    pub(super) fn new<Q>(history: &RunHistory<Q>, limit: usize) -> Self
    where
        Q: Eq + Hash + Clone + fmt::Display,
    {
        let mut durations = [0; DURATION_BOUNDS.len() + 1];
        let mut all: Vec<(&Q, &LastRun)> = history.last_runs().collect();
        for (_, run) in &all {
            durations[DURATION_BOUNDS.partition_point(|bound| *bound < run.took)] += 1;
        }
        if limit < all.len() {
            all.select_nth_unstable_by_key(limit, |(_, run)| std::cmp::Reverse(run.took));
            all.truncate(limit);
        }
        all.sort_by_key(|(_, run)| std::cmp::Reverse(run.took));
        let slow = |(key, run): (&Q, &LastRun)| KeyRun {
            key: key.to_string(),
            reason: run.reasons.to_string(),
            ended: run.ended,
            took: run.took,
            has_failed: run.failure.is_some(),
        };
        let slowest = all.into_iter().map(slow).collect();
        Self { durations, slowest, recent: history.recent.latest(limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Reasons};

    fn run(millis: u64, has_failed: bool) -> LastRun {
        let reason = Reason { source: "a test".into(), group: None, object: None, change: Change::Requested };
        LastRun {
            reasons: Reasons { first: vec![reason.clone(), reason], omitted: 3 },
            failures: 0,
            ended: Instant::now(),
            took: Duration::from_millis(millis),
            waits: Default::default(),
            calls: Default::default(),
            in_calls: Duration::ZERO,
            changes: Default::default(),
            failure: has_failed.then(|| "no".to_owned()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn recent_runs_are_bounded_and_counts_are_not() {
        let mut history = RunHistory::default();
        (0..2 * MAX_RECENT_RUNS).for_each(|number| history.add(&(number % 3), run(1, number % 2 == 0)));
        let recent = &history.recent;
        assert_eq!(recent.counts(), (2 * MAX_RECENT_RUNS as u64, MAX_RECENT_RUNS as u64));
        assert_eq!((0..3).map(|key| recent.of(&key).len()).sum::<usize>(), MAX_RECENT_RUNS);
        assert_eq!(recent.of(&0)[0].reason, "a test requested a reconcile (and 4 more)");
        history.remove_where(|key| *key == 0);
        assert_eq!(history.recent.of(&0), []);
    }

    #[tokio::test(start_paused = true)]
    async fn summary_contains_intervals_and_slowest_keys() {
        let mut history = RunHistory::default();
        for (key, millis) in [("a", 1), ("b", 2), ("c", 300), ("d", 90_000)] {
            history.add(&key, run(millis, key == "c"));
        }
        let summary = RunSummary::new(&history, 2);
        assert_eq!(summary.durations, [1, 1, 0, 0, 1, 0, 0, 0, 1]);
        let keys = |runs: &[KeyRun]| runs.iter().map(|run| run.key.clone()).collect::<Vec<_>>();
        assert_eq!(
            (keys(&summary.slowest), keys(&summary.recent)),
            (vec!["d".into(), "c".into()], vec!["d".to_owned(), "c".to_owned()])
        );
        assert!(summary.slowest[1].has_failed);
    }
}
