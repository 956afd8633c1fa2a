//! Watches the objects of an operator, and measures the time until their generation is reported.

use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use kube_client::api::{ApiResource, DynamicObject};
use kube_client::{Api, Client};
use kube_runtime::WatchStreamExt as _;
use kube_runtime::watcher::{Config, Event, watcher};
use tokio::sync::watch;
use tokio::time::Instant;

use super::workload::number;
use crate::client::{Latency, percentiles};

pub(super) struct Observer {
    observed: Mutex<Observed>,
    /// The number of objects whose generation is not reported.
    left: watch::Sender<usize>,
}

struct Observed {
    /// Indexed by the number of the object.
    objects: Vec<State>,
    latencies_ns: Vec<u64>,
}

#[derive(Clone, Copy)]
struct State {
    /// The expected generation.
    generation: i64,
    is_reported: bool,
    changed: Option<Instant>,
}

impl Observer {
    /// Creates an observer of new objects.
    pub(super) fn new(objects: usize) -> Self {
        let state = State { generation: 1, is_reported: false, changed: None };
        let observed = Observed { objects: vec![state; objects], latencies_ns: Vec::new() };
        Self { observed: Mutex::new(observed), left: watch::Sender::new(objects) }
    }

    /// Watches until the future is dropped.
    pub(super) async fn watch(&self, client: Client, resource: &ApiResource) {
        let objects: Api<DynamicObject> = Api::all_with(client, resource);
        let events = watcher(objects, Config::default()).default_backoff();
        let watching = events.for_each(|event| {
            // The watcher retries after an error.
            if let Ok(Event::Apply(object) | Event::InitApply(object)) = event {
                let reported = object.data["status"]["observedGeneration"].as_i64();
                self.record(object.metadata.name.as_deref().unwrap_or_default(), reported);
            }
            ready(())
        });
        watching.await;
    }

    fn record(&self, name: &str, reported: Option<i64>) {
        let mut observed = self.lock();
        let Observed { objects, latencies_ns } = &mut *observed;
        let Some(state) = number(name).and_then(|number| objects.get_mut(number)) else { return };
        if state.is_reported || reported != Some(state.generation) {
            return;
        }
        state.is_reported = true;
        if let Some(changed) = state.changed.take() {
            latencies_ns.push(u64::try_from(changed.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        self.left.send_modify(|left| *left -= 1);
    }

    /// Starts the measurement of a change, which increases the generation of a reported object.
    pub(super) fn start_change(&self, number: usize) {
        let mut observed = self.lock();
        let Some(state) = observed.objects.get_mut(number) else { return };
        if std::mem::replace(&mut state.is_reported, false) {
            self.left.send_modify(|left| *left += 1);
        }
        state.generation += 1;
        state.changed = Some(Instant::now());
    }

    /// Waits until the generation of each object is reported.
    pub(super) async fn all_reported(&self) {
        // The wait cannot fail, because `self` contains the sender.
        let _ = self.left.subscribe().wait_for(|left| *left == 0).await;
    }

    /// Returns the latency of the changes so far.
    pub(super) fn latency(&self) -> Option<Latency> {
        percentiles(self.lock().latencies_ns.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn latency_is_measured_until_generation_is_reported() {
        let observer = Observer::new(1);
        observer.record("site-00000", None);
        assert_eq!(*observer.left.borrow(), 1);
        observer.record("site-00000", Some(1));
        observer.all_reported().await;
        assert_eq!(observer.latency(), None, "the object was not changed");

        observer.start_change(0);
        advance(Duration::from_millis(3)).await;
        observer.record("site-00000", Some(1));
        assert_eq!(*observer.left.borrow(), 1);
        advance(Duration::from_millis(4)).await;
        observer.record("site-00000", Some(2));
        observer.all_reported().await;
        let latency_ns = 7_000_000;
        assert_eq!(observer.latency(), Some(Latency { p50: latency_ns, p99: latency_ns, max: latency_ns }));
    }
}
