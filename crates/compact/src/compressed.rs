//! `Compressed`: an object kept as its compressed JSON.

use std::{borrow::Cow, fmt, sync::Arc};

use kube_core::{Resource, metadata::TypeMeta};
use kube_object::{Cached, Decode, DecodeError, Labels, Object, ObjectId, ObjectIdRef, RawObject};
use serde::de::DeserializeOwned;

use crate::{
    codec::Codec,
    decoded::{Decoded, Shared, decoded},
    dictionary::DictionaryTrainer,
};

/// A [`Lazy`](crate::Lazy) object whose JSON is compressed by zstd: Pods to less than a third of their size, with the dictionary that
/// is made of the first objects of a cache.
///
/// For programs that hold very many objects. A change costs the compression, which is less than decoding the object; looking
/// at one costs a little more than with `Lazy`.
pub struct Compressed<K> {
    id: ObjectId,
    labels: Box<[u8]>,
    kind: Arc<TypeMeta>,
    body: Body,
    shared: Shared<K>,
}

enum Body {
    /// It would not have become smaller.
    Plain(Box<[u8]>),
    Packed {
        packed: Box<[u8]>,
        length: u32,
        codec: Arc<Codec>,
    },
}

impl<K> Compressed<K> {
    /// The identity that the server sent.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// Its labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels::of(&self.labels)
    }

    /// How many bytes its JSON takes, compressed.
    pub fn compressed_bytes(&self) -> usize {
        match &self.body {
            Body::Plain(json) => json.len(),
            Body::Packed { packed, .. } => packed.len(),
        }
    }

    /// Its JSON as the server sent it; without managedFields, unless they are kept.
    ///
    /// # Errors
    /// None but where memory is at fault: what is unpacked was packed here.
    pub fn json(&self) -> Result<Cow<'_, [u8]>, DecodeError> {
        match &self.body {
            Body::Plain(json) => Ok(Cow::Borrowed(json)),
            Body::Packed { packed, length, codec } => match codec.unpack(packed, *length as usize) {
                Ok(json) => Ok(Cow::Owned(json)),
                Err(_) => Err(DecodeError::Syntax { column: 0 }),
            },
        }
    }
}

impl<K: DeserializeOwned + 'static> Compressed<K> {
    /// The whole object. It is decoded, unless somebody looks at it already: then it is shared with them.
    ///
    /// # Errors
    /// The JSON is no `K`, or the `Deserialize` of `K` has panicked.
    ///
    /// # Deadlocks
    /// Where the `Deserialize` of `K` itself looks at this object. Who looks meanwhile waits until it is decoded.
    pub fn get(&self) -> Result<Decoded<K>, DecodeError> {
        self.shared.get(|| self.decode())
    }

    /// Some of its fields, which is cheaper than all of them: nothing is made of what `F` does not have.
    ///
    /// # Errors
    /// The JSON is no `F`, or the `Deserialize` of `F` has panicked.
    pub fn fields<F: DeserializeOwned + 'static>(&self) -> Result<F, DecodeError> {
        decoded(&self.json()?, &self.kind)
    }

    /// The whole object, to have it.
    ///
    /// # Errors
    /// The JSON is no `K`, or the `Deserialize` of `K` has panicked.
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
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Cached for Compressed<K> {
    type Resource = K;
    type Decoder = CompressedDecoder;
}

/// Compresses JSON for later; holds the dictionary of one cache.
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
            shared: Shared::new(),
        })
    }
}

impl CompressedDecoder {
    fn body(&self, json: Cow<'_, [u8]>) -> Body {
        let (codec, length) = (self.0.codec_for(&json), u32::try_from(json.len()));
        if let (Some(codec), Ok(length)) = (codec, length)
            && let Ok(packed) = codec.pack(&json)
            && packed.len() < json.len()
        {
            return Body::Packed { packed, length, codec };
        }
        Body::Plain(json.into())
    }
}

/// Shows no contents.
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
