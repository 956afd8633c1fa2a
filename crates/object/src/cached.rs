//! `Cached`: a representation of objects in a cache, its resource and its decoder.

use kube_core::Resource;
use serde::de::DeserializeOwned;

use crate::{Decode, JsonDecoder, Object};

/// Defines a representation of objects in a cache, with the resource and the decoder.
///
/// The blanket implementation caches a resource as its own type, decoded from JSON. Another
/// representation of the same resource (fewer fields, undecoded bytes) implements this trait with
/// another decoder. The other layers do not depend on the representation.
pub trait Cached: Object + Sized {
    /// The type that the API server serves. It determines the URL and the kind.
    type Resource: Resource;
    /// The decoder of this representation.
    type Decoder: Decode<Self> + Default;
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Cached for K {
    type Resource = K;
    type Decoder = JsonDecoder;
}
