//! `Written`: what a program has written and its cache may not have seen yet. Plain data.

mod changes;
mod deletions;

use kube_object::{Object, ObjectId, ObjectKey, ResourceVersion, Uid};
use kube_store::Snapshot;

use changes::Changes;
use deletions::{Deletions, Number};

/// Writes that a cache has yet to show, all of one epoch of it. Each look is at a snapshot that was taken while this was
/// locked: an older one would show what was written since as missing, or as gone.
///
/// Invariant: there are no more entries than writes that the cache does not show, but for deletions that it shows by now:
/// of these no more than were awaited at once, and a few.
#[derive(Debug, Default)]
pub(crate) struct Written {
    epoch: u64,
    changed: Changes,
    deleted: Deletions,
    /// With so many deletions those that the cache shows are forgotten.
    forget_at: usize,
    /// The last version that was awaited when a new epoch began, until that is said.
    lost: Option<ResourceVersion>,
}

/// What a read is to be shown: what was written before it began. What others write while it waits is none of its business,
/// or it would wait for as long as they go on.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    epoch: u64,
    change: Option<ResourceVersion>,
    last_deletion: Number,
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
            self.changed.insert(id.key.clone(), id.uid.clone(), id.version.clone());
            self.deleted.changed_before(&id.key, &id.uid, &id.version);
        }
    }

    /// Somebody deleted an object for good.
    pub(crate) fn delete<T: Object>(&mut self, key: ObjectKey, uid: Uid, cache: &Snapshot<T>) {
        self.look(cache);
        if self.may_hold(&key, cache) {
            // A server that does not say whom it deleted has deleted what was there last.
            let held = || cache.get(&key).map(|entry| &entry.id.uid);
            let last = self.changed.uid(&key).or_else(held).filter(|_| uid.is_empty()).cloned();
            let uid = last.unwrap_or(uid);
            let after = self.changed.get(&key).cloned();
            self.deleted.insert(key, uid, after);
        }
        if self.deleted.len() > self.forget_at {
            self.deleted.forget_seen(cache);
            self.forget_at = 2 * self.deleted.len() + SOME;
        }
    }

    fn may_hold<T: Object>(&self, key: &ObjectKey, cache: &Snapshot<T>) -> bool {
        cache.get(key).is_some() || self.changed.get(key).is_some()
    }

    /// What a read of this object, or of all, that begins now is to be shown.
    pub(crate) fn goal<T: Object>(&mut self, key: Option<&ObjectKey>, cache: &Snapshot<T>) -> Goal {
        self.look(cache);
        let change = key.map_or_else(|| self.changed.latest(), |key| self.changed.get(key));
        Goal { epoch: self.epoch, change: change.cloned(), last_deletion: self.deleted.last() }
    }

    /// What of it the cache does not show yet; forgets what it shows. What belongs to a lost history is said to each read
    /// that waits for such a write, or else to the next one.
    pub(crate) fn unseen<T: Object>(
        &mut self,
        goal: &Goal,
        key: Option<&ObjectKey>,
        cache: &Snapshot<T>,
    ) -> Option<Unseen> {
        self.look(cache);
        let (lost, is_of_now) = (self.lost.take(), goal.epoch == self.epoch);
        let lost = if is_of_now { lost } else { goal.change.clone().or(lost) };
        if let Some(lost) = lost {
            return Some(Unseen::Lost(lost));
        }
        if !is_of_now {
            return None;
        }
        if let Some(version) = goal.change.as_ref().filter(|version| !cache.has_reached(version)) {
            return Some(Unseen::Change(version.clone()));
        }
        self.deleted.first_unseen(key, goal.last_deletion, cache).map(Unseen::Deletion)
    }

    /// Forgets changes that the cache shows, and everything where its epoch is another.
    fn look<T: Object>(&mut self, cache: &Snapshot<T>) {
        let epoch = cache.position().epoch;
        if self.epoch != epoch {
            let before = std::mem::replace(self, Self { epoch, ..Self::default() });
            self.lost = before.lost.or_else(|| before.changed.latest().cloned());
        }
        self.changed.forget_up_to(|version| cache.has_reached(version));
    }
}

/// More deletions than most programs make at a time.
const SOME: usize = 16;

#[cfg(test)]
mod tests;
