//! `KeyQueue`: the queued keys of a controller, their reasons, and their last reconciles.

use std::{collections::BTreeMap, fmt, hash::Hash, sync::Arc, time::Duration};

use kube_workqueue::{Priority, QueueStatus, WorkQueue};
use parking_lot::Mutex;
use tokio::sync::watch;

#[cfg(feature = "page")]
use super::recent::{KeyRun, RunSummary, WaitingKey};
use super::{
    history::{LastRun, RunHistory},
    reason::{PendingReasons, Reason, Reasons},
};

/// Combines the bounds of a key of a [`KeyController`](crate::KeyController).
///
/// A blanket implementation covers every type with these bounds, for example `ObjectKey` and `String`.
/// `Display` is the text of the key in logs and on debug pages. Different keys must have different texts.
pub trait RequestKey: Clone + Eq + Hash + fmt::Display + Send + Sync + 'static {}

impl<Q: Clone + Eq + Hash + fmt::Display + Send + Sync + 'static> RequestKey for Q {}

/// Returns the name of the cluster of a key.
pub(crate) type ClusterOf<Q> = fn(&Q) -> &str;

/// Counts the reconciles of the objects of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterRuns {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) took: Duration,
}

/// Decides whether a key is queued for a reason.
pub(crate) type KeyFilter<Q> = Arc<dyn Fn(&Q, &Reason) -> bool + Send + Sync>;

/// Holds the queued keys of a controller.
#[derive(Clone)]
pub(crate) struct KeyQueue<Q: RequestKey> {
    pub(crate) queue: WorkQueue<Q>,
    pub(crate) reasons: Arc<Mutex<PendingReasons<Q>>>,
    history: Arc<Mutex<RunHistory<Q>>>,
    /// The first source that panicked. Some of its keys are missing.
    pub(crate) panicked_source: watch::Sender<Option<Arc<str>>>,
    /// The delay of each key of a source.
    debounce: Duration,
    filter: Option<KeyFilter<Q>>,
    /// `None` for a controller of one cluster.
    cluster_of: Option<ClusterOf<Q>>,
    /// Contains only engaged clusters, which bounds its size.
    by_cluster: Arc<Mutex<BTreeMap<String, ClusterRuns>>>,
}

impl<Q: RequestKey> KeyQueue<Q> {
    pub(crate) fn new(
        queue: WorkQueue<Q>,
        debounce: Duration,
        filter: Option<KeyFilter<Q>>,
        cluster_of: Option<ClusterOf<Q>>,
    ) -> Self {
        Self {
            cluster_of,
            by_cluster: Arc::default(),
            queue,
            reasons: Arc::default(),
            history: Arc::default(),
            panicked_source: watch::Sender::default(),
            debounce,
            filter,
        }
    }

    /// Queues a key of a source, unless the filter rejects it.
    pub(crate) fn add(&self, key: Q, reason: Reason, delay: Duration, priority: Priority) {
        if self.filter.as_ref().is_some_and(|filter| !filter(&key, &reason)) {
            return;
        }
        // The reason is added before the key. A reconcile that starts in between removes the reason
        // and observes the change.
        self.reasons.lock().add(key.clone(), reason);
        match delay.max(self.debounce) {
            Duration::ZERO => self.queue.add_with_priority(key, priority),
            delay => self.queue.add_after_with_priority(key, delay, priority),
        }
    }

    pub(crate) fn record_panic(&self, source: &Arc<str>) {
        self.panicked_source
            .send_if_modified(|panicked_source| panicked_source.replace(Arc::clone(source)).is_none());
    }

    pub(crate) fn record_run(&self, key: &Q, run: LastRun) {
        if let Some(cluster_of) = self.cluster_of {
            let mut by_cluster = self.by_cluster.lock();
            // A key can contain the name of a cluster that does not exist.
            if let Some(runs) = by_cluster.get_mut(cluster_of(key)) {
                let count = if run.failure.is_some() { &mut runs.failed } else { &mut runs.succeeded };
                *count += 1;
                runs.took += run.took;
            }
        }
        self.history.lock().add(key, run);
    }

    /// Starts to count the reconciles of a cluster.
    pub(crate) fn add_cluster(&self, cluster: &str) {
        self.by_cluster.lock().entry(cluster.to_owned()).or_default();
    }

    /// Removes the counts of a cluster that has left.
    pub(crate) fn remove_cluster(&self, cluster: &str) {
        self.by_cluster.lock().remove(cluster);
    }

    /// Returns the position in the change log when the last reconcile of the key started. Zero if the
    /// reconcile is not remembered.
    pub(crate) fn last_position(&self, key: &Q) -> u64 {
        self.history.lock().last_run(key).map_or(0, |run| run.changes.position)
    }

