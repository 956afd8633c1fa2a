//! The handle of a watch cache: where it is, and the wait until it is further.

use std::sync::{Arc, Weak};

use tokio::time::{Duration, Instant, sleep_until, timeout};

use crate::state::Shared;
use crate::status::Status;
use crate::storage::log::TableId;
use crate::storage::watch_cache::{CacheId, Lag};

/// How long a read waits for a version that has not been reached, before it is refused as too large.
const FRESHNESS: Duration = Duration::from_secs(3);

/// A watch cache; when its last handle is gone, nothing is kept for it any more.
#[derive(Debug)]
pub(crate) struct Cache {
    id: CacheId,
    shared: Weak<Shared>,
}

impl Cache {
    /// The cache of the server itself.
    pub(crate) fn main() -> Self {
        Self { id: CacheId::MAIN, shared: Weak::new() }
    }

    /// One more.
    pub(crate) fn add(shared: &Arc<Shared>, lag: Lag) -> Self {
        let id = shared.write(|state| state.store.add_cache(lag));
        Self { id, shared: Arc::downgrade(shared) }
    }

    pub(crate) fn id(&self) -> CacheId {
        self.id
    }

    /// What it has seen.
    pub(crate) fn position(&self, shared: &Shared) -> u64 {
        shared.read(|state| state.store.position(self.id, Instant::now()))
    }

    /// What it has seen of a table.
    fn position_of(&self, shared: &Shared, table: TableId) -> u64 {
        shared.read(|state| state.store.position_of(table, self.id, Instant::now()))
    }

    /// Whether it lags, and when time alone lets it see more.
    pub(crate) fn pace(&self, shared: &Shared) -> (bool, Option<Instant>) {
        shared.read(|state| match state.store.cache(self.id) {
            Some(cache) => (cache.lags(), cache.next_due(Instant::now())),
            None => (false, None),
        })
    }

    /// Waits a little until it has seen `revision` of a table; past that it is too large.
    ///
    /// # Cancel safety
    /// Nothing is changed, so it may be dropped at any time.
    pub(crate) async fn reach(&self, shared: &Shared, table: TableId, revision: u64) -> Result<(), Status> {
        let reached = async {
            let mut revisions = shared.revisions();
            loop {
                revisions.mark_unchanged();
                if self.position_of(shared, table) >= revision {
                    return;
                }
                let due = self.pace(shared).1;
                tokio::select! {
                    _ = revisions.changed() => {}
                    () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                }
            }
        };
        let waited = timeout(FRESHNESS, reached).await;
        waited.map_err(|_| shared.too_large(revision, self.position_of(shared, table)))
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.write(|state| state.store.remove_cache(self.id));
        }
    }
}
