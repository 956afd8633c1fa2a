//! `Decoded`: one object as it came, for lists and watches alike.

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
    match (id, decoder.decode(bytes, kind)) {
        (Some(id), Ok(object)) => Ok(Decoded::Object(Entry::new(id, object.into()))),
        (Some(id), Err(error)) => Ok(Decoded::Undecodable { id, error }),
        // That there is no name says more than which field the decoder misses first.
        (None, Ok(_) | Err(DecodeError::Shape { .. })) => Err(DecodeError::NoName),
        (None, Err(error)) => Err(error),
    }
}
