//! `Changes`: the last version of each object that was written, found by its key, and forgotten in the order of versions.
//! Reads come more often than writes, and a cache that lags has many of them ahead of it: no read goes through all.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
};

use kube_object::{ObjectKey, ResourceVersion, Uid};

/// Invariant: both hold the same. No version is opaque.
#[derive(Debug, Default)]
pub(super) struct Changes {
    by_key: HashMap<ObjectKey, (ResourceVersion, Uid)>,
    by_version: BTreeSet<Change>,
}

#[derive(Debug, Clone)]
struct Change {
    version: ResourceVersion,
    key: ObjectKey,
}

impl Changes {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&ResourceVersion> {
        self.by_key.get(key).map(|(version, _)| version)
    }

    /// Which object of this name it was that was written.
    pub(super) fn uid(&self, key: &ObjectKey) -> Option<&Uid> {
        self.by_key.get(key).map(|(_, uid)| uid)
    }

    /// The last version of all.
    pub(super) fn latest(&self) -> Option<&ResourceVersion> {
        self.by_version.last().map(|change| &change.version)
    }

    /// `version` is a number: only these have an order.
    pub(super) fn insert(&mut self, key: ObjectKey, uid: Uid, version: ResourceVersion) {
        if let Some((before, _)) = self.by_key.insert(key.clone(), (version.clone(), uid)) {
            self.by_version.remove(&Change { version: before, key: key.clone() });
        }
        self.by_version.insert(Change { version, key });
    }

    /// Forgets those with such a version. With a version it holds for all that are lower.
    pub(super) fn forget_up_to(&mut self, is_seen: impl Fn(&ResourceVersion) -> bool) {
        while self.by_version.first().is_some_and(|change| is_seen(&change.version)) {
            if let Some(change) = self.by_version.pop_first() {
                self.by_key.remove(&change.key);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_version.is_empty()
    }
}

impl Ord for Change {
    fn cmp(&self, other: &Self) -> Ordering {
        let versions = self.version.partial_cmp(&other.version).unwrap_or(Ordering::Equal);
        versions.then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for Change {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Change {}
