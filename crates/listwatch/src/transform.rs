//! Transforms: user functions that change each object once, after it is decoded.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube_object::{Decode, DecodeError, Entry, RawObject};

use crate::Decoded;

/// A user function. The reason of its failure is a static text, and therefore cannot contain the text of
/// an object.
pub(crate) type Transform<T> = Arc<dyn Fn(&mut T) -> Result<(), &'static str> + Send + Sync>;

/// Decodes an object, then transforms it. The identity of the object is read before both steps.
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

/// Transforms an object. After a failure, the object must not be used.
pub(crate) fn apply<T>(transform: &Transform<T>, object: &mut T) -> Result<(), DecodeError> {
    let call = AssertUnwindSafe(|| transform(object));
    let reason = match catch_unwind(call) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(reason)) => reason,
        Err(_) => "the transform panicked",
    };
    Err(DecodeError::Transform { reason })
}

/// Transforms the object of an entry.
pub(crate) fn apply_to_entry<T>(transform: &Transform<T>, mut entry: Entry<T>) -> Decoded<T> {
    let transformed = match Arc::get_mut(&mut entry.object) {
        Some(object) => apply(transform, object),
        // Another owner of the object may have read it, or transformed it.
        None => Err(DecodeError::Transform { reason: "the source holds another reference to the object" }),
    };
    match transformed {
        Ok(()) => Decoded::Object(entry),
        Err(error) => Decoded::Undecodable { id: entry.id, error },
    }
}
