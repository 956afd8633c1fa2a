//! The handle of a watch cache: reads its position and waits for it to advance.

use std::sync::{Arc, Weak};

use tokio::time::{Duration, Instant, sleep_until, timeout};

use crate::state::{Served, Shared};
use crate::status::Status;
use crate::storage::watch_cache::{CacheId, Lag};

/// The maximum time that a read waits until the cache reaches a revision. Then the server rejects the
/// revision as too large.
const FRESHNESS: Duration = Duration::from_secs(3);

/// A watch cache. The server removes it when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Cache {
    id: CacheId,
    shared: Weak<Shared>,
}

impl Cache {
    pub(crate) fn main() -> Self {
        Self { id: CacheId::MAIN, shared: Weak::new() }
    }

    pub(crate) fn add(shared: &Arc<Shared>, lag: Lag) -> Self {
        let id = shared.write(|state| state.store.add_cache(lag));
        Self { id, shared: Arc::downgrade(shared) }
    }

    pub(crate) fn id(&self) -> CacheId {
        self.id
    }

    pub(crate) fn position(&self, shared: &Shared) -> u64 {
        shared.read(|state| state.store.position(self.id, Instant::now()))
    }

    /// Returns the latest revision of a resource that the cache has seen.
    fn position_of(&self, shared: &Shared, served: &Served) -> u64 {
        shared.read(|state| state.store.position_of(served.table, self.id, Instant::now()))
    }

    /// Returns whether the cache lags, and the time at which it will see more events without a further
    /// write.
    pub(crate) fn pace(&self, shared: &Shared) -> (bool, Option<Instant>) {
        shared.read(|state| match state.store.cache(self.id) {
            Some(cache) => (cache.lags(), cache.next_due(Instant::now())),
            None => (false, None),
        })
    }

    /// Waits up to `FRESHNESS` until the cache has seen `revision` of a resource, then rejects it as
    /// too large.
    ///
    /// # Cancel safety
    /// The future does not change any state. It can be dropped at any time.
    pub(crate) async fn reach(&self, shared: &Shared, served: &Served, revision: u64) -> Result<(), Status> {
        let reached = async {
            loop {
                let advanced = shared.advanced();
                if self.position_of(shared, served) >= revision {
                    return;
                }
                let due = self.pace(shared).1;
                tokio::select! {
                    biased;
                    () = advanced => {}
                    () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                }
            }
        };
        let waited = timeout(FRESHNESS, reached).await;
        waited.map_err(|_| shared.too_large(revision, self.position_of(shared, served)))
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.write(|state| state.store.remove_cache(self.id));
        }
    }
}
