//! `WriteTracker`: the pending writes of one cache, and the wait until they are visible.

use std::time::Duration;

use kube_object::{Object, ObjectId, ObjectKey, ResourceVersion, Uid};
use kube_store::Store;
use parking_lot::Mutex;

use super::pending_writes::{NotVisible, PendingWrites};

pub(crate) struct WriteTracker<T> {
    store: Store<T>,
    /// Locked while a snapshot is created. See [`PendingWrites`].
    pending: Mutex<PendingWrites>,
}

/// The state of the cache after a wait.
pub(super) struct WaitOutcome {
    pub(super) not_visible: Option<NotVisible>,
    /// Whether the store contains the initial list.
    pub(super) synced: bool,
    /// The watermark of the store.
    pub(super) reached: Option<ResourceVersion>,
}

impl<T: Object> WriteTracker<T> {
    pub(crate) fn new(store: Store<T>) -> Self {
        Self { store, pending: Mutex::default() }
    }

    /// Records a write. `covered` states whether the informer selects the object. It is `None` if
    /// only the server can decide.
    pub(super) fn record_write(&self, id: &ObjectId, covered: Option<bool>) {
        let mut pending = self.pending.lock();
        pending.record_write(id, covered, &self.store.snapshot());
    }

    /// Records that an object was removed from the server.
    pub(super) fn record_delete(&self, key: ObjectKey, uid: Uid) {
        let mut pending = self.pending.lock();
        pending.record_delete(key, uid, &self.store.snapshot());
    }

    /// Waits until the cache is synced and the recorded writes are visible. With a key, waits only
    /// for the writes to this object.
    pub(super) async fn wait(&self, key: Option<&ObjectKey>, timeout: Duration) -> WaitOutcome {
        let (mut barrier, mut not_visible, mut synced) = (None, None, false);
        let is_visible = self.store.wait_for(timeout, |_| {
            let mut pending = self.pending.lock();
            let cache = self.store.snapshot();
            let barrier = barrier.get_or_insert_with(|| pending.barrier(key, &cache));
            not_visible = pending.not_visible(barrier, key, &cache);
            synced = cache.watermark().synced;
            matches!(not_visible, Some(NotVisible::LostEpoch(_))) || (not_visible.is_none() && synced)
        });
        let reached = is_visible.await.resource_version().cloned();
        WaitOutcome { not_visible, synced, reached }
    }
}
