//! `PendingWrites`: the writes of a program that may not be visible in its cache, as plain data.

mod changes;
mod deletions;

use kube_object::{Object, ObjectId, ObjectIdRef, ObjectKey, ResourceVersion, Shard, Uid};
use kube_store::Snapshot;

use changes::PendingChanges;
use deletions::{DeletionNumber, PendingDeletions};

/// The number of recorded deletions that triggers the first cleanup. Most programs delete fewer
/// objects at a time.
const MIN_CLEANUP_LEN: usize = 16;

/// Holds the writes of one epoch that are not visible in a cache yet.
///
/// The caller must create each snapshot while it holds the lock of this value. An older snapshot
/// cannot contain the object of a later write, so the object would be treated as missing or
/// deleted.
///
/// Invariant: no recorded change is visible in the cache. Visible deletions are removed when their
/// number has doubled.
#[derive(Debug, Default)]
pub(super) struct PendingWrites {
    epoch: u64,
    changes: PendingChanges,
    deletions: PendingDeletions,
    /// The number of deletions above which visible deletions are removed.
    cleanup_len: usize,
    /// The last pending version when the epoch changed, until a read has reported it.
    lost: Option<ResourceVersion>,
    /// The number of times that writes to other slots were forgotten.
    forgotten: u64,
}

/// The writes that one read must observe: all writes before the read.
///
/// A read ignores later writes. Otherwise, a read could wait indefinitely while other tasks write.
#[derive(Debug, Clone)]
pub(super) struct ReadBarrier {
    epoch: u64,
    version: Option<ResourceVersion>,
    last_deletion: DeletionNumber,
    forgotten: u64,
}

/// A write that is not visible in a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotVisible {
    /// The cache has not reached this version.
    Write(ResourceVersion),
    /// The cache still contains a deleted object.
    Deletion(ObjectKey),
    /// The epoch changed. This version belongs to the lost history.
    LostEpoch(ResourceVersion),
}

impl PendingWrites {
    /// Records a write. `covered` states whether the informer selects the object. It is `None` if
    /// only the server can decide.
    pub(super) fn record_write<T: Object>(
        &mut self,
        id: &ObjectId,
        covered: Option<bool>,
        cache: &Snapshot<T>,
    ) {
        self.advance(cache);
        // If a write removes the object from the selection, the watch reports a deletion at the
        // version of the write.
        let delivers_event = covered != Some(false) || self.may_contain(&id.key, cache);
        // Responses can arrive in a different order than the writes.
        let is_newest = self.changes.get(&id.key).is_none_or(|before| id.version.at_least(before));
        let is_pending = || !is_visible(cache, &id.key, &id.uid, &id.version);
        if delivers_event && is_newest && !id.version.is_opaque() && is_pending() {
            self.changes.insert(id.key.clone(), id.uid.clone(), id.version.clone());
            self.deletions.record_earlier_change(&id.key, &id.uid, &id.version);
        }
    }

    /// Records that an object was removed from the server.
    pub(super) fn record_delete<T: Object>(&mut self, key: ObjectKey, uid: Uid, cache: &Snapshot<T>) {
        self.advance(cache);
        if self.may_contain(&key, cache) {
            // If the server returned no uid, it has deleted the last object with this name.
            let cached = || cache.get(&key).map(|entry| &entry.id.uid);
            let last = self.changes.uid(&key).or_else(cached).filter(|_| uid.is_empty()).cloned();
            let uid = last.unwrap_or(uid);
            let after = self.changes.get(&key).cloned();
            self.deletions.insert(key, uid, after);
        }
        if self.deletions.len() > self.cleanup_len {
            self.deletions.remove_visible(cache);
            self.cleanup_len = 2 * self.deletions.len() + MIN_CLEANUP_LEN;
        }
    }

    fn may_contain<T: Object>(&self, key: &ObjectKey, cache: &Snapshot<T>) -> bool {
        cache.get(key).is_some() || self.changes.get(key).is_some()
    }

