//! `Entry`: an object and its identity.

use std::{fmt, ops::Deref, sync::Arc};

use crate::{Digest, Object, ObjectIdRef, ObjectKey, ObjectMemory, ResourceVersion, Uid, memory::ARC_BYTES};

/// Identifies one version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectId {
    /// The namespace and name.
    pub key: ObjectKey,
    /// The uid. Empty if the server did not send a uid.
    pub uid: Uid,
    /// The resourceVersion. Empty if the server did not send a version.
    pub version: ResourceVersion,
}

impl ObjectId {
    /// Returns whether the object has a name. Each object of an API server has a name, but a custom
    /// source can return objects without a name.
    pub fn has_name(&self) -> bool {
        !self.key.name().is_empty()
    }

    /// Returns the identity with a borrowed key.
    pub fn as_id(&self) -> ObjectIdRef<'_> {
        ObjectIdRef { key: self.key.as_ref(), uid: self.uid.clone(), version: self.version.clone() }
    }
}

impl From<ObjectIdRef<'_>> for ObjectId {
    fn from(id: ObjectIdRef<'_>) -> Self {
        Self { key: id.key.to_key(), uid: id.uid, version: id.version }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at resourceVersion {}", self.key, self.version)
    }
}

/// Holds an object and its identity. An entry dereferences to the object. A clone shares the
/// object.
///
/// `Debug` prints the identity but not the object, so you can log an entry.
pub struct Entry<T> {
    /// The identity that the server sent. A transform cannot change this identity.
    pub id: ObjectId,
    /// The object, shared by the cache and its readers.
    pub object: Arc<T>,
    /// The digest of the JSON that the server sent. `None` if the object was not received as JSON.
    pub digest: Option<Digest>,
}

impl<T> Entry<T> {
    /// Creates an entry with this identity.
    pub fn new(id: ObjectId, object: Arc<T>) -> Self {
        Self { id, object, digest: None }
    }

    /// Sets the digest of the object's JSON.
    #[must_use]
    pub fn with_digest(self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self }
    }

    /// Returns the key of the object.
    pub fn key(&self) -> &ObjectKey {
        &self.id.key
    }

    /// Returns whether another state of the object, with the version `version` and the digest `digest`,
    /// is equal to the state of this entry.
    ///
    /// The caller must check that both states have the same key and uid. This method returns false if
    /// the versions differ, or if both digests are known and differ. If a digest is unknown, equal
    /// versions are sufficient only with [`VersionTrust::SameHistory`].
    pub fn is_unchanged(
        &self,
        version: &ResourceVersion,
        digest: Option<Digest>,
        trust: VersionTrust,
    ) -> bool {
        self.id.version == *version
            && match (self.digest, digest) {
                (Some(held), Some(other)) => held == other,
                _ => trust == VersionTrust::SameHistory,
            }
    }
}

impl<T: Object> Entry<T> {
    /// Returns the memory of the entry, its identity and its object.
    pub fn memory(&self) -> ObjectMemory {
        let object = self.object.memory();
        let ObjectId { key, uid, version } = &self.id;
        let identity = key.heap_bytes() + uid.heap_bytes() + version.heap_bytes();
        ObjectMemory { bytes: size_of::<Self>() + identity + ARC_BYTES + object.bytes, ..object }
    }

    /// Creates an entry from an object. The identity is read from the object, and there is no
    /// digest.
    pub fn from_object(object: T) -> Self {
        let id = ObjectId::from(object.id());
        Self::new(id, Arc::new(object))
    }
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self { id: self.id.clone(), object: Arc::clone(&self.object), digest: self.digest }
    }
}

impl<T> Deref for Entry<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// Entries are equal if they have the same identity and share one value.
impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.object, &other.object)
    }
}

/// States whether an equal resourceVersion proves that an object is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionTrust {
    /// The versions belong to the same history of the server. An equal version proves that the
    /// object is unchanged.
    SameHistory,
    /// The versions may belong to different histories, for example after a restore of etcd. Only an
    /// equal digest proves that the object is unchanged.
    AnyHistory,
}

/// Finds the cached state of a listed object.
///
/// The decoder of a list uses a probe, so that unchanged objects are not decoded and allocated
/// again. The store implements this trait. In a program without a store, use [`NoCache`].
pub trait CacheProbe<T>: Send + Sync {
    /// Returns the cached entry of the listed object `id`, if the object is unchanged.
    ///
    /// An object is unchanged if uid and version are equal. If both digests are known, they must
    /// also be equal.
    fn find_unchanged(&self, id: &ObjectIdRef<'_>, digest: Option<Digest>) -> Option<Entry<T>>;
}

/// Implements [`CacheProbe`] for an empty cache. Every listed object is decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl<T> CacheProbe<T> for NoCache {
    fn find_unchanged(&self, _: &ObjectIdRef<'_>, _: Option<Digest>) -> Option<Entry<T>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cache holds one entry per object, and each event holds one or two entries.
    #[test]
    fn entry_size_is_80_bytes() {
        assert_eq!((size_of::<ObjectId>(), size_of::<Entry<u8>>()), (64, 80));
    }
}