    /// Removes the selected keys, with their reasons and last reconciles. Waits until their running
    /// reconciles have returned.
    pub(crate) async fn remove_where(&self, is_selected: impl Fn(&Q) -> bool) {
        self.queue.remove_where(&is_selected).await;
        self.reasons.lock().remove_where(&is_selected);
        self.history.lock().remove_where(is_selected);
    }

    /// Returns the key with this text, if it is being reconciled, has waiting reasons, or was
    /// reconciled recently.
    fn find(&self, text: &str) -> Option<Q> {
        let is_wanted = |key: &&Q| key.to_string() == text;
        if let Some(key) = self.history.lock().keys().find(is_wanted) {
            return Some(key.clone());
        }
        if let Some(key) = self.reasons.lock().keys().find(is_wanted) {
            return Some(key.clone());
        }
        let running = self.queue.status().processing.into_iter();
        running.map(|(key, _)| key).find(|key| is_wanted(&key))
    }
}

/// The number of consecutive failures of a key that fails repeatedly. With the default rate limiter, the last
/// of them is 2.6 s after the first one.
#[cfg(feature = "metrics")]
pub(crate) const REPEATED_FAILURES: u32 = 10;

/// A key whose last reconcile failed.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
pub(crate) struct FailedKey {
    pub(crate) key: String,
    /// The number of consecutive failures.
    pub(crate) failures: u32,
    pub(crate) error: String,
}

/// The next, the current and the last reconcile of a key.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
pub(crate) struct KeyStatus {
    pub(crate) waiting: Reasons,
    pub(crate) running: Option<Duration>,
    /// The number of consecutive failures.
    pub(crate) failures: u32,
    pub(crate) last: Option<LastRun>,
}

/// The keys of a controller, for metrics and pages. The type of the keys is erased.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages call all methods"))]
pub(crate) trait KeyView: Send + Sync {
    fn status(&self) -> QueueStatus<String>;
    fn longest_processing(&self) -> Option<(String, Duration)>;
    /// Returns the number of failed keys, and the latest failed keys. The number is bounded by
    /// [`MAX_REMEMBERED_RUNS`](super::history::MAX_REMEMBERED_RUNS).
    fn failures(&self, limit: usize) -> (usize, Vec<FailedKey>);
    /// Returns the number of keys with at least [`REPEATED_FAILURES`] consecutive failures, of the keys that
    /// [`failures`](Self::failures) counts. A key that is not retried has no such failures.
    #[cfg(feature = "metrics")]
    fn repeatedly_failing(&self) -> usize;
    /// Returns the status of the key with this text, or `None` if the key is neither queued nor
    /// remembered.
    fn key_status(&self, key: &str) -> Option<KeyStatus>;
    /// Returns the number of all reconciles, and the number of failed reconciles.
    #[cfg(feature = "page")]
    fn run_counts(&self) -> (u64, u64);
    /// Returns the durations of the remembered reconciles, and at most `limit` slow and recent ones.
    #[cfg(feature = "page")]
    fn run_summary(&self, limit: usize) -> RunSummary;
    /// Returns the recent reconciles of the key with this text, the latest first.
    #[cfg(feature = "page")]
    fn recent_runs(&self, key: &str) -> Vec<KeyRun>;
    /// Returns the number of waiting keys, and the keys that have waited longest.
    #[cfg(feature = "page")]
    fn oldest_waiting(&self, limit: usize) -> (usize, Vec<WaitingKey>);
    /// Returns the counts of each cluster. Empty for a controller of one cluster.
    #[cfg_attr(
        all(feature = "http", not(feature = "metrics")),
        expect(dead_code, reason = "only metrics read this")
    )]
    fn by_cluster(&self) -> Vec<(String, ClusterRuns)>;
}

impl<Q: RequestKey> KeyView for KeyQueue<Q> {
    fn status(&self) -> QueueStatus<String> {
        self.queue.status().map_keys(|key| key.to_string())
    }

    fn longest_processing(&self) -> Option<(String, Duration)> {
        self.queue.longest_processing().map(|(key, elapsed)| (key.to_string(), elapsed))
    }

    fn failures(&self, limit: usize) -> (usize, Vec<FailedKey>) {
        let (count, latest): (usize, Vec<(Q, String)>) = {
            let history = self.history.lock();
            let latest = history.failures().take(limit).map(|(key, error)| (key.clone(), error.to_owned()));
            (history.failures().count(), latest.collect())
        };
        // Without the lock, because this calls the rate limiter of the user.
        let failed = |(key, error): (Q, String)| FailedKey {
            key: key.to_string(),
            failures: self.queue.num_requeues(&key),
            error,
        };
        (count, latest.into_iter().map(failed).collect())
    }

    #[cfg(feature = "metrics")]
    fn repeatedly_failing(&self) -> usize {
        let failed: Vec<Q> = self.history.lock().failures().map(|(key, _)| key.clone()).collect();
        // Without the lock, because this calls the rate limiter of the user.
        failed.iter().filter(|key| self.queue.num_requeues(key) >= REPEATED_FAILURES).count()
    }

