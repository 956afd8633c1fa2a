//! `RunHistory`: the last reconciles of a controller. It holds keys and messages, never objects.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use foldhash::quality::RandomState;
use tokio::time::Instant;

use super::reason::{Reasons, Waits};
#[cfg(feature = "page")]
use super::recent::RecentRuns;
use crate::observe::{calls::ApiCalls, changes::ObjectChanges};

/// The number of keys whose last reconcile is remembered: this many successes, and this many
/// failures.
pub(crate) const MAX_REMEMBERED_RUNS: usize = 1024;

/// A completed reconcile.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
pub(crate) struct LastRun {
    pub(crate) reasons: Reasons,
    /// The number of consecutive failures before this reconcile.
    pub(crate) failures: u32,
    pub(crate) ended: Instant,
    pub(crate) took: Duration,
    pub(crate) waits: Waits,
    pub(crate) calls: ApiCalls,
    /// The time of `took` during which at least one call was running.
    pub(crate) in_calls: Duration,
    pub(crate) changes: RunChanges,
    /// The error message; `None` after a success.
    pub(crate) failure: Option<String>,
}

/// The changes that caused a reconcile, if the manager logs changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunChanges {
    /// The changes of the object of each reason. `None` if they are unknown, or belong to an earlier reason.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
    pub(crate) by_reason: Vec<Option<ObjectChanges>>,
    /// The position in the log when the reconcile started.
    pub(crate) position: u64,
}

/// Remembers the last reconcile of recently reconciled keys, each with a sequence number.
pub(crate) struct RunHistory<Q> {
    by_key: HashMap<Q, (u64, LastRun), RandomState>,
    succeeded: BTreeMap<u64, Q>,
    /// Separate from `succeeded`, so that successes do not evict failures.
    failed: BTreeMap<u64, Q>,
    runs: u64,
    #[cfg(feature = "page")]
    pub(crate) recent: RecentRuns<Q>,
}

impl<Q> Default for RunHistory<Q> {
    fn default() -> Self {
        let (succeeded, failed) = (BTreeMap::new(), BTreeMap::new());
        Self {
            by_key: HashMap::default(),
            succeeded,
            failed,
            runs: 0,
            #[cfg(feature = "page")]
            recent: RecentRuns::default(),
        }
    }
}

impl<Q: Eq + Hash + Clone> RunHistory<Q> {
    pub(crate) fn add(&mut self, key: &Q, run: LastRun) {
        self.runs += 1;
        #[cfg(feature = "page")]
        self.recent.add(key, &run);
        let has_failed = run.failure.is_some();
        if let Some((before, _)) = self.by_key.insert(key.clone(), (self.runs, run)) {
            self.succeeded.remove(&before);
            self.failed.remove(&before);
        }
        let same_result = if has_failed { &mut self.failed } else { &mut self.succeeded };
        same_result.insert(self.runs, key.clone());
        if same_result.len() > MAX_REMEMBERED_RUNS
            && let Some((_, oldest)) = same_result.pop_first()
        {
            self.by_key.remove(&oldest);
        }
    }

    /// Removes the selected keys.
    pub(crate) fn remove_where(&mut self, is_selected: impl Fn(&Q) -> bool) {
        self.by_key.retain(|key, _| !is_selected(key));
        self.succeeded.retain(|_, key| !is_selected(key));
        self.failed.retain(|_, key| !is_selected(key));
        #[cfg(feature = "page")]
        self.recent.remove_where(is_selected);
    }

    /// Returns the last reconcile of the key, if it is remembered.
    pub(crate) fn last_run(&self, key: &Q) -> Option<&LastRun> {
        self.by_key.get(key).map(|(_, run)| run)
    }

    /// Returns the last reconciles of the remembered keys, in no particular order.
    #[cfg(feature = "page")]
    pub(crate) fn last_runs(&self) -> impl Iterator<Item = (&Q, &LastRun)> {
        self.by_key.iter().map(|(key, (_, run))| (key, run))
    }

    /// Returns the remembered keys, in no particular order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Q> {
        self.by_key.keys()
    }

    /// Returns the keys whose last reconcile failed, with the error message, latest first. At most
    /// [`MAX_REMEMBERED_RUNS`].
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&Q, &str)> {
        self.failed.values().rev().filter_map(|key| Some((key, self.last_run(key)?.failure.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use kube_informer::ObjectKey;

    use super::*;

    fn run(failure: Option<&str>) -> LastRun {
        let (ended, took) = (Instant::now(), Duration::ZERO);
        LastRun {
            reasons: Reasons::default(),
            failures: 0,
            ended,
            took,
            waits: Waits::default(),
            calls: ApiCalls::default(),
            in_calls: Duration::ZERO,
            changes: RunChanges::default(),
            failure: failure.map(str::to_owned),
        }
    }

    fn key(number: usize) -> ObjectKey {
        ObjectKey::new(Some("shop"), &format!("web-{number}"))
    }

    #[tokio::test(start_paused = true)]
    async fn history_keeps_the_most_recently_reconciled_keys() {
        let mut history = RunHistory::default();
        (0..MAX_REMEMBERED_RUNS).for_each(|number| history.add(&key(number), run(None)));
        history.add(&key(0), run(None));
        history.add(&key(MAX_REMEMBERED_RUNS), run(None));

        assert_eq!(
            (history.by_key.len(), history.succeeded.len()),
            (MAX_REMEMBERED_RUNS, MAX_REMEMBERED_RUNS)
        );
        assert!(!history.by_key.contains_key(&key(1)), "the oldest one");
        assert!(history.by_key.contains_key(&key(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn successes_do_not_evict_failures_from_history() {
        let mut history = RunHistory::default();
        history.add(&key(0), run(Some("no")));
        (1..=2 * MAX_REMEMBERED_RUNS).for_each(|number| history.add(&key(number), run(None)));
        assert_eq!(history.by_key[&key(0)].1.failure.as_deref(), Some("no"));
        assert_eq!((history.failed.len(), history.by_key.len()), (1, MAX_REMEMBERED_RUNS + 1));

        history.add(&key(0), run(None));
        assert_eq!((history.failed.len(), history.by_key.len()), (0, MAX_REMEMBERED_RUNS));
        (0..=MAX_REMEMBERED_RUNS).for_each(|number| history.add(&key(number), run(Some("no"))));
        assert_eq!(history.failed.len(), MAX_REMEMBERED_RUNS, "the number of failures is bounded");
    }
}
