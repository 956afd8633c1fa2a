//! Counts reconciles, and waits until the count reaches a number.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// The time limit for the next reconcile.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A controller is at rest if it completes no reconcile in this time.
const SETTLE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(super) struct Reconciled {
    count: AtomicUsize,
    expected: AtomicUsize,
    complete: Notify,
}

impl Reconciled {
    /// Counts a reconcile.
    pub(super) fn record(&self) {
        if self.count.fetch_add(1, SeqCst) + 1 == self.expected.load(SeqCst) {
            self.complete.notify_one();
        }
    }

    /// Expects this number of further reconciles. Call this before the keys are queued.
    pub(super) fn expect(&self, reconciles: usize) {
        self.expected.store(self.count.load(SeqCst) + reconciles, SeqCst);
    }

    /// Waits until at least `reconciles` reconciles are complete and no further one follows.
    pub(super) async fn settle(&self, reconciles: usize) -> Result<()> {
        self.expected.store(reconciles, SeqCst);
        self.wait().await?;
        loop {
            let before = self.count.load(SeqCst);
            sleep(SETTLE).await;
            if self.count.load(SeqCst) == before {
                return Ok(());
            }
        }
    }

    /// Waits for all expected reconciles.
    pub(super) async fn wait(&self) -> Result<()> {
        loop {
            let count = self.count.load(SeqCst);
            if count >= self.expected.load(SeqCst) {
                return Ok(());
            }
            let complete = timeout(TIMEOUT, self.complete.notified()).await;
            let expected = self.expected.load(SeqCst);
            ensure!(
                complete.is_ok() || self.count.load(SeqCst) > count,
                "no reconcile for {TIMEOUT:?} after {count} of {expected}"
            );
        }
    }
}
