//! `Decoded`: one object of a list or a watch.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_object::{
    CacheProbe, Decode, DecodeContext, DecodeError, Digest, Entry, ObjectId, Outline, RawObject, Shard,
};

/// Represents an object that a list or a watch event contains, decoded or not.
#[derive(Debug)]
pub enum Decoded<T> {
    /// The decoded object, or the unchanged object from the cache.
    Object(Entry<T>),
    /// The object could not be decoded, but its identity is known.
    Undecodable {
        /// The identity of the object.
        id: ObjectId,
        /// The reason for the failure.
        error: DecodeError,
    },
}

impl<T> Decoded<T> {
    /// Returns the identity of the object.
    pub fn id(&self) -> &ObjectId {
        match self {
            Decoded::Object(entry) => &entry.id,
            Decoded::Undecodable { id, .. } => id,
        }
    }
}

/// Decodes objects, and reuses unchanged objects of the cache.
pub(crate) struct ObjectReader<'a, T> {
    pub(crate) context: &'a DecodeContext,
    pub(crate) decoder: &'a dyn Decode<T>,
    pub(crate) known: &'a dyn CacheProbe<T>,
    /// The part of the objects that the reader returns. `None` for all objects.
    pub(crate) shard: Option<Shard>,
}

impl<T: 'static> ObjectReader<'_, T> {
    /// Returns whether the shard does not contain the object. A server that does not support shards also
    /// returns such objects. They are not decoded. An object without a readable name is an error, and is
    /// in no slot.
    pub(crate) fn is_of_other_slot(&self, outline: &Outline<'_>) -> bool {
        self.shard.is_some_and(|shard| outline.id().is_some_and(|id| !shard.contains(id)))
    }

    /// Reads an object of a list. Returns the cached entry if the object is unchanged.
    ///
    /// # Errors
    /// Fails if the object has no usable identity.
    pub(crate) fn read(&self, outline: Outline<'_>) -> Result<Decoded<T>, DecodeError> {
        let digest = Digest::compute(&outline, self.context);
        if self.context.check_kind(&outline).is_ok()
            && let Some(entry) = outline.id().and_then(|id| self.known.find_unchanged(id, Some(digest)))
        {
            return Ok(Decoded::Object(entry));
        }
        self.decoded(outline, digest)
    }

    /// Reads the object of a change. A change always differs from the cached object, so the cache is not
    /// queried.
    ///
    /// # Errors
    /// Fails if the object has no usable identity.
    pub(crate) fn read_change(&self, outline: Outline<'_>) -> Result<Decoded<T>, DecodeError> {
        let digest = Digest::compute(&outline, self.context);
        self.decoded(outline, digest)
    }

    fn decoded(&self, outline: Outline<'_>, digest: Digest) -> Result<Decoded<T>, DecodeError> {
        let raw = RawObject::new(outline, self.context)?;
        Ok(match self.decode(&raw) {
            Ok(object) => Decoded::Object(Entry::new(raw.id, object.into()).with_digest(digest)),
            Err(error) => Decoded::Undecodable { id: raw.id, error },
        })
    }

    /// Catches panics of the program's decoder. One object must not end the watch.
    fn decode(&self, raw: &RawObject<'_>) -> Result<T, DecodeError> {
        raw.check_kind()?;
        let decoding = AssertUnwindSafe(|| self.decoder.decode(raw));
        catch_unwind(decoding).unwrap_or(Err(DecodeError::Panicked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use kube_object::{NoCache, TypeMeta};

    struct Panicking;

    impl Decode<Pod> for Panicking {
        fn decode(&self, _: &RawObject<'_>) -> Result<Pod, DecodeError> {
            panic!("hunter2")
        }
    }

    #[test]
    fn panicking_decoder_makes_object_undecodable() {
        let context = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let reader = ObjectReader { context: &context, decoder: &Panicking, known: &NoCache, shard: None };
        let decoded = reader.read(Outline::scan(br#"{"metadata":{"name":"a"}}"#)).unwrap();
        let Decoded::Undecodable { id, error } = decoded else { panic!("{decoded:?}") };
        assert_eq!((id.key.name(), error), ("a", DecodeError::Panicked));
        assert_eq!(reader.read(Outline::scan(b"{}")).unwrap_err(), DecodeError::NoName);
    }
}
