//! `Written`: what a program has written and its cache may not have seen yet. Plain data.

mod changes;

use std::collections::HashMap;

use kube_object::{Object, ObjectId, ObjectKey, ResourceVersion, Uid};
use kube_store::Snapshot;

use changes::Changes;

/// Writes that a cache has yet to show, all of one epoch of it.
///
/// Invariant: what the cache showed when it was last looked at is not kept, so that there are no more entries than
/// writes since then.
#[derive(Debug, Default)]
pub(crate) struct Written {
    epoch: u64,
    changed: Changes,
    deleted: HashMap<ObjectKey, Uid>,
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
        let deletion = match key {
            Some(key) => self.deleted.get_key_value(key).map(|(key, _)| key),
            None => self.deleted.keys().min(),
        };
        match change {
            Some(version) => Some(Unseen::Change(version.clone())),
            None => deletion.map(|key| Unseen::Deletion(key.clone())),
        }
    }

    /// Forgets what the cache shows, and everything where its epoch is another.
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
        let Self { changed, deleted, .. } = self;
        deleted.retain(|key, uid| {
            let held = cache.get(key).is_some_and(|entry| !entry.id.uid.differs_from(uid));
            held || changed.get(key).is_some()
        });
    }
}

#[cfg(test)]
mod tests;
