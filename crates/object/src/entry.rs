//! `Entry`: an object and its identity.

use std::{fmt, ops::Deref, sync::Arc};

use crate::{Digest, Object, ObjectIdRef, ObjectKey, ResourceVersion, Uid};

/// Identifies one version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectId {
    /// The namespace and name.
    pub key: ObjectKey,
    /// The uid; empty if the server sent none.
    pub uid: Uid,
    /// The resourceVersion; empty if the server sent none.
    pub version: ResourceVersion,
}

impl ObjectId {
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

/// Holds an object and its identity. Dereferences to the object. A clone shares the object.
///
/// `Debug` prints the identity and never the object, so an entry can be logged.
pub struct Entry<T> {
    /// The identity that the server sent. A transform does not change it.
    pub id: ObjectId,
    /// The object, shared by the cache and its readers.
    pub object: Arc<T>,
    /// The digest of the server's JSON; `None` if the object did not come as JSON.
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

    /// Returns whether an object with this version and digest has the state of this entry.
    ///
    /// Both must have the same key and uid. If both digests are known, they must be equal. If one is unknown, `trust`
    /// decides whether the version is sufficient.
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
    /// Creates an entry with the identity in the value.
    pub fn of(object: T) -> Self {
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
    /// The versions belong to the same history of the server. Equal versions of an object have the same state.
    SameHistory,
    /// The versions may belong to different histories, for example after a restore of etcd. Only equal digests prove that
    /// an object is unchanged.
    AnyHistory,
}

/// Finds the cached state of a listed object.
///
/// A list is decoded with a probe, so that unchanged objects are neither decoded nor allocated again. The store implements
/// this trait. Use [`NoCache`] in programs without a store.
pub trait CacheProbe<T>: Send + Sync {
    /// Returns the cached entry with this key if it is unchanged.
    ///
    /// It must have the same uid and the same version. If `digest` is given and the digest of the cached entry is known,
    /// they must also be equal.
    fn unchanged(&self, id: &ObjectIdRef<'_>, digest: Option<Digest>) -> Option<Entry<T>>;
}

/// Contains no objects, so that every listed object is decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl<T> CacheProbe<T> for NoCache {
    fn unchanged(&self, _: &ObjectIdRef<'_>, _: Option<Digest>) -> Option<Entry<T>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cache holds one per object, and each event one or two.
    #[test]
    fn entry_takes_ten_words() {
        assert_eq!((size_of::<ObjectId>(), size_of::<Entry<u8>>()), (64, 80));
    }
}
