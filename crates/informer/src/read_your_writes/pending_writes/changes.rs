//! `PendingChanges`: the last written version of each object, by key and by version.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
};

use kube_object::{ObjectKey, ResourceVersion, Uid};

/// Indexes the changes by key and by version. Reads are more frequent than writes, and a lagging
/// cache can have many pending writes, so a read must not scan all writes.
///
/// Invariants: each change is in both indexes, and no version is opaque.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    by_key: HashMap<ObjectKey, (ResourceVersion, Uid)>,
    by_version: BTreeSet<VersionedKey>,
}

#[derive(Debug, Clone)]
struct VersionedKey {
    version: ResourceVersion,
    key: ObjectKey,
}

impl PendingChanges {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&ResourceVersion> {
        self.by_key.get(key).map(|(version, _)| version)
    }

    /// Returns the uid of the written object with this key.
    pub(super) fn uid(&self, key: &ObjectKey) -> Option<&Uid> {
        self.by_key.get(key).map(|(_, uid)| uid)
    }

    /// Returns the highest version of all changes.
    pub(super) fn latest(&self) -> Option<&ResourceVersion> {
        self.by_version.last().map(|change| &change.version)
    }

    /// Stores the last change of a key. The version must not be opaque, because opaque versions
    /// have no order.
    pub(super) fn insert(&mut self, key: ObjectKey, uid: Uid, version: ResourceVersion) {
        if let Some((before, _)) = self.by_key.insert(key.clone(), (version.clone(), uid)) {
            self.by_version.remove(&VersionedKey { version: before, key: key.clone() });
        }
        self.by_version.insert(VersionedKey { version, key });
    }

    /// Removes the visible changes. If `is_visible` returns true for a version, it must return true
    /// for all lower versions.
    pub(super) fn remove_up_to(&mut self, is_visible: impl Fn(&ResourceVersion) -> bool) {
        while self.by_version.first().is_some_and(|change| is_visible(&change.version)) {
            if let Some(change) = self.by_version.pop_first() {
                self.by_key.remove(&change.key);
            }
        }
    }

    /// Removes the changes for which `is_visible` returns true. Visits each change.
    pub(super) fn remove_visible(&mut self, is_visible: impl Fn(&ObjectKey, &Uid, &ResourceVersion) -> bool) {
        let Self { by_key, by_version } = self;
        by_key.retain(|key, (version, uid)| {
            let pending = !is_visible(key, uid, version);
            if !pending {
                by_version.remove(&VersionedKey { version: version.clone(), key: key.clone() });
            }
            pending
        });
    }

    /// Panics unless both indexes contain the same changes.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.by_key.len(), self.by_version.len());
        for VersionedKey { version, key } in &self.by_version {
            assert_eq!(self.get(key), Some(version), "each version belongs to its key");
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_version.is_empty()
    }
}

impl Ord for VersionedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let versions = self.version.partial_cmp(&other.version).unwrap_or(Ordering::Equal);
        versions.then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for VersionedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for VersionedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for VersionedKey {}
