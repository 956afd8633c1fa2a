//! `Progress`: the events that a handler has received.

use std::mem::take;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::{Latency, Report};
use crate::pods::NOT_SENT;

/// Counts the calls of a handler, and notifies when it reaches a resourceVersion.
#[derive(Default)]
pub(super) struct Progress {
    events: AtomicU64,
    /// The highest resourceVersion so far. Only one task calls the handler at a time.
    latest: AtomicU64,
    /// The awaited resourceVersion, or 0.
    target: AtomicU64,
    reached: Notify,
    measured: AtomicBool,
    latencies_ns: Mutex<Vec<u64>>,
}

impl Progress {
    /// Records a call of the handler. `sent` returns the label with the send time.
    pub(super) fn record<'a>(&self, version: &str, sent: impl FnOnce() -> Option<&'a str>) {
        let version: u64 = version.parse().unwrap_or_default();
        if self.measured.load(Relaxed) {
            self.measure(sent().and_then(|sent| sent.parse().ok()));
        }
        self.events.fetch_add(1, Relaxed);
        self.latest.fetch_max(version, Relaxed);
        let target = self.target.load(Relaxed);
        if target != 0 && version >= target {
            self.reached.notify_one();
        }
    }

    fn measure(&self, sent: Option<u64>) {
        let Some(sent) = sent.filter(|&sent| sent != NOT_SENT) else { return };
        let now = u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default();
        self.latencies().push(now.saturating_sub(sent));
    }

    fn latencies(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.latencies_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the handler has received `version`.
    pub(super) async fn until(&self, version: u64, measured: bool) -> Report {
        self.measured.store(measured, Relaxed);
        self.target.store(version, Relaxed);
        // A notification of an earlier resourceVersion may be stored.
        while self.latest.load(Relaxed) < version {
            self.reached.notified().await;
        }
        self.target.store(0, Relaxed);
        self.measured.store(false, Relaxed);
        Report::Reached {
            events: self.events.swap(0, Relaxed),
            latency: percentiles(take(&mut self.latencies())),
        }
    }
}

/// Returns the percentiles of `latencies`, or `None` if the list is empty.
pub(crate) fn percentiles(mut latencies: Vec<u64>) -> Option<Latency> {
    latencies.sort_unstable();
    let at =
        |percent: usize| latencies.get((latencies.len() * percent / 100).min(latencies.len() - 1)).copied();
    let &max = latencies.last()?;
    Some(Latency { p50: at(50)?, p99: at(99)?, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_sorted_values() {
        assert_eq!(percentiles(Vec::new()), None);
        assert_eq!(percentiles(vec![7]), Some(Latency { p50: 7, p99: 7, max: 7 }));
        assert_eq!(percentiles((1..=1000).rev().collect()), Some(Latency { p50: 501, p99: 991, max: 1000 }));
    }

    #[tokio::test]
    async fn until_returns_immediately_for_received_version() {
        let progress = Progress::default();
        progress.record("9", || None);
        progress.record("10", || None);
        let report = progress.until(10, false).await;
        assert_eq!(report, Report::Reached { events: 2, latency: None });
    }

    #[tokio::test]
    async fn only_events_are_measured() {
        let progress = Progress::default();
        let (listed, sent) = (NOT_SENT.to_string(), (NOT_SENT + 1).to_string());
        progress.measured.store(true, Relaxed);
        progress.record("1", || Some(&listed));
        progress.record("2", || Some(&sent));
        progress.record("3", || None);
        assert_eq!(progress.latencies().len(), 1);
    }
}
