//! `MemoryCounts`: the memory of each cache. A task counts it only while a browser displays it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube_informer::ObjectMemory;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::caches::subjects;
use crate::observe::pages::PageState;

/// The minimum time between two counts.
const MIN_INTERVAL: Duration = Duration::from_secs(2);

/// The minimum time between two counts, as a multiple of the duration of a count. A large cache is therefore
/// counted less often.
const INTERVAL_PER_DURATION: u32 = 100;

/// Holds the last count of each cache.
#[derive(Debug, Default)]
pub(super) struct MemoryCounts {
    /// The memory by the subject of the informer.
    counts: Mutex<HashMap<String, ObjectMemory>>,
    /// Notifies the task that a page has read the counts.
    wanted: Notify,
}

impl MemoryCounts {
    /// Returns the last count of each cache, and requests another count.
    pub(super) fn latest(&self) -> HashMap<String, ObjectMemory> {
        self.wanted.notify_one();
        self.counts.lock().clone()
    }
}

/// Counts the memory after each call of `latest`, until `stop` is cancelled.
pub(super) async fn count(state: Arc<PageState>, stop: &CancellationToken) {
    let memory = &state.browser.memory;
    while stop.run_until_cancelled(memory.wanted.notified()).await.is_some() {
        let started = Instant::now();
        let counted = tokio::task::spawn_blocking({
            let state = Arc::clone(&state);
            move || counts(&state)
        });
        // A panic in `Object::memory` of a custom type ends only this count.
        if let Ok(counts) = counted.await {
            *memory.counts.lock() = counts;
        }
        let next = started + MIN_INTERVAL.max(started.elapsed() * INTERVAL_PER_DURATION);
        if stop.run_until_cancelled(sleep_until(next)).await.is_none() {
            return;
        }
    }
}

fn counts(state: &PageState) -> HashMap<String, ObjectMemory> {
    let (statuses, informers): (Vec<_>, Vec<_>) = state
        .view
        .handles()
        .into_iter()
        .map(|(cluster, status, informer)| ((cluster, status), informer))
        .unzip();
    let memory = informers.iter().map(|informer| informer.memory());
    subjects(&statuses).into_iter().zip(memory).collect()
}
