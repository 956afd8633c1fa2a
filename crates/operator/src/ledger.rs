//! `Ledger`: what a controller is doing and has done, for metrics and for people. It holds keys and words, never objects.

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

use crate::{
    Reasons,
    controller::Options,
    metrics::{Metrics, Of},
    source::Keys,
};

/// Of so many keys the last run is remembered: those that ran last.
const REMEMBERED: usize = 1024;

/// A controller, as seen from outside.
pub(crate) struct Ledger {
    pub(crate) options: Options,
    pub(crate) keys: Keys,
    pub(crate) metrics: Of,
    /// The runs that have begun and not ended.
    pub(crate) runs: TaskTracker,
    last: Mutex<LastRuns>,
}

impl Ledger {
    pub(crate) fn new(options: Options, limiter: impl RateLimiter<ObjectKey>, metrics: &Metrics) -> Self {
        let metrics = metrics.of(&options.name);
        let queue = WorkQueue::observed(limiter, metrics.clone());
        Self {
            options,
            keys: Keys { queue, waiting: Arc::default(), broken: watch::Sender::default() },
            metrics,
            runs: TaskTracker::new(),
            last: Mutex::default(),
        }
    }

    pub(crate) fn ran(&self, key: &ObjectKey, run: LastRun) {
        self.last.lock().add(key, run);
    }

    /// How the last run of this key went, unless that is long ago.
    pub(crate) fn last_run(&self, key: &ObjectKey) -> Option<LastRun> {
        self.last.lock().by_key.get(key).map(|(_, run)| run.clone())
    }

    /// Those keys whose last run has failed, with what was said; the latest first.
    pub(crate) fn failures(&self) -> Vec<(ObjectKey, String)> {
        let last = self.last.lock();
        let failed = last.by_age.values().rev().filter_map(|key| {
            let (_, run) = last.by_key.get(key)?;
            run.failure.clone().map(|failure| (key.clone(), failure))
        });
        failed.collect()
    }
}

/// A run that has ended.
#[derive(Clone, Debug)]
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
    by_age: BTreeMap<u64, ObjectKey>,
    runs: u64,
}

impl LastRuns {
    fn add(&mut self, key: &ObjectKey, run: LastRun) {
        self.runs += 1;
        if let Some((before, _)) = self.by_key.insert(key.clone(), (self.runs, run)) {
            self.by_age.remove(&before);
        }
        self.by_age.insert(self.runs, key.clone());
        if self.by_age.len() > REMEMBERED
            && let Some((_, oldest)) = self.by_age.pop_first()
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
        last.add(&key(0), run(Some("again")));
        last.add(&key(REMEMBERED), run(None));

        assert_eq!((last.by_key.len(), last.by_age.len()), (REMEMBERED, REMEMBERED));
        assert!(!last.by_key.contains_key(&key(1)), "it ran longest ago");
        assert_eq!(last.by_key[&key(0)].1.failure.as_deref(), Some("again"));
    }
}
