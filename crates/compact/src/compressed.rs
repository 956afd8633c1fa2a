//! `Compressed`: caches an object as its compressed JSON.

use std::{borrow::Cow, fmt, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::{Resource, metadata::TypeMeta};
use kube_object::{
    Cached, Decode, DecodeError, Labels, Object, ObjectId, ObjectIdRef, ObjectMemory, OwnerReferences,
    RawObject, ToResource,
};
use serde::de::DeserializeOwned;

use crate::{
    codec::Codec,
    decoded::{Decoded, Owned, SharedDecoded, decoded},
    dictionary::DictionaryTrainer,
};

/// Caches the JSON of an object, compressed by zstd. Like [`Lazy`](crate::Lazy), a `Compressed`
/// decodes the object when a program reads it.
///
/// The decoder trains a dictionary from the first objects of a cache. The JSON of a Pod is
/// compressed to less than a third of its size.
///
/// Use this representation if your program caches very many objects. The decoder compresses each
/// received state once, which is cheaper than decoding the state. A read takes slightly longer than with
/// `Lazy`.
pub struct Compressed<K> {
    pub(crate) id: ObjectId,
    pub(crate) labels: Box<[u8]>,
    pub(crate) kind: Arc<TypeMeta>,
    pub(crate) body: StoredJson,
    pub(crate) shared: SharedDecoded<K>,
}

pub(crate) enum StoredJson {
    /// The compressed JSON would not be smaller.
    Plain(Box<[u8]>),
    Packed {
        packed: Box<[u8]>,
        length: u32,
        codec: Arc<Codec>,
    },
}

impl<K> Compressed<K> {
    /// Returns the identity of the object, as the server sent it.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// Returns the labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels::new(&self.labels)
    }

    /// Returns the size of the stored JSON in bytes. JSON that would not become smaller is stored
    /// uncompressed.
    pub fn compressed_bytes(&self) -> usize {
        match &self.body {
            StoredJson::Plain(json) => json.len(),
            StoredJson::Packed { packed, .. } => packed.len(),
        }
    }

    /// Returns the JSON that the server sent. It contains managedFields only if the informer keeps
    /// them.
    ///
    /// # Errors
    /// Returns [`DecodeError::Decompress`] if the memory for the JSON cannot be allocated.
    pub fn json(&self) -> Result<Cow<'_, [u8]>, DecodeError> {
        match &self.body {
            StoredJson::Plain(json) => Ok(Cow::Borrowed(json)),
            StoredJson::Packed { packed, length, codec } => {
                let bytes = *length as usize;
                let json = codec.unpack(packed, bytes).map_err(|_| DecodeError::Decompress { bytes })?;
                Ok(Cow::Owned(json))
            }
        }
    }
}

impl<K: DeserializeOwned + 'static> Compressed<K> {
    /// Returns the decoded object. Concurrent readers share one decoded value. If no reader holds
    /// this value, the method decodes the object again.
    ///
    /// # Errors
    /// Returns an error if the JSON does not decode as `K`, if the `Deserialize` implementation of
    /// `K` panics, or if the memory for the JSON cannot be allocated.
    ///
    /// # Deadlocks
    /// Concurrent callers wait until the object is decoded. If the `Deserialize` implementation of
    /// `K` calls this method for the same object, the call waits for itself and never returns.
    pub fn get(&self) -> Result<Decoded<K>, DecodeError> {
        self.shared.get(|| self.decode())
    }

    /// Decodes only the fields of `F`. This is cheaper than decoding all fields of `K`.
    ///
    /// # Errors
    /// Returns an error if the JSON does not decode as `F`, if the `Deserialize` implementation of
    /// `F` panics, or if the memory for the JSON cannot be allocated.
    pub fn fields<F: DeserializeOwned + 'static>(&self) -> Result<F, DecodeError> {
        decoded(&self.json()?, &self.kind)
    }

    /// Decodes the object into an owned value, which is not shared with other readers.
    ///
    /// # Errors
    /// Returns an error if the JSON does not decode as `K`, if the `Deserialize` implementation of
    /// `K` panics, or if the memory for the JSON cannot be allocated.
    pub fn decode(&self) -> Result<K, DecodeError> {
        self.fields()
    }
}

