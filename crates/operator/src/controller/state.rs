//! `ControllerState`: the present and past work of a controller, for metrics and debug pages. It
//! holds keys and messages, never objects.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use foldhash::quality::RandomState;
use kube_informer::ObjectKey;
use kube_workqueue::{RateLimiter, WorkQueue};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use tokio_util::task::TaskTracker;

use super::{ControllerError, ControllerOptions, reason::Reasons, source::KeyQueue};
use crate::observe::metrics::{ControllerMetrics, Metrics};

/// The number of keys whose last reconcile is remembered: this many successes, and this many
/// failures.
pub(crate) const MAX_REMEMBERED_RUNS: usize = 1024;

/// The state of a controller, for the manager, metrics and debug pages.
pub(crate) struct ControllerState {
    pub(crate) options: ControllerOptions,
    pub(crate) keys: KeyQueue,
    pub(crate) metrics: ControllerMetrics,
    /// The running reconciles.
    pub(crate) reconciles: TaskTracker,
    /// The error that stopped the controller. Set before the running reconciles end, which may take
    /// long.
    failure: watch::Sender<Option<ControllerError>>,
    /// When a reconcile was last dropped or panicked. The last request of that reconcile may still
    /// be in flight.
    cut_short_at: Mutex<Option<Instant>>,
    history: Mutex<RunHistory>,
}

impl ControllerState {
    pub(crate) fn new(
        options: ControllerOptions,
        limiter: impl RateLimiter<ObjectKey>,
        metrics: &Metrics,
    ) -> Self {
        let metrics = metrics.for_controller(&options.name);
        let queue = WorkQueue::with_observer(limiter, metrics.clone());
        Self {
            keys: KeyQueue {
                queue,
                reasons: Arc::default(),
                panicked_source: watch::Sender::default(),
                debounce: options.debounce,
            },
            options,
            metrics,
            reconciles: TaskTracker::new(),
            failure: watch::Sender::default(),
            cut_short_at: Mutex::default(),
            history: Mutex::default(),
        }
    }

    /// Records that a reconcile is dropped now, or panicked.
    pub(crate) fn record_cut_short(&self) {
        *self.cut_short_at.lock() = Some(Instant::now());
    }

    /// Returns whether a reconcile was dropped or panicked within the given time.
    pub(crate) fn was_cut_short_within(&self, time: Duration) -> bool {
        self.cut_short_at.lock().is_some_and(|at| at.elapsed() < time)
    }

    /// Records the error that stops the controller.
    pub(crate) fn fail(&self, error: ControllerError) {
        self.failure.send_replace(Some(error));
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Returns the failure of the controller, if there is one.
    pub(crate) fn result(&self) -> Result<(), ControllerError> {
        self.failure.borrow().clone().map_or(Ok(()), Err)
    }

    /// Waits until the controller fails. Never returns if it does not fail.
    pub(crate) async fn wait_for_failure(&self) -> ControllerError {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await.ok().and_then(|failure| failure.clone()) {
            Some(failure) => failure,
            None => std::future::pending().await, // unreachable: `self` holds the sender
        }
    }

    pub(crate) fn record_run(&self, key: &ObjectKey, run: LastRun) {
        self.history.lock().add(key, run);
    }

    /// Returns the last reconcile of the key, if it is remembered.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
    pub(crate) fn last_run(&self, key: &ObjectKey) -> Option<LastRun> {
        self.history.lock().by_key.get(key).map(|(_, run)| run.clone())
    }

    /// Returns the keys whose last reconcile failed, with the error message, latest first. At most
    /// [`MAX_REMEMBERED_RUNS`].
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
    pub(crate) fn failures(&self) -> Vec<(ObjectKey, String)> {
        let history = self.history.lock();
        let failed = history.failed.values().rev().filter_map(|key| {
            let (_, run) = history.by_key.get(key)?;
            run.failure.clone().map(|failure| (key.clone(), failure))
        });
        failed.collect()
    }
}

/// A completed reconcile.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
pub(crate) struct LastRun {
    pub(crate) reasons: Reasons,
    /// The number of consecutive failures before this reconcile.
    pub(crate) failures: u32,
    pub(crate) ended: Instant,
    pub(crate) took: Duration,
    /// The error message; `None` after a success.
    pub(crate) failure: Option<String>,
}

/// Remembers the last reconcile of recently reconciled keys, each with a sequence number.
#[derive(Default)]
struct RunHistory {
    by_key: HashMap<ObjectKey, (u64, LastRun), RandomState>,
    succeeded: BTreeMap<u64, ObjectKey>,
    /// Separate from `succeeded`, so that successes do not evict failures.
    failed: BTreeMap<u64, ObjectKey>,
    runs: u64,
}

impl RunHistory {
    fn add(&mut self, key: &ObjectKey, run: LastRun) {
        self.runs += 1;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(failure: Option<&str>) -> LastRun {
        let (ended, took) = (Instant::now(), Duration::ZERO);
        LastRun { reasons: Reasons::default(), failures: 0, ended, took, failure: failure.map(str::to_owned) }
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
