//! `Decoded`: one object as it came, for lists and watches alike.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_object::{Decode, DecodeError, Entry, Known, ObjectId, TypeMeta};

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

/// One object: what is known is handed back, what can't be decoded keeps its name.
///
/// # Errors
/// It can't even be found out who it is.
pub(crate) fn decode<T: 'static>(
    bytes: &[u8],
    decoder: &dyn Decode<T>,
    kind: &TypeMeta,
    known: &dyn Known<T>,
) -> Result<Decoded<T>, DecodeError> {
    let id = decoder.peek(bytes);
    if let Some(entry) = id.and_then(|id| known.unchanged(&id)) {
        return Ok(Decoded::Object(entry));
    }
    let id = id.map(ObjectId::from).or_else(|| decoder.identify(bytes));
    // The types are the program's: one object must not end the watch of all.
    let decoding = AssertUnwindSafe(|| decoder.decode(bytes, kind));
    let object = catch_unwind(decoding).unwrap_or(Err(DecodeError::Panicked));
    match (id, object) {
        (Some(id), Ok(object)) => Ok(Decoded::Object(Entry::new(id, object.into()))),
        (Some(id), Err(error)) => Ok(Decoded::Undecodable { id, error }),
        // That there is no name says more than which field the decoder misses first.
        (None, Ok(_) | Err(DecodeError::Shape { .. })) => Err(DecodeError::NoName),
        (None, Err(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use kube_object::{Id, JsonDecoder, NothingKnown};

    struct Panicking;

    impl Decode<Pod> for Panicking {
        fn peek<'a>(&self, frame: &'a [u8]) -> Option<Id<'a>> {
            Decode::<Pod>::peek(&JsonDecoder, frame)
        }

        fn decode(&self, _: &[u8], _: &TypeMeta) -> Result<Pod, DecodeError> {
            panic!("hunter2")
        }
    }

    #[test]
    fn an_object_whose_type_panics_is_undecodable_and_keeps_its_name() {
        let kind = TypeMeta { api_version: "v1".into(), kind: "Pod".into() };
        let read = |frame: &str| decode(frame.as_bytes(), &Panicking, &kind, &NothingKnown);
        let decoded = read(r#"{"metadata":{"name":"a"}}"#).unwrap();
        let Decoded::Undecodable { id, error } = decoded else { panic!("{decoded:?}") };
        assert_eq!((id.key.name(), error), ("a", DecodeError::Panicked));
        assert_eq!(read("{}").unwrap_err(), DecodeError::Panicked);
    }
}