    /// Returns the barrier of a new read of this object, or of all objects.
    pub(super) fn barrier<T: Object>(&mut self, key: Option<&ObjectKey>, cache: &Snapshot<T>) -> ReadBarrier {
        self.advance(cache);
        let version = key.map_or_else(|| self.changes.latest(), |key| self.changes.get(key));
        ReadBarrier {
            epoch: self.epoch,
            version: version.cloned(),
            last_deletion: self.deletions.last_number(),
            forgotten: self.forgotten,
        }
    }

    /// Renews a barrier if it can contain forgotten writes. The new barrier also contains later writes.
    pub(super) fn renew<T: Object>(
        &mut self,
        barrier: &mut ReadBarrier,
        key: Option<&ObjectKey>,
        cache: &Snapshot<T>,
    ) {
        if barrier.forgotten != self.forgotten && barrier.epoch == self.epoch {
            *barrier = self.barrier(key, cache);
        }
    }

    /// Forgets the writes to objects that this shard does not contain.
    pub(super) fn forget_other_slots(&mut self, wanted: &Shard) {
        let is_other = |key: &ObjectKey, uid: &Uid| {
            let id = ObjectIdRef { key: key.as_ref(), uid: uid.clone(), version: ResourceVersion::new("") };
            !wanted.contains(&id)
        };
        self.changes.remove_visible(|key, uid, _| is_other(key, uid));
        self.deletions.forget(is_other);
        self.forgotten += 1;
    }

    /// Returns a write before the barrier that is not visible in the cache. Removes visible writes.
    ///
    /// A lost history is reported to each read that has a barrier of this history. If no read has
    /// such a barrier, it is reported to the next read.
    pub(super) fn not_visible<T: Object>(
        &mut self,
        barrier: &ReadBarrier,
        key: Option<&ObjectKey>,
        cache: &Snapshot<T>,
    ) -> Option<NotVisible> {
        self.advance(cache);
        let (lost, is_current) = (self.lost.take(), barrier.epoch == self.epoch);
        let lost = if is_current { lost } else { barrier.version.clone().or(lost) };
        if let Some(lost) = lost {
            return Some(NotVisible::LostEpoch(lost));
        }
        if !is_current {
            return None;
        }
        // Without an order of versions, `advance` has removed each visible change.
        let pending = match (cache.orders_versions(), key) {
            (true, _) => barrier.version.as_ref().filter(|version| !cache.has_applied(version)),
            (false, Some(key)) => self.changes.get(key),
            (false, None) => self.changes.latest(),
        };
        if let Some(version) = pending {
            return Some(NotVisible::Write(version.clone()));
        }
        self.deletions.first_not_visible(key, barrier.last_deletion, cache).map(NotVisible::Deletion)
    }

    /// Removes the visible changes, and all writes if the epoch changed.
    fn advance<T: Object>(&mut self, cache: &Snapshot<T>) {
        let epoch = cache.watermark().epoch;
        if self.epoch != epoch {
            let before =
                std::mem::replace(self, Self { epoch, forgotten: self.forgotten, ..Self::default() });
            self.lost = before.lost.or_else(|| before.changes.latest().cloned());
        }
        if cache.orders_versions() {
            self.changes.remove_up_to(|version| cache.has_applied(version));
        } else {
            self.changes.remove_visible(|key, uid, version| is_visible(cache, key, uid, version));
        }
    }
}

/// Returns whether a cache contains a write, or a later state of the object.
///
/// If versions have no order, this is known only for a cached object. An object that is not cached
/// may have been deleted since, so it counts as visible.
fn is_visible<T: Object>(cache: &Snapshot<T>, key: &ObjectKey, uid: &Uid, version: &ResourceVersion) -> bool {
    if cache.orders_versions() {
        return cache.has_applied(version);
    }
    cache.get(key).is_none_or(|cached| cached.id.uid.differs_from(uid) || cached.id.version.at_least(version))
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
