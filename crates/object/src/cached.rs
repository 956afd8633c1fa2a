//! `Cached`: what may be kept in a cache, which resource it is read from and how it is decoded.

use kube_core::Resource;
use serde::de::DeserializeOwned;

use crate::{Decode, JsonDecoder, Object};

/// A representation of objects in a cache.
///
/// The blanket implementation keeps a resource as its own type, decoded from JSON. A different
/// representation of the same resource (fewer fields, undecoded bytes) implements this trait
/// with another decoder; the layers above see no difference.
pub trait Cached: Object + Sized {
    /// The type that the API server serves: it gives the URL and the kind.
    type Resource: Resource;
    /// How the bytes of one object become this representation.
    type Decoder: Decode<Self> + Default;
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Cached for K {
    type Resource = K;
    type Decoder = JsonDecoder;
}
