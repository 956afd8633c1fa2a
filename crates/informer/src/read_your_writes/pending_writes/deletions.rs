//! `PendingDeletions`: deleted objects that a cache may still contain, by number and by key.

use std::collections::{BTreeMap, BTreeSet};

use kube_object::{Object, ObjectKey, ResourceVersion, Uid};
use kube_store::Snapshot;

/// The position of a deletion in the order of recording. The first deletion has the number 1.
pub(super) type DeletionNumber = u64;

/// Invariant: each deletion is in both indexes. A key can occur several times, once for each
/// deleted object with this key.
#[derive(Debug, Default)]
pub(super) struct PendingDeletions {
    by_number: BTreeMap<DeletionNumber, PendingDeletion>,
    by_key: BTreeSet<(ObjectKey, DeletionNumber)>,
    last_number: DeletionNumber,
}

#[derive(Debug)]
struct PendingDeletion {
    key: ObjectKey,
    uid: Uid,
    /// A change of the object that was not visible when the object was deleted. Before the cache
    /// reaches this version, the object may still appear in the cache.
    after: Option<ResourceVersion>,
}

impl PendingDeletions {
    pub(super) fn last_number(&self) -> DeletionNumber {
        self.last_number
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn insert(&mut self, key: ObjectKey, uid: Uid, after: Option<ResourceVersion>) {
        self.last_number += 1;
        self.by_key.insert((key.clone(), self.last_number));
        self.by_number.insert(self.last_number, PendingDeletion { key, uid, after });
    }

    /// Records a change that precedes a deletion, if its response was received after the response
    /// to the deletion.
    pub(super) fn record_earlier_change(&mut self, key: &ObjectKey, uid: &Uid, version: &ResourceVersion) {
        for number in self.numbers(key, self.last_number) {
            if let Some(deletion) = self.by_number.get_mut(&number)
                && !deletion.uid.is_empty()
                && !deletion.uid.differs_from(uid)
                && deletion.after.as_ref().is_none_or(|after| version.at_least(after))
            {
                deletion.after = Some(version.clone());
            }
        }
    }

    /// Returns the object of the first deletion up to `last` that is not visible in the cache. With
    /// a key, checks only the deletions of this object. Removes the visible deletions that it
    /// finds, so that later reads do not scan them.
    pub(super) fn first_not_visible<T: Object>(
        &mut self,
        key: Option<&ObjectKey>,
        last: DeletionNumber,
        cache: &Snapshot<T>,
    ) -> Option<ObjectKey> {
        while let Some(number) = match key {
            _ if self.by_number.is_empty() => None,
            Some(key) => self.numbers(key, last).first().copied(),
            None => self.by_number.keys().next().copied().filter(|number| *number <= last),
        } {
            let deletion = self.by_number.get(&number)?;
            if !deletion.is_visible(cache) {
                return Some(deletion.key.clone());
            }
            self.remove(number);
        }
        None
    }

    /// Removes all visible deletions.
    pub(super) fn remove_visible<T: Object>(&mut self, cache: &Snapshot<T>) {
        let visible: Vec<DeletionNumber> = self
            .by_number
            .iter()
            .filter(|(_, deletion)| deletion.is_visible(cache))
            .map(|(number, _)| *number)
            .collect();
        visible.into_iter().for_each(|number| self.remove(number));
    }

    /// Removes the deletions for which `is_other` returns true.
    pub(super) fn forget(&mut self, is_other: impl Fn(&ObjectKey, &Uid) -> bool) {
        let other = self.by_number.iter().filter(|(_, deletion)| is_other(&deletion.key, &deletion.uid));
        let numbers: Vec<DeletionNumber> = other.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.remove(number));
    }

    fn numbers(&self, key: &ObjectKey, last: DeletionNumber) -> Vec<DeletionNumber> {
        self.by_key.range((key.clone(), 0)..=(key.clone(), last)).map(|(_, number)| *number).collect()
    }

    fn remove(&mut self, number: DeletionNumber) {
        if let Some(deletion) = self.by_number.remove(&number) {
            self.by_key.remove(&(deletion.key, number));
        }
    }
}

impl PendingDeletion {
    fn is_visible<T: Object>(&self, cache: &Snapshot<T>) -> bool {
        let is_cached = || cache.get(&self.key).is_some_and(|entry| !entry.id.uid.differs_from(&self.uid));
        let has_applied = |after| !cache.orders_versions() || cache.has_applied(after);
        self.after.as_ref().is_none_or(has_applied) && !is_cached()
    }
}
