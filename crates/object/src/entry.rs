//! `Entry`: an object beside its identity, the form in which objects travel and are kept.

use std::{fmt, ops::Deref, sync::Arc};

use crate::{Digest, Object, ObjectIdRef, ObjectKey, ResourceVersion, Uid};

/// The owned identity of an object at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectId {
    /// Its address.
    pub key: ObjectKey,
    /// Its incarnation.
    pub uid: Uid,
    /// Its version.
    pub version: ResourceVersion,
}

impl ObjectId {
    /// The same identity, its key borrowed.
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

/// An object and its identity. Dereferences to the object; cloning it copies no object.
///
/// `Debug` shows the identity and never the object, so that an entry can be logged.
pub struct Entry<T> {
    /// The identity as the server sent it, whatever a transform made of the object.
    pub id: ObjectId,
    /// The value, shared by the cache and by everybody who looks at it.
    pub object: Arc<T>,
    /// What the server's JSON said; `None` where the object did not come as JSON.
    pub digest: Option<Digest>,
}

impl<T> Entry<T> {
    /// An entry of this object under an identity taken from elsewhere.
    pub fn new(id: ObjectId, object: Arc<T>) -> Self {
        Self { id, object, digest: None }
    }

    /// The same, of an object whose JSON has this digest.
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
    /// An entry under the identity that the value itself states.
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

/// Two entries are equal when they share one value under one identity.
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

    /// Each object in a cache has one, and each event one or two.
    #[test]
    fn an_entry_takes_ten_words() {
        assert_eq!((size_of::<ObjectId>(), size_of::<Entry<u8>>()), (64, 80));
    }
}
