//! `ControllerState`: what a controller is doing and has done, for metrics and for people. It holds keys and words, never objects.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use kube_informer::ObjectKey;
use kube_workqueue::{RateLimiter, WorkQueue};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use tokio_util::task::TaskTracker;

use super::{ControllerError, Options, reason::Reasons, source::Keys};
use crate::observe::metrics::{ControllerMetrics, Metrics};

/// The last run is remembered of so many keys with which it went well, and of so many with which it failed: those that ran last.
pub(crate) const REMEMBERED: usize = 1024;

/// A controller, as seen from outside.
pub(crate) struct ControllerState {
    pub(crate) options: Options,
    pub(crate) keys: Keys,
    pub(crate) metrics: ControllerMetrics,
    /// The runs that have begun and not ended.
    pub(crate) runs: TaskTracker,
    /// Why it takes no more keys, as soon as that is known: runs that are under way may take long to end.
    pub(crate) trouble: watch::Sender<Option<ControllerError>>,
    /// When a run was last dropped where it waited, or has panicked: a request of its may still be on its way.
    cut_short: Mutex<Option<Instant>>,
    last: Mutex<LastRuns>,
}

impl ControllerState {
    pub(crate) fn new(options: Options, limiter: impl RateLimiter<ObjectKey>, metrics: &Metrics) -> Self {
        let metrics = metrics.for_controller(&options.name);
        let queue = WorkQueue::with_observer(limiter, metrics.clone());
        Self {
            options,
            keys: Keys { queue, waiting: Arc::default(), broken: watch::Sender::default() },
            metrics,
            runs: TaskTracker::new(),
            trouble: watch::Sender::default(),
            cut_short: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// A run is dropped now, or has panicked.
    pub(crate) fn cut_short(&self) {
        *self.cut_short.lock() = Some(Instant::now());
    }

    /// That was no longer ago.
    pub(crate) fn was_cut_short_within(&self, time: Duration) -> bool {
        self.cut_short.lock().is_some_and(|at| at.elapsed() < time)
    }

    /// Returns when it takes no more keys, and not otherwise.
    pub(crate) async fn in_trouble(&self) -> ControllerError {
        let mut trouble = self.trouble.subscribe();
        match trouble.wait_for(Option::is_some).await.ok().and_then(|trouble| trouble.clone()) {
            Some(trouble) => trouble,
            None => std::future::pending().await, // never: the sender is in here
        }
    }

    pub(crate) fn ran(&self, key: &ObjectKey, run: LastRun) {
        self.last.lock().add(key, run);
    }

    /// How the last run of this key went, unless that is long ago.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
    pub(crate) fn last_run(&self, key: &ObjectKey) -> Option<LastRun> {
        self.last.lock().by_key.get(key).map(|(_, run)| run.clone())
    }

    /// Those keys whose last run has failed, with what was said; the latest first. There may be more than [`REMEMBERED`].
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
    pub(crate) fn failures(&self) -> Vec<(ObjectKey, String)> {
        let last = self.last.lock();
        let failed = last.failed.values().rev().filter_map(|key| {
            let (_, run) = last.by_key.get(key)?;
            run.failure.clone().map(|failure| (key.clone(), failure))
        });
        failed.collect()
    }
}

/// A run that has ended.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only pages read this"))]
pub(crate) struct LastRun {
    pub(crate) reasons: Reasons,
    /// How many runs before it had failed in a row.
    pub(crate) failures: u32,
    pub(crate) ended: Instant,
    pub(crate) took: Duration,
    /// What went wrong, in words; `None` after a success.
    pub(crate) failure: Option<String>,
}

/// The last runs of the keys that ran last, each with the number of its run.
#[derive(Default)]
struct LastRuns {
    by_key: HashMap<ObjectKey, (u64, LastRun)>,
    succeeded: BTreeMap<u64, ObjectKey>,
    /// Apart: keys that do well must not hide one that waits for a person.
    failed: BTreeMap<u64, ObjectKey>,
    runs: u64,
}

impl LastRuns {
    fn add(&mut self, key: &ObjectKey, run: LastRun) {
        self.runs += 1;
        let has_failed = run.failure.is_some();
        if let Some((before, _)) = self.by_key.insert(key.clone(), (self.runs, run)) {
            self.succeeded.remove(&before);
            self.failed.remove(&before);
        }
        let alike = if has_failed { &mut self.failed } else { &mut self.succeeded };
        alike.insert(self.runs, key.clone());
        if alike.len() > REMEMBERED
            && let Some((_, oldest)) = alike.pop_first()
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
    async fn the_last_runs_of_the_keys_that_ran_last_are_remembered() {
        let mut last = LastRuns::default();
        (0..REMEMBERED).for_each(|number| last.add(&key(number), run(None)));
        last.add(&key(0), run(None));
        last.add(&key(REMEMBERED), run(None));

        assert_eq!((last.by_key.len(), last.succeeded.len()), (REMEMBERED, REMEMBERED));
        assert!(!last.by_key.contains_key(&key(1)), "it ran longest ago");
        assert!(last.by_key.contains_key(&key(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_remembered_however_many_keys_succeed_after_it() {
        let mut last = LastRuns::default();
        last.add(&key(0), run(Some("no")));
        (1..=2 * REMEMBERED).for_each(|number| last.add(&key(number), run(None)));
        assert_eq!(last.by_key[&key(0)].1.failure.as_deref(), Some("no"));
        assert_eq!((last.failed.len(), last.by_key.len()), (1, REMEMBERED + 1));

        last.add(&key(0), run(None));
        assert_eq!((last.failed.len(), last.by_key.len()), (0, REMEMBERED));
        (0..=REMEMBERED).for_each(|number| last.add(&key(number), run(Some("no"))));
        assert_eq!(last.failed.len(), REMEMBERED, "nothing grows without a bound");
    }
}
