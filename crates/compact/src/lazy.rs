//! `Lazy`: an object kept as its JSON, and decoded when it is looked at.

use std::{fmt, sync::Arc};

use kube_core::{Resource, metadata::TypeMeta};
use kube_object::{Cached, Decode, DecodeError, Id, Labels, Object, ObjectId, RawObject, decode_json};
use serde::de::DeserializeOwned;

use crate::view::{Shared, View};

/// An object of which key, uid, version and labels are known at once, and the rest is decoded when it is looked at.
///
/// For programs that hold many objects and look at few: it takes as much memory as the object's JSON, and a change costs a
/// small part of decoding it.
///
/// A server's word is taken for the rest: that an object is not what `K` expects, or no JSON at all, is found out by
/// [`Lazy::get`], where a typed cache would have kept it out.
pub struct Lazy<K> {
    id: ObjectId,
    labels: Labels,
    kind: Arc<TypeMeta>,
    json: Box<[u8]>,
    shared: Shared<K>,
}

impl<K> Lazy<K> {
    /// The identity that the server sent.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// Its labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Its JSON as the server sent it; without managedFields, unless they are kept.
    pub fn json(&self) -> &[u8] {
        &self.json
    }
}

impl<K: DeserializeOwned + 'static> Lazy<K> {
    /// The whole object. It is decoded, unless somebody looks at it already: then it is shared with them.
    ///
    /// # Errors
    /// The JSON is no `K`.
    pub fn get(&self) -> Result<View<K>, DecodeError> {
        self.shared.get(|| self.decode())
    }

    /// Some of its fields, which is cheaper than all of them: nothing is made of what `F` does not have.
    ///
    /// # Errors
    /// The JSON is no `F`.
    pub fn fields<F: DeserializeOwned + 'static>(&self) -> Result<F, DecodeError> {
        decode_json(&self.json, &self.kind)
    }

    /// The whole object, to have it.
    ///
    /// # Errors
    /// The JSON is no `K`.
    pub fn decode(&self) -> Result<K, DecodeError> {
        decode_json(&self.json, &self.kind)
    }
}

impl<K: Send + Sync + 'static> Object for Lazy<K> {
    fn id(&self) -> Id<'_> {
        self.id.as_id()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name)
    }
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Cached for Lazy<K> {
    type Resource = K;
    type Decoder = LazyDecoder;
}

/// Keeps JSON for later.
#[derive(Debug, Clone, Copy, Default)]
pub struct LazyDecoder;

impl<K: Send + Sync + 'static> Decode<Lazy<K>> for LazyDecoder {
    fn decode(&self, object: &RawObject<'_>) -> Result<Lazy<K>, DecodeError> {
        Ok(Lazy {
            id: object.id.clone(),
            labels: object.labels(),
            kind: Arc::clone(object.kind()),
            json: object.json().into(),
            shared: Shared::new(),
        })
    }
}

/// Shows no contents.
impl<K> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind.kind, self.id)
    }
}
