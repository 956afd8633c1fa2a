//! `DigestOnlyProbe`: reuses cached objects in a new epoch.

use std::sync::Arc;

use kube_object::{CacheProbe, Digest, Entry, ObjectIdRef, VersionTrust};

/// Returns an entry of the inner probe only if the digests are equal.
///
/// After an expired version, a list can belong to another history, for example after a restore of etcd.
/// There, an equal uid and version do not prove an equal object.
pub(crate) struct DigestOnlyProbe<T>(pub(crate) Arc<dyn CacheProbe<T>>);

impl<T> CacheProbe<T> for DigestOnlyProbe<T> {
    fn find_unchanged(&self, id: &ObjectIdRef<'_>, digest: Option<Digest>) -> Option<Entry<T>> {
        self.0
            .find_unchanged(id, digest)
            .filter(|held| held.is_unchanged(&id.version, digest, VersionTrust::AnyHistory))
    }
}
