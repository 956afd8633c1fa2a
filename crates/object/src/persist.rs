//! `Persist`: the conversion of cached objects to the bytes of a file and back.

use std::sync::Arc;

use kube_core::{Resource, metadata::TypeMeta};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Cached, DecodeError, ObjectId, decode_json};

/// Converts cached objects to the bytes of a file, and converts these bytes to equal objects. Informers
/// with a snapshot need this trait.
///
/// A resource type implements this trait if it implements `Serialize`. The bytes are then its JSON. Another
/// process must read exactly the fields that this process has cached. Do not use snapshots for a type that
/// serializes other fields than it deserializes, for example because of `#[serde(skip_serializing)]`.
pub trait Persist: Cached {
    /// The name of the form of the bytes. A file of another form is not used.
    const FORM: &'static str;
    /// Whether the bytes are already compressed.
    const IS_COMPRESSED: bool = false;
    /// The data that the objects of a file share, for example dictionaries. A writer and a reader of a file
    /// start with the default.
    type Shared: Default + Send;

    /// Appends the bytes of this object.
    ///
    /// # Errors
    /// Returns an error if the object cannot be converted.
    fn persist(&self, shared: &mut Self::Shared, out: &mut Vec<u8>) -> Result<(), PersistError>;

    /// Creates the object with this identity from its bytes. The caller must pass the objects of a file in
    /// the order in which they were written. `kind` is the kind of the resource.
    ///
    /// # Errors
    /// Returns an error if [`persist`](Persist::persist) did not create these bytes.
    fn restore(
        bytes: &[u8],
        id: &ObjectId,
        kind: &Arc<TypeMeta>,
        shared: &mut Self::Shared,
    ) -> Result<Self, PersistError>;
}

/// Reports why an object could not be written to a file or read from it. Never contains text of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// The `Serialize` implementation of the type returned an error.
    #[error("cannot serialize the object as JSON")]
    Serialize,
    /// The bytes of the object could not be decoded.
    #[error("cannot decode the stored object: {0}")]
    Decode(#[from] DecodeError),
    /// The bytes have another form.
    #[error("the stored object is malformed")]
    Malformed,
    /// The context for a compression could not be created, probably because not enough memory is available.
    #[error("cannot create a compression context")]
    Compression,
}

impl<K: Resource + DeserializeOwned + Serialize + Send + Sync + 'static> Persist for K {
    const FORM: &'static str = "JSON of the type";
    type Shared = ();

    fn persist(&self, (): &mut (), out: &mut Vec<u8>) -> Result<(), PersistError> {
        serde_json::to_writer(out, self).map_err(|_| PersistError::Serialize)
    }

    fn restore(bytes: &[u8], _: &ObjectId, kind: &Arc<TypeMeta>, (): &mut ()) -> Result<K, PersistError> {
        Ok(decode_json(bytes, kind)?)
    }
}
