//! Counts the reconciles of an operator, and the Websites that were reconciled with success.

use std::fmt::Display;
use std::io::{Write as _, stderr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::workload;

/// The number of failures that are printed to standard error. Further failures are only counted.
const MAX_PRINTED_FAILURES: u64 = 5;

/// A line that an operator prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum OperatorMessage {
    /// Each Website was reconciled with success.
    AllReconciled,
    /// The number of completed reconciles so far. Printed for each line that the operator reads.
    Reconciles {
        /// Reconciles with and without success.
        total: u64,
        /// Failed reconciles.
        failed: u64,
    },
}

/// Counts the reconciles of an operator.
pub(super) struct ReconcileCounter {
    /// For each Website, whether a reconcile succeeded.
    reconciled: Vec<AtomicBool>,
    /// The number of Websites without a successful reconcile.
    left: AtomicUsize,
    all_reconciled: Notify,
    total: AtomicU64,
    failed: AtomicU64,
}

impl ReconcileCounter {
    /// Creates a counter for `objects` Websites.
    pub(super) fn new(objects: usize) -> Self {
        Self {
            reconciled: (0..objects).map(|_| AtomicBool::new(false)).collect(),
            left: AtomicUsize::new(objects),
            all_reconciled: Notify::new(),
            total: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Counts a reconcile of the Website `name`.
    pub(super) fn record<T, E: Display>(&self, name: &str, outcome: &Result<T, E>) {
        self.total.fetch_add(1, Relaxed);
        match outcome {
            Ok(_) => self.succeeded(name),
            Err(error) => {
                if self.failed.fetch_add(1, Relaxed) < MAX_PRINTED_FAILURES {
                    // The failure is counted even if standard error is closed.
                    let _ = writeln!(stderr(), "reconcile of {name} failed: {error}");
                }
            }
        }
    }

    /// Waits until each Website was reconciled with success.
    pub(super) async fn wait_until_all_reconciled(&self) {
        self.all_reconciled.notified().await;
    }

    fn succeeded(&self, name: &str) {
        let reconciled = workload::number(name).and_then(|number| self.reconciled.get(number));
        let is_first = reconciled.is_some_and(|reconciled| !reconciled.swap(true, Relaxed));
        if is_first && self.left.fetch_sub(1, Relaxed) == 1 {
            self.all_reconciled.notify_one();
        }
    }

    /// Returns the counts so far.
    pub(super) fn totals(&self) -> OperatorMessage {
        OperatorMessage::Reconciles { total: self.total.load(Relaxed), failed: self.failed.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_are_reconciled_after_a_success_for_each() {
        let counter = ReconcileCounter::new(2);
        for (name, outcome) in [("site-00000", Ok(())), ("site-00001", Err("no")), ("site-00000", Ok(()))] {
            counter.record(name, &outcome);
        }
        assert_eq!(
            (counter.left.load(Relaxed), counter.totals()),
            (1, OperatorMessage::Reconciles { total: 3, failed: 1 })
        );
        counter.record("site-00001", &Ok::<_, &str>(()));
        counter.all_reconciled.notified().await;
        counter.record("another", &Ok::<_, &str>(()));
        assert_eq!(counter.left.load(Relaxed), 0);
    }
}
