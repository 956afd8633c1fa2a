//! Looks at the Websites as a program would that waits for them: by a watch. Knows which of them are ready, and how long
//! that took for those that were changed.

use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use kube_client::{Api, Client};
use kube_runtime::WatchStreamExt as _;
use kube_runtime::watcher::{Config, Event, watcher};
use tokio::sync::watch;
use tokio::time::Instant;

use super::cluster::number;
use super::website::Website;
use crate::client::{Latency, percentiles};

pub(super) struct Observer {
    seen: Mutex<Seen>,
    /// How many are not ready. Told after each change of `seen`.
    left: watch::Sender<usize>,
}

struct Seen {
    /// By their numbers.
    sites: Vec<Site>,
    /// In nanoseconds.
    latencies: Vec<u64>,
}

/// What is known of a Website.
#[derive(Clone, Copy, Default)]
struct Site {
    generation: i64,
    is_ready: bool,
    /// When it was changed, until that is reported.
    changed: Option<Instant>,
}

impl Observer {
    pub(super) fn new(objects: usize) -> Self {
        let seen = Seen { sites: vec![Site::default(); objects], latencies: Vec::new() };
        Self { seen: Mutex::new(seen), left: watch::Sender::new(objects) }
    }

    /// Watches until it is dropped.
    pub(super) async fn watch(&self, client: Client) {
        let websites: Api<Website> = Api::all(client);
        let events = watcher(websites, Config::default()).default_backoff();
        let looking = events.for_each(|event| {
            // Errors are followed by another attempt.
            if let Ok(Event::Apply(website) | Event::InitApply(website)) = event {
                self.saw(&website);
            }
            ready(())
        });
        looking.await;
    }

    fn saw(&self, website: &Website) {
        let name = website.metadata.name.as_deref().unwrap_or_default();
        let generation = website.metadata.generation.unwrap_or_default();
        let mut seen = self.seen();
        let Seen { sites, latencies } = &mut *seen;
        let Some(site) = number(name).and_then(|number| sites.get_mut(number)) else { return };
        // What is older than a change says nothing about it.
        if generation < site.generation {
            return;
        }
        let was_ready = std::mem::replace(&mut site.is_ready, website.is_reported());
        site.generation = generation;
        if site.is_ready
            && let Some(changed) = site.changed.take()
        {
            latencies.push(u64::try_from(changed.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        self.tell(was_ready, site.is_ready);
    }

    /// A Website is about to be changed, from the generation that was seen last to the next one, which is given.
    pub(super) fn changes(&self, number: usize) -> Option<i64> {
        let mut seen = self.seen();
        let site = seen.sites.get_mut(number)?;
        self.tell(site.is_ready, false);
        let generation = site.generation + 1;
        *site = Site { generation, is_ready: false, changed: Some(Instant::now()) };
        Some(generation)
    }

    fn tell(&self, was_ready: bool, is_ready: bool) {
        match (was_ready, is_ready) {
            (false, true) => self.left.send_modify(|left| *left -= 1),
            (true, false) => self.left.send_modify(|left| *left += 1),
            _ => {}
        }
    }

    /// Waits until all are ready.
    pub(super) async fn all_ready(&self) {
        // The sender is in `self`: it can't be gone.
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }

    /// How long the changes took that were reported since this was asked last.
    pub(super) fn latency(&self) -> Option<Latency> {
        percentiles(std::mem::take(&mut self.seen().latencies))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn a_change_takes_until_its_own_generation_is_reported() {
        let observer = Observer::new(1);
        observer.saw(&website(1, None));
        assert_eq!(*observer.left.borrow(), 1);
        observer.saw(&website(1, Some(1)));
        observer.all_ready().await;
        assert_eq!(observer.latency(), None, "nobody has changed it");

        assert_eq!(observer.changes(0), Some(2));
        advance(Duration::from_millis(3)).await;
        observer.saw(&website(1, Some(1)));
        observer.saw(&website(2, Some(1)));
        assert_eq!(*observer.left.borrow(), 1);
        advance(Duration::from_millis(4)).await;
        observer.saw(&website(2, Some(2)));
        observer.all_ready().await;
        let took = 7_000_000;
        assert_eq!(observer.latency(), Some(Latency { p50: took, p99: took, max: took }));
    }
}
