//! `Barriers`: wait once until the cache of an informer contains the writes of earlier processes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube_informer::{Informer, InformerId, Object};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use tokio_util::task::AbortOnDropHandle;

/// The timeout of a barrier. The bookmark of a first short watch arrives after about 3 s. If the watch
/// cache of the server lags, it is up to date after at most 5 s with the usual settings of etcd.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The delay after a failed barrier.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// The message of a failed wait.
const STALE: &str = "cannot verify that the cache is current; a Finalizer reads each object from the server before its first reconcile";

/// Holds one barrier for each informer.
#[derive(Debug, Default)]
pub(super) struct Barriers(Mutex<HashMap<InformerId, Arc<Barrier>>>);

/// A barrier runs on a task of its own. The timeout of a reconcile does not interrupt it.
#[derive(Debug)]
struct Barrier {
    /// `None` while the barrier runs.
    outcome: watch::Receiver<Option<Outcome>>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed { at: Instant },
}

impl Barriers {
    /// Waits until the cache contains every write that the server accepted before the first call for this
    /// informer. Concurrent callers share the wait, and later callers share its result. Returns false if the
    /// wait has failed in the last minute.
    ///
    /// # Cancel safety
    /// If a caller drops the future, the wait continues for other callers.
    pub(super) async fn pass<T: Object>(&self, informer: &Informer<T>) -> bool {
        let mut outcome = self.barrier(informer).outcome.clone();
        // The sender is dropped without an outcome only if the runtime shuts down.
        outcome.wait_for(Option::is_some).await.is_ok_and(|outcome| *outcome == Some(Outcome::Passed))
    }

    fn barrier<T: Object>(&self, informer: &Informer<T>) -> Arc<Barrier> {
        let mut barriers = self.0.lock();
        let is_current = |barrier: &&Arc<Barrier>| match *barrier.outcome.borrow() {
            Some(Outcome::Failed { at }) => at.elapsed() < RETRY_DELAY,
            Some(Outcome::Passed) | None => true,
        };
        if let Some(barrier) = barriers.get(&informer.id()).filter(is_current) {
            return Arc::clone(barrier);
        }
        let (sender, outcome) = watch::channel(None);
        let waiting = informer.clone();
        let task = tokio::spawn(async move {
            sender.send_replace(Some(wait(&waiting).await));
        });
        let barrier = Arc::new(Barrier { outcome, _task: AbortOnDropHandle::new(task) });
        barriers.insert(informer.id(), Arc::clone(&barrier));
        barrier
    }
}

async fn wait<T: Object>(informer: &Informer<T>) -> Outcome {
    match informer.wait_for_latest(TIMEOUT).await {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            let informer = informer.name();
            tracing::warn!(%informer, %error, retry_after = ?RETRY_DELAY, "{STALE}");
            Outcome::Failed { at: Instant::now() }
        }
    }
}
