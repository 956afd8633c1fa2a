//! A function of the user's that changes each object once, right after it was decoded.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube_object::{Decode, DecodeError, Entry, RawObject};

use crate::Decoded;

/// Its reason is a text of the program, so that no text of an object can reach a log.
pub(crate) type Transform<T> = Arc<dyn Fn(&mut T) -> Result<(), &'static str> + Send + Sync>;

/// Decodes, then transforms. Who an object is comes from its bytes, before either.
pub(crate) struct Transforming<T> {
    pub(crate) decoder: Arc<dyn Decode<T>>,
    pub(crate) transform: Transform<T>,
}

impl<T: 'static> Decode<T> for Transforming<T> {
    fn decode(&self, raw: &RawObject<'_>) -> Result<T, DecodeError> {
        let mut object = self.decoder.decode(raw)?;
        apply(&self.transform, &mut object)?;
        Ok(object)
    }
}

/// Transforms an object; what it was changed into is of no use where this fails.
pub(crate) fn apply<T>(transform: &Transform<T>, object: &mut T) -> Result<(), DecodeError> {
    let call = AssertUnwindSafe(|| transform(object));
    let reason = match catch_unwind(call) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(reason)) => reason,
        Err(_) => "it panicked",
    };
    Err(DecodeError::Transform { reason })
}

/// Transforms an object that its source has made an entry of already.
pub(crate) fn apply_to_entry<T>(transform: &Transform<T>, mut entry: Entry<T>) -> Decoded<T> {
    let transformed = match Arc::get_mut(&mut entry.object) {
        Some(object) => apply(transform, object),
        // Nobody can say who has seen it, or whether it was transformed already.
        None => Err(DecodeError::Transform { reason: "the object is shared by its source" }),
    };
    match transformed {
        Ok(()) => Decoded::Object(entry),
        Err(error) => Decoded::Undecodable { id: entry.id, error },
    }
}
