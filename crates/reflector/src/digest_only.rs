//! `DigestOnlyProbe`: what may be reused of a cache when versions may be those of another history.

use std::sync::Arc;

use kube_object::{CacheProbe, Digest, Entry, ObjectIdRef, VersionTrust};

/// Knows what the other one knows and can tell by more than a version.
///
/// A list after an expiry may be of a history in which the same uids and versions stand for other states, as after a restore
/// of etcd.
pub(crate) struct DigestOnlyProbe<T>(pub(crate) Arc<dyn CacheProbe<T>>);

impl<T> CacheProbe<T> for DigestOnlyProbe<T> {
    fn unchanged(&self, id: &ObjectIdRef<'_>, digest: Option<Digest>) -> Option<Entry<T>> {
        self.0
            .unchanged(id, digest)
            .filter(|held| held.is_unchanged(&id.version, digest, VersionTrust::AnyHistory))
    }
}
