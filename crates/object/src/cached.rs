//! `Cached`: a representation of objects in a cache, its resource and its decoder.

use kube_core::Resource;
use serde::de::DeserializeOwned;

use crate::{Decode, JsonDecoder, Object};

/// Defines the form in which a cache holds objects: the type in memory, its resource and its
/// decoder.
///
/// A resource type implements this trait through a blanket implementation: its objects are decoded
/// from JSON and cached as this type. Other representations have another decoder. For example, they
/// cache fewer fields or undecoded bytes. Store, handlers and listers work with every
/// representation.
pub trait Cached: Object + Sized {
    /// The resource type on the API server. It determines the URL and the kind.
    type Resource: Resource;
    /// The decoder of this representation.
    type Decoder: Decode<Self> + Default;
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> Cached for K {
    type Resource = K;
    type Decoder = JsonDecoder;
}
