//! `Barriers`: wait once until the cache of an informer contains the writes of earlier processes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube_informer::{Informer, InformerId, Object};
use parking_lot::Mutex;
use tokio::{sync::OnceCell, time::Instant};

/// The timeout of a barrier. The bookmark of a first short watch arrives after about 3 s. If the watch
/// cache of the server lags, it is up to date after at most 5 s with the usual settings of etcd.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The delay after a failed barrier.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Holds one barrier for each informer.
#[derive(Debug, Default)]
pub(super) struct Barriers(Mutex<HashMap<InformerId, Arc<OnceCell<Outcome>>>>);

#[derive(Clone, Copy, Debug)]
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
    /// If a caller drops the future, another caller waits again.
    pub(super) async fn pass<T: Object>(&self, informer: &Informer<T>) -> bool {
        let barrier = self.barrier(informer.id());
        matches!(barrier.get_or_init(|| wait(informer)).await, Outcome::Passed)
    }

    fn barrier(&self, informer: InformerId) -> Arc<OnceCell<Outcome>> {
        let mut barriers = self.0.lock();
        let barrier = barriers.entry(informer).or_default();
        if matches!(barrier.get(), Some(Outcome::Failed { at }) if at.elapsed() >= RETRY_DELAY) {
            *barrier = Arc::default();
        }
        Arc::clone(barrier)
    }
}

async fn wait<T: Object>(informer: &Informer<T>) -> Outcome {
    match informer.wait_for_latest(TIMEOUT).await {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            tracing::warn!(%error, "cache may be stale; reading each object that has the finalizer from the server");
            Outcome::Failed { at: Instant::now() }
        }
    }
}