impl<K: Send + Sync + 'static> Object for Compressed<K> {
    fn id(&self) -> ObjectIdRef<'_> {
        self.id.as_id()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels().get(name)
    }

    /// The dictionary, which the objects of a cache share, is not counted.
    fn memory(&self) -> ObjectMemory {
        ObjectMemory::complete(size_of::<Self>() + self.labels.len() + self.compressed_bytes())
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Cached for Compressed<K> {
    type Resource = K;
    type Decoder = CompressedDecoder;
}

impl<K: DeserializeOwned + 'static> OwnerReferences for Compressed<K> {
    fn owner_references(&self) -> Cow<'_, [OwnerReference]> {
        self.fields::<Owned>().map(Owned::into_references).unwrap_or_default()
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> ToResource for Compressed<K> {
    fn to_resource(self: &Arc<Self>) -> Result<Arc<K>, DecodeError> {
        self.decode().map(Arc::new)
    }
}

/// Decodes objects into [`Compressed`]. Each cache has one decoder, which holds the dictionary.
pub struct CompressedDecoder(DictionaryTrainer);

impl Default for CompressedDecoder {
    fn default() -> Self {
        Self(DictionaryTrainer::new())
    }
}

impl<K: Send + Sync + 'static> Decode<Compressed<K>> for CompressedDecoder {
    fn decode(&self, object: &RawObject<'_>) -> Result<Compressed<K>, DecodeError> {
        Ok(Compressed {
            id: object.id.clone(),
            labels: object.labels().into(),
            kind: Arc::clone(object.kind()),
            body: self.body(object.json()),
            shared: SharedDecoded::new(),
        })
    }
}

impl CompressedDecoder {
    fn body(&self, json: Cow<'_, [u8]>) -> StoredJson {
        let (codec, length) = (self.0.codec_for(&json), u32::try_from(json.len()));
        if let (Some(codec), Ok(length)) = (codec, length)
            && let Ok(packed) = codec.pack(&json)
            && packed.len() < json.len()
        {
            return StoredJson::Packed { packed, length, codec };
        }
        StoredJson::Plain(json.into())
    }
}

/// Prints the kind and the identity, and no contents of the object.
impl<K> fmt::Debug for Compressed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind.kind, self.id)
    }
}

impl fmt::Debug for CompressedDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompressedDecoder")
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn failed_decompression_is_not_reported_as_malformed_json() {
        let codec = Arc::new(Codec::new(&[]).unwrap());
        let object = Compressed::<Pod> {
            id: ObjectIdRef::new(Some("shop"), "a", "u", "7").into(),
            labels: Box::default(),
            kind: Arc::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() }),
            body: StoredJson::Packed { packed: b"damaged".as_slice().into(), length: 10, codec },
            shared: SharedDecoded::new(),
        };
        let error = object.json().unwrap_err();
        assert_eq!(error, DecodeError::Decompress { bytes: 10 });
        let message = "cannot decompress the cached object to 10 bytes, probably because not enough memory is available";
        assert_eq!(error.to_string(), message);
        assert_eq!((object.get().unwrap_err(), object.decode().unwrap_err()), (error.clone(), error));
    }

    #[test]
    fn owner_references_are_decoded_without_the_other_fields() {
        let json = br#"{"kind":"Pod","metadata":{"name":"a","ownerReferences":
            [{"apiVersion":"v1","kind":"Site","name":"web","uid":"u","controller":true}]},"spec":"malformed"}"#;
        let pod = |json: &[u8]| {
            Arc::new(Compressed::<Pod> {
                id: ObjectIdRef::new(Some("shop"), "a", "u", "7").into(),
                labels: Box::default(),
                kind: Arc::new(TypeMeta { api_version: "v1".into(), kind: "Pod".into() }),
                body: StoredJson::Plain(json.into()),
                shared: SharedDecoded::new(),
            })
        };
        let owned = pod(json);
        let references = owned.owner_references();
        assert_eq!(
            (references.len(), &*references[0].name, references[0].controller),
            (1, "web", Some(true))
        );
        assert!(owned.to_resource().is_err(), "the spec is malformed");
        let free = pod(br#"{"metadata":{"name":"a","ownerReferences":null}}"#);
        assert!(free.owner_references().is_empty());
        assert_eq!(free.to_resource().unwrap().metadata.name.as_deref(), Some("a"));
        assert!(pod(br#"{"metadata":{"ownerReferences":1}}"#).owner_references().is_empty(), "malformed");
    }
}
