//! `BodyBudget`: limits the memory of requests in progress, and keeps large ones off the runtime threads.

use std::{future::pending, panic::resume_unwind, sync::Arc};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};
use tokio_util::sync::CancellationToken;

/// The maximum size of a small body. A small body needs no share, so a large one cannot delay it. The runtime
/// thread decodes it in less than a millisecond. All connections together hold 64 MiB of small bodies.
const SMALL_BODY_BYTES: usize = 64 << 10;

/// The default limit for the total size of large bodies in progress: one ConversionReview of the maximum
/// size.
pub(crate) const DEFAULT_BYTES_IN_PROGRESS: usize = super::router::MAX_CONVERSION_BYTES;

/// The total size of the large bodies that may be in progress at the same time.
#[derive(Clone, Debug)]
pub(super) struct BodyBudget {
    /// A semaphore grants at most 4 GiB in one call.
    total: u32,
    free: Arc<Semaphore>,
}

/// Separate budgets: conversions of many MB do not delay admissions, which then fail the writes of users.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudgets {
    pub(super) admissions: BodyBudget,
    pub(super) conversions: BodyBudget,
}

impl BodyBudgets {
    /// Creates budgets of this size each.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { admissions: BodyBudget::new(bytes), conversions: BodyBudget::new(bytes) }
    }

    /// Waits until no large body is in progress.
    pub(crate) async fn idle(&self) {
        self.admissions.idle().await;
        self.conversions.idle().await;
    }
}

/// The share of a request. The request holds it until its response is written, or until the work on its body
/// completes. Empty for a small body.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyShare(Option<Arc<OwnedSemaphorePermit>>);

impl BodyBudget {
    pub(super) fn new(bytes: usize) -> Self {
        let total = u32::try_from(bytes.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Self { total, free: Arc::new(Semaphore::new(total as usize)) }
    }

    /// Returns the limit in bytes.
    pub(super) fn total(&self) -> usize {
        self.total as usize
    }

    /// Waits until the limit permits a body of this size. A body that is larger than the limit waits until no
    /// other body is in progress.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request leaves the queue.
    pub(super) async fn share(&self, bytes: usize) -> BodyShare {
        if bytes <= SMALL_BODY_BYTES {
            return BodyShare::default();
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.total);
        // The semaphore is never closed.
        BodyShare(Arc::clone(&self.free).acquire_many_owned(bytes).await.ok().map(Arc::new))
    }

    #[cfg(test)]
    pub(super) fn free_bytes(&self) -> usize {
        self.free.available_permits()
    }

    /// Waits until no large body is in progress.
    pub(super) async fn idle(&self) {
        let _all = self.free.acquire_many(self.total).await;
    }
}

impl BodyShare {
    /// Runs `work` on the body. Work on a large body runs on a thread for blocking work, because it would
    /// delay other tasks.
    ///
    /// # Cancel safety
    /// If the future is dropped, for example because the client closed the connection, the token is
    /// cancelled.
    /// A thread cannot be stopped, so the work holds the share until it returns, without a use of its result.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
    ) -> T {
        let stop = CancellationToken::new();
        if self.0.is_none() {
            return work(&stop);
        }
        let (share, _cancel_on_drop) = (self.clone(), stop.clone().drop_guard());
        let working = spawn_blocking(move || {
            let result = work(&stop);
            drop(share);
            result
        });
        match working.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(result) => result,
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime shuts down, and polls this future no longer.
            Err(Err(_)) => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use futures_util::FutureExt;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn abandoned_work_is_cancelled_and_holds_its_share_until_it_returns() {
        let budget = BodyBudget::new(1 << 20);
        let share = budget.share(1 << 20).await;
        let (started, told) = (mpsc::channel(), mpsc::channel());
        let (end, ending) = mpsc::channel();
        let mut running = Box::pin(async {
            share
                .run(move |stop| {
                    started.0.send(()).unwrap();
                    ending.recv().unwrap();
                    told.0.send(stop.is_cancelled()).unwrap();
                })
                .await;
        });
        assert!(running.as_mut().now_or_never().is_none(), "the work runs on another thread");
        started.1.recv_timeout(Duration::from_secs(60)).expect("the work starts");
        drop(running);
        drop(share);
        assert!(budget.share(100 << 10).now_or_never().is_none(), "the work still holds the memory");
        assert!(budget.share(SMALL_BODY_BYTES).now_or_never().is_some(), "a small body never waits");
        end.send(()).unwrap();
        assert!(told.1.recv_timeout(Duration::from_secs(60)).expect("the work returns"));
        timeout(Duration::from_secs(60), budget.idle()).await.expect("the share is returned");
    }
}
