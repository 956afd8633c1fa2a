//! `Decoded`: one object as it came, for lists and watches alike.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_object::{
    CacheProbe, Decode, DecodeContext, DecodeError, Digest, Entry, ObjectId, Outline, RawObject,
};

/// An object as it came from the server.
#[derive(Debug)]
pub enum Decoded<T> {
    /// It was decoded, or is known already.
    Object(Entry<T>),
    /// It could not be decoded, but it is known who it is.
    Undecodable {
        /// Who it is.
        id: ObjectId,
        /// Why it could not be decoded.
        error: DecodeError,
    },
}

impl<T> Decoded<T> {
    /// Who this is.
    pub fn id(&self) -> &ObjectId {
        match self {
            Decoded::Object(entry) => &entry.id,
            Decoded::Undecodable { id, .. } => id,
        }
    }
}

/// How objects are read: what was asked for, how it is decoded, what is known already.
pub(crate) struct ObjectReader<'a, T> {
    pub(crate) asked: &'a DecodeContext,
    pub(crate) decoder: &'a dyn Decode<T>,
    pub(crate) known: &'a dyn CacheProbe<T>,
}

impl<T: 'static> ObjectReader<'_, T> {
    /// One object: what is known is handed back, what can't be decoded keeps its name.
    ///
    /// # Errors
    /// It can't even be found out who it is.
    pub(crate) fn read(&self, outline: Outline<'_>) -> Result<Decoded<T>, DecodeError> {
        let digest = Digest::of(&outline, self.asked);
        if self.asked.check_kind(&outline).is_ok()
            && let Some(entry) = outline.id().and_then(|id| self.known.unchanged(id, Some(digest)))
        {
            return Ok(Decoded::Object(entry));
        }
        self.decoded(outline, digest)
    }

    /// One that differs from all that was sent before, as a change does: nobody is asked whether it is known.
    ///
    /// # Errors
    /// As for [`ObjectReader::read`].
    pub(crate) fn read_change(&self, outline: Outline<'_>) -> Result<Decoded<T>, DecodeError> {
        let digest = Digest::of(&outline, self.asked);
        self.decoded(outline, digest)
    }

    fn decoded(&self, outline: Outline<'_>, digest: Digest) -> Result<Decoded<T>, DecodeError> {
        let raw = RawObject::new(outline, self.asked)?;
        Ok(match self.decode(&raw) {
            Ok(object) => Decoded::Object(Entry::new(raw.id, object.into()).with_digest(digest)),
            Err(error) => Decoded::Undecodable { id: raw.id, error },
        })
    }

    /// The types are the program's: one object must not end the watch of all.
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
    fn an_object_whose_type_panics_is_undecodable_and_keeps_its_name() {
        let asked = DecodeContext::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() });
        let reader = ObjectReader { asked: &asked, decoder: &Panicking, known: &NoCache };
        let decoded = reader.read(Outline::of(br#"{"metadata":{"name":"a"}}"#)).unwrap();
        let Decoded::Undecodable { id, error } = decoded else { panic!("{decoded:?}") };
        assert_eq!((id.key.name(), error), ("a", DecodeError::Panicked));
        assert_eq!(reader.read(Outline::of(b"{}")).unwrap_err(), DecodeError::NoName);
    }
}
