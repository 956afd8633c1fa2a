//! `WriteTracker`: the pending writes of one cache, and the wait until they are visible.

use std::time::Duration;

use kube_object::{Object, ObjectId, ObjectKey, ResourceVersion, Shard, SlotSet, Uid};
use kube_store::{Snapshot, Store};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::pending_writes::{NotVisible, PendingWrites};

pub(crate) struct WriteTracker<T> {
    store: Store<T>,
    /// Locked while a snapshot is created. See [`PendingWrites`].
    pending: Mutex<PendingWrites>,
    /// The requested slots of a sharded informer.
    wanted: Option<watch::Receiver<SlotSet>>,
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
    pub(crate) fn new(store: Store<T>, wanted: Option<watch::Receiver<SlotSet>>) -> Self {
        Self { store, pending: Mutex::default(), wanted }
    }

    /// Returns the requested slots. Returns `None` if the informer is not sharded.
    fn wanted(&self) -> Option<Shard> {
        let wanted = self.wanted.as_ref()?;
        self.store.shard().map(|held| Shard { slots: *wanted.borrow(), ..held })
    }

    /// Removes the pending writes to slots that are no longer requested, because the watch may not deliver
    /// their events.
    pub(crate) fn forget_other_slots(&self) {
        let mut pending = self.pending.lock();
        if let Some(wanted) = self.wanted() {
            pending.forget_other_slots(&wanted);
        }
    }

    /// Forgets all writes, and ignores later writes. Call it after the store was closed.
    pub(crate) fn close(&self) {
        let forgotten = std::mem::take(&mut *self.pending.lock());
        drop(forgotten);
    }

    /// Records a write. `covered` states whether the informer selects the object. It is `None` if
    /// only the server can decide.
    pub(super) fn record_write(&self, id: &ObjectId, covered: Option<bool>) {
        self.record(|pending, cache| {
            // Read under the lock, so that `forget_other_slots` finds each write to a removed slot.
            if self.wanted().is_none_or(|wanted| wanted.contains(&id.as_id())) {
                pending.record_write(id, covered, cache);
            }
        });
    }

    /// Records that an object was removed from the server.
    pub(super) fn record_delete(&self, key: ObjectKey, uid: Uid) {
        self.record(|pending, cache| pending.record_delete(key, uid, cache));
    }

    /// Records nothing if the store is closed, because a closed store never shows a write.
    fn record(&self, record: impl FnOnce(&mut PendingWrites, &Snapshot<T>)) {
        let mut pending = self.pending.lock();
        // Checked under the lock, so that `close` forgets each write that is recorded here.
        if !self.store.is_closed() {
            record(&mut pending, &self.store.snapshot());
        }
    }

    /// Waits until the cache is synced and the recorded writes are visible. With a key, waits only
    /// for the writes to this object.
    pub(super) async fn wait(&self, key: Option<&ObjectKey>, timeout: Duration) -> WaitOutcome {
        let (mut barrier, mut not_visible, mut synced) = (None, None, false);
        let is_visible = self.store.wait_for(timeout, |_| {
            let mut pending = self.pending.lock();
            let cache = self.store.snapshot();
            let barrier = barrier.get_or_insert_with(|| pending.barrier(key, &cache));
            pending.renew(barrier, key, &cache);
            not_visible = pending.not_visible(barrier, key, &cache);
            synced = cache.watermark().synced;
            matches!(not_visible, Some(NotVisible::LostEpoch(_))) || (not_visible.is_none() && synced)
        });
        let reached = is_visible.await.resource_version().cloned();
        WaitOutcome { not_visible, synced, reached }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_object::{ShardKey, SlotCount};

    #[tokio::test]
    async fn closed_tracker_remembers_no_write() {
        let store = Store::<ConfigMap>::new();
        let tracker = WriteTracker::new(store.clone(), None);
        let id =
            |name: &str| ObjectId { key: ObjectKey::new(None, name), uid: "u".into(), version: "12".into() };
        tracker.record_write(&id("a"), Some(true));
        let before = tracker.wait(None, Duration::ZERO).await;
        assert_eq!(before.not_visible, Some(NotVisible::Write("12".into())));
        store.close();
        tracker.close();
        tracker.record_write(&id("b"), Some(true));
        tracker.record_delete(id("a").key, "u".into());
        assert_eq!(tracker.wait(None, Duration::ZERO).await.not_visible, None);
    }

    #[tokio::test]
    async fn sharded_tracker_records_only_writes_to_wanted_slots() {
        let count = SlotCount::new(256).unwrap();
        let store = Store::<ConfigMap>::sharded(ShardKey::Uid, count);
        let id =
            |uid: &str| ObjectId { key: ObjectKey::new(None, uid), uid: uid.into(), version: "12".into() };
        let slot = store.shard().unwrap().slot_of(&id("wanted").as_id());
        let wanted = watch::Sender::new([slot].into_iter().collect());
        let tracker = WriteTracker::new(store, Some(wanted.subscribe()));
        tracker.record_write(&id("other"), Some(true));
        assert_eq!(tracker.wait(None, Duration::ZERO).await.not_visible, None);
        tracker.record_write(&id("wanted"), Some(true));
        assert_eq!(
            tracker.wait(None, Duration::ZERO).await.not_visible,
            Some(NotVisible::Write("12".into()))
        );
        wanted.send_replace(SlotSet::default());
        tracker.forget_other_slots();
        assert_eq!(tracker.wait(None, Duration::ZERO).await.not_visible, None);
    }
}
