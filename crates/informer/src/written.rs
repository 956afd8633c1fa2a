//! `Written`: what a program has written and its cache may not have seen yet. Plain data.

mod changes;

use std::collections::BTreeMap;

use kube_object::{Object, ObjectId, ObjectKey, ResourceVersion, Uid};
use kube_store::Snapshot;

use changes::Changes;

/// Writes that a cache has yet to show, all of one epoch of it.
///
/// Invariant: there are no more entries than writes that the cache does not show, but for deletions that it shows by now:
/// of these no more than of the others, and a few.
#[derive(Debug, Default)]
pub(crate) struct Written {
    epoch: u64,
    changed: Changes,
    deleted: BTreeMap<ObjectKey, Uid>,
    /// With so many deletions those that the cache shows are forgotten.
    forget_at: usize,
    /// The last version that was awaited when a new epoch began, until that is said.
    lost: Option<ResourceVersion>,
}

/// What keeps a cache from showing what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unseen {
    /// It has not reached this version.
    Change(ResourceVersion),
    /// It still holds an object that was deleted.
    Deletion(ObjectKey),
    /// A new epoch has begun: this version is of the lost history.
    Lost(ResourceVersion),
}

impl Written {
    /// Somebody wrote an object. `covered`: whether the cache is to have it; `None` where only the server knows.
    pub(crate) fn change<T: Object>(&mut self, id: &ObjectId, covered: Option<bool>, cache: &Snapshot<T>) {
        self.look(cache);
        // One that leaves the selection is told as a deletion, at the version of this change.
        let told = covered != Some(false) || self.may_hold(&id.key, cache);
        // Answers may come in another order than the writes were made in.
        let newest = self.changed.get(&id.key).is_none_or(|before| id.version.at_least(before));
        if told && newest && !id.version.is_opaque() && !cache.has_reached(&id.version) {
            self.changed.insert(id.key.clone(), id.version.clone());
        }
    }

    /// Somebody deleted an object for good.
    pub(crate) fn delete<T: Object>(&mut self, key: ObjectKey, uid: Uid, cache: &Snapshot<T>) {
        self.look(cache);
        if self.may_hold(&key, cache) {
            // A server that does not say whom it deleted has deleted what is there.
            let held = || cache.get(&key).map_or_else(|| uid.clone(), |entry| entry.id.uid.clone());
            let uid = if uid.is_empty() { held() } else { uid };
            self.deleted.insert(key, uid);
        }
        if self.deleted.len() > self.forget_at {
            let Self { changed, deleted, .. } = self;
            deleted.retain(|key, uid| is_awaited(key, uid, changed, cache));
            self.forget_at = 2 * self.deleted.len() + SOME;
        }
    }

    fn may_hold<T: Object>(&self, key: &ObjectKey, cache: &Snapshot<T>) -> bool {
        cache.get(key).is_some() || self.changed.get(key).is_some()
    }

    /// What of this object, or of all, the cache does not show yet; forgets what it shows. What belongs to a lost
    /// history is said once.
    pub(crate) fn unseen<T: Object>(
        &mut self,
        key: Option<&ObjectKey>,
        cache: &Snapshot<T>,
    ) -> Option<Unseen> {
        self.look(cache);
        if let Some(lost) = self.lost.take() {
            return Some(Unseen::Lost(lost));
        }
        let change = key.map_or_else(|| self.changed.latest(), |key| self.changed.get(key));
        if let Some(version) = change {
            return Some(Unseen::Change(version.clone()));
        }
        // No read goes through all that is awaited: the first one that still is will do.
        while let Some((first, uid)) = match key {
            Some(key) => self.deleted.get_key_value(key),
            None => self.deleted.first_key_value(),
        } {
            let first = first.clone();
            if is_awaited(&first, uid, &self.changed, cache) {
                return Some(Unseen::Deletion(first));
            }
            self.deleted.remove(&first);
        }
        None
    }

    /// Forgets changes that the cache shows, and everything where its epoch is another.
    fn look<T: Object>(&mut self, cache: &Snapshot<T>) {
        let epoch = cache.position().epoch;
        // Somebody else has looked at the cache since this was taken.
        if epoch < self.epoch {
            return;
        }
        if self.epoch != epoch {
            let before = std::mem::replace(self, Self { epoch, ..Self::default() });
            self.lost = before.lost.or_else(|| before.changed.latest().cloned());
        }
        self.changed.forget_up_to(|version| cache.has_reached(version));
    }
}

/// More deletions than most programs make at a time.
const SOME: usize = 16;

/// Whether the cache still holds what was deleted, or may get it yet.
fn is_awaited<T: Object>(key: &ObjectKey, uid: &Uid, changed: &Changes, cache: &Snapshot<T>) -> bool {
    let held = cache.get(key).is_some_and(|entry| !entry.id.uid.differs_from(uid));
    held || changed.get(key).is_some()
}

#[cfg(test)]
mod tests;
