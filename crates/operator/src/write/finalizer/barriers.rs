//! `Barriers`: wait once until the cache of an informer contains the writes of earlier processes.

use std::{collections::HashMap, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use kube_informer::{Informer, InformerId, Object};
use parking_lot::Mutex;
use tokio::time::Instant;
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
pub(super) struct Barriers(Mutex<HashMap<InformerId, Barrier>>);

/// A barrier runs on a task of its own. The timeout of a reconcile does not interrupt it. The callers resume
/// in the order in which they started to wait, so that a simulation is reproducible. The output is `None`
/// only if the runtime shuts down.
type Barrier = Shared<BoxFuture<'static, Option<Outcome>>>;

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
        let barrier = self.barrier(informer);
        barrier.await == Some(Outcome::Passed)
    }

    fn barrier<T: Object>(&self, informer: &Informer<T>) -> Barrier {
        let mut barriers = self.0.lock();
        let is_current = |barrier: &&Barrier| match barrier.peek() {
            Some(Some(Outcome::Failed { at })) => at.elapsed() < RETRY_DELAY,
            Some(Some(Outcome::Passed) | None) | None => true,
        };
        if let Some(barrier) = barriers.get(&informer.id()).filter(is_current) {
            return barrier.clone();
        }
        let waiting = informer.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move { wait(&waiting).await }));
        let barrier = task.map(Result::ok).boxed().shared();
        barriers.insert(informer.id(), barrier.clone());
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