    fn key_status(&self, key: &str) -> Option<KeyStatus> {
        let key = self.find(key)?;
        let mut processing = self.queue.status().processing.into_iter();
        Some(KeyStatus {
            waiting: self.reasons.lock().get(&key),
            running: processing.find(|(running, _)| *running == key).map(|(_, elapsed)| elapsed),
            failures: self.queue.num_requeues(&key),
            last: self.history.lock().last_run(&key).cloned(),
        })
    }

    #[cfg(feature = "page")]
    fn run_counts(&self) -> (u64, u64) {
        self.history.lock().recent.counts()
    }

    #[cfg(feature = "page")]
    fn run_summary(&self, limit: usize) -> RunSummary {
        RunSummary::new(&self.history.lock(), limit)
    }

    #[cfg(feature = "page")]
    fn recent_runs(&self, key: &str) -> Vec<KeyRun> {
        let Some(key) = self.find(key) else { return Vec::new() };
        self.history.lock().recent.of(&key)
    }

    #[cfg(feature = "page")]
    fn oldest_waiting(&self, limit: usize) -> (usize, Vec<WaitingKey>) {
        let reasons = self.reasons.lock();
        let (count, oldest) = reasons.oldest(limit);
        let waiting = |(key, reasons, waited): (&Q, &Reasons, Duration)| WaitingKey {
            key: key.to_string(),
            reasons: reasons.to_string(),
            waited,
        };
        (count, oldest.into_iter().map(waiting).collect())
    }

    fn by_cluster(&self) -> Vec<(String, ClusterRuns)> {
        self.by_cluster.lock().iter().map(|(cluster, runs)| (cluster.clone(), *runs)).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::Change;

    fn run(failure: Option<String>) -> LastRun {
        LastRun {
            reasons: Reasons::default(),
            failures: 0,
            ended: Instant::now(),
            took: Duration::ZERO,
            waits: Default::default(),
            calls: Default::default(),
            in_calls: Duration::ZERO,
            changes: Default::default(),
            failure,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_engaged_clusters_have_counts() {
        let cluster_of: ClusterOf<String> = |key| key.split_once('/').map_or("", |(cluster, _)| cluster);
        let keys = KeyQueue::new(WorkQueue::new(), Duration::ZERO, None, Some(cluster_of));
        keys.add_cluster("east");
        for key in ["east/a", "absent/a", "east/b"] {
            keys.record_run(&key.to_owned(), run(None));
        }
        let counts = |keys: &KeyQueue<String>| -> Vec<_> {
            keys.by_cluster().into_iter().map(|(cluster, runs)| (cluster, runs.succeeded)).collect()
        };
        assert_eq!(counts(&keys), [("east".to_owned(), 2)]);
        keys.remove_cluster("east");
        keys.record_run(&"east/a".to_owned(), run(None));
        assert_eq!(counts(&keys), []);
    }

    #[tokio::test(start_paused = true)]
    async fn removed_keys_have_no_reasons_runs_and_failures() {
        let keys = KeyQueue::new(WorkQueue::new(), Duration::ZERO, None, None);
        let reason = Reason { source: "a test".into(), group: None, object: None, change: Change::Requested };
        for (key, failure) in [("a/1", None), ("a/2", Some("no".to_owned())), ("b/1", None)] {
            keys.add(key.to_owned(), reason.clone(), Duration::ZERO, Priority::NORMAL);
            keys.record_run(&key.to_owned(), run(failure));
            keys.queue.add_rate_limited(key.to_owned());
        }
        keys.remove_where(|key| key.starts_with('a')).await;
        assert!(keys.key_status("a/1").is_none() && keys.key_status("a/2").is_none());
        assert!(keys.key_status("b/1").is_some_and(|key| key.failures == 1 && key.last.is_some()));
        assert_eq!((keys.failures(9).0, keys.queue.num_requeues(&"a/1".to_owned())), (0, 0));
        assert_eq!((keys.queue.len(), keys.queue.status().delayed), (1, 1));
    }

    #[cfg(feature = "metrics")]
    #[tokio::test(start_paused = true)]
    async fn keys_fail_repeatedly_after_ten_retried_failures() {
        let keys = KeyQueue::new(WorkQueue::new(), Duration::ZERO, None, None);
        let fail = |key: &str, times: usize| {
            (0..times).for_each(|_| keys.queue.add_rate_limited(key.to_owned()));
            keys.record_run(&key.to_owned(), run(Some("no".to_owned())));
        };
        fail("a", 9);
        fail("b", 10);
        fail("c", 10);
        assert_eq!((keys.failures(0).0, keys.repeatedly_failing()), (3, 2));

        fail("a", 1);
        keys.record_run(&"b".to_owned(), run(None)); // a success
        keys.queue.forget(&"c".to_owned()); // a failure that is not retried
        assert_eq!((keys.failures(0).0, keys.repeatedly_failing()), (2, 1));
    }
}
