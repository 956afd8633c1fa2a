//! Watches the Websites, counts the Websites that are not ready, and measures the latency of
//! changes.

use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use kube_client::{Api, Client};
use kube_runtime::WatchStreamExt as _;
use kube_runtime::watcher::{Config, Event, watcher};
use tokio::sync::watch;
use tokio::time::Instant;

use super::website::Website;
use super::workload::number;
use crate::client::{Latency, percentiles};

pub(super) struct Observer {
    observed: Mutex<Observed>,
    /// The number of Websites that are not ready. Updated after each change of `observed`.
    left: watch::Sender<usize>,
}

struct Observed {
    /// Indexed by the number of the Website.
    sites: Vec<Site>,
    latencies_ns: Vec<u64>,
}

/// The observed state of a Website.
#[derive(Clone, Copy, Default)]
struct Site {
    generation: i64,
    is_ready: bool,
    /// The time of a change that the operator has not reported yet.
    changed: Option<Instant>,
}

impl Observer {
    pub(super) fn new(objects: usize) -> Self {
        let observed = Observed { sites: vec![Site::default(); objects], latencies_ns: Vec::new() };
        Self { observed: Mutex::new(observed), left: watch::Sender::new(objects) }
    }

    /// Watches until the future is dropped.
    pub(super) async fn watch(&self, client: Client) {
        let websites: Api<Website> = Api::all(client);
        let events = watcher(websites, Config::default()).default_backoff();
        let watching = events.for_each(|event| {
            // The watcher retries after an error.
            if let Ok(Event::Apply(website) | Event::InitApply(website)) = event {
                self.record(&website);
            }
            ready(())
        });
        watching.await;
    }

    fn record(&self, website: &Website) {
        let name = website.metadata.name.as_deref().unwrap_or_default();
        let generation = website.metadata.generation.unwrap_or_default();
        let mut observed = self.observed();
        let Observed { sites, latencies_ns } = &mut *observed;
        let Some(site) = number(name).and_then(|number| sites.get_mut(number)) else { return };
        // An older generation contains no information about a change.
        if generation < site.generation {
            return;
        }
        let was_ready = std::mem::replace(&mut site.is_ready, website.is_reported());
        site.generation = generation;
        if site.is_ready
            && let Some(changed) = site.changed.take()
        {
            latencies_ns.push(u64::try_from(changed.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        self.update_left(was_ready, site.is_ready);
    }

    /// Starts the measurement of a change. Returns the generation that the Website has after the
    /// change.
    pub(super) fn start_change(&self, number: usize) -> Option<i64> {
        let mut observed = self.observed();
        let site = observed.sites.get_mut(number)?;
        self.update_left(site.is_ready, false);
        let generation = site.generation + 1;
        *site = Site { generation, is_ready: false, changed: Some(Instant::now()) };
        Some(generation)
    }

    fn update_left(&self, was_ready: bool, is_ready: bool) {
        match (was_ready, is_ready) {
            (false, true) => self.left.send_modify(|left| *left -= 1),
            (true, false) => self.left.send_modify(|left| *left += 1),
            _ => {}
        }
    }

    /// Waits until all Websites are ready.
    pub(super) async fn all_ready(&self) {
        // The wait cannot fail, because `self` contains the sender.
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }

    /// Returns the latency of the changes since the last call.
    pub(super) fn latency(&self) -> Option<Latency> {
        percentiles(std::mem::take(&mut self.observed().latencies_ns))
    }

    fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use tokio::time::advance;

    use super::*;

    fn website(generation: i64, observed: Option<i64>) -> Website {
        let status = observed.map_or(Value::Null, |observed| {
            let condition = json!({"type": "Ready", "status": "True", "reason": "a", "message": "",
                                   "lastTransitionTime": "2026-01-01T00:00:00Z"});
            json!({"observedGeneration": observed, "conditions": [condition]})
        });
        let website = json!({
            "apiVersion": "example.com/v1", "kind": "Website",
            "metadata": {"name": "site-00000", "generation": generation},
            "spec": {"image": "i", "replicas": 1, "html": "h"}, "status": status
        });
        serde_json::from_value(website).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn latency_of_change_ends_with_report_of_its_generation() {
        let observer = Observer::new(1);
        observer.record(&website(1, None));
        assert_eq!(*observer.left.borrow(), 1);
        observer.record(&website(1, Some(1)));
        observer.all_ready().await;
        assert_eq!(observer.latency(), None, "the Website was not changed");

        assert_eq!(observer.start_change(0), Some(2));
        advance(Duration::from_millis(3)).await;
        observer.record(&website(1, Some(1)));
        observer.record(&website(2, Some(1)));
        assert_eq!(*observer.left.borrow(), 1);
        advance(Duration::from_millis(4)).await;
        observer.record(&website(2, Some(2)));
        observer.all_ready().await;
        let latency_ns = 7_000_000;
        assert_eq!(observer.latency(), Some(Latency { p50: latency_ns, p99: latency_ns, max: latency_ns }));
    }
}
