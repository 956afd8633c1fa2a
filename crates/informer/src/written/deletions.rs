//! `Deletions`: what was deleted and a cache may still hold, in the order in which it was deleted, and found by its key.

use std::collections::{BTreeMap, BTreeSet};

use kube_object::{Object, ObjectKey, ResourceVersion, Uid};
use kube_store::Snapshot;

/// How many deletions were made before, and this one: the first is 1.
pub(super) type Number = u64;

/// Invariant: both hold the same. Of one key there are as many as objects of that name were deleted one after the other.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    in_order: BTreeMap<Number, Deletion>,
    by_key: BTreeSet<(ObjectKey, Number)>,
    made: Number,
}

#[derive(Debug)]
struct Deletion {
    key: ObjectKey,
    uid: Uid,
    /// A change of the object that the cache had not shown when it was deleted: until it does, the object may still come.
    after: Option<ResourceVersion>,
}

impl Deletions {
    /// That of the last one.
    pub(super) fn last(&self) -> Number {
        self.made
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len()
    }

    pub(super) fn insert(&mut self, key: ObjectKey, uid: Uid, after: Option<ResourceVersion>) {
        self.made += 1;
        self.by_key.insert((key.clone(), self.made));
        self.in_order.insert(self.made, Deletion { key, uid, after });
    }

    /// The answer to a write came after the one to the deletion that followed it.
    pub(super) fn changed_before(&mut self, key: &ObjectKey, uid: &Uid, version: &ResourceVersion) {
        for number in self.of(key, self.made) {
            if let Some(deletion) = self.in_order.get_mut(&number)
                && !deletion.uid.is_empty()
                && !deletion.uid.differs_from(uid)
                && deletion.after.as_ref().is_none_or(|after| version.at_least(after))
            {
                deletion.after = Some(version.clone());
            }
        }
    }

    /// The first up to this one, of this object or of all, that the cache does not show; forgets those before it. No read
    /// goes through all that is awaited.
    pub(super) fn first_unseen<T: Object>(
        &mut self,
        key: Option<&ObjectKey>,
        last: Number,
        cache: &Snapshot<T>,
    ) -> Option<ObjectKey> {
        while let Some(number) = match key {
            _ if self.in_order.is_empty() => None,
            Some(key) => self.of(key, last).first().copied(),
            None => self.in_order.keys().next().copied().filter(|number| *number <= last),
        } {
            let deletion = self.in_order.get(&number)?;
            if deletion.is_awaited(cache) {
                return Some(deletion.key.clone());
            }
            self.remove(number);
        }
        None
    }

    /// Forgets all that the cache shows.
    pub(super) fn forget_seen<T: Object>(&mut self, cache: &Snapshot<T>) {
        let seen: Vec<Number> = self
            .in_order
            .iter()
            .filter(|(_, deletion)| !deletion.is_awaited(cache))
            .map(|(number, _)| *number)
            .collect();
        seen.into_iter().for_each(|number| self.remove(number));
    }

    fn of(&self, key: &ObjectKey, last: Number) -> Vec<Number> {
        self.by_key.range((key.clone(), 0)..=(key.clone(), last)).map(|(_, number)| *number).collect()
    }

    fn remove(&mut self, number: Number) {
        if let Some(deletion) = self.in_order.remove(&number) {
            self.by_key.remove(&(deletion.key, number));
        }
    }
}

impl Deletion {
    fn is_awaited<T: Object>(&self, cache: &Snapshot<T>) -> bool {
        let is_held = || cache.get(&self.key).is_some_and(|entry| !entry.id.uid.differs_from(&self.uid));
        self.after.as_ref().is_some_and(|after| !cache.has_reached(after)) || is_held()
    }
}
