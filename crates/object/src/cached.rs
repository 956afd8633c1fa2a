//! `Cached`: a representation of objects in a cache, its resource and its decoder. `ToResource`: a
//! representation of complete objects. `OwnerReferences`: a representation with owner references.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;
use serde::de::DeserializeOwned;

use crate::{Decode, DecodeError, JsonDecoder, Object};

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

/// Converts a cached object into its resource type. Representations that contain the complete object
/// implement this trait: the resource type itself, `Lazy` and `Compressed`.
pub trait ToResource: Cached {
    /// Returns the object as its resource type. This decodes a lazy or compressed object.
    ///
    /// # Errors
    /// Returns an error if the object does not decode as its resource type.
    fn to_resource(self: &Arc<Self>) -> Result<Arc<Self::Resource>, DecodeError>;
}

impl<K: Resource + DeserializeOwned + Send + Sync + 'static> ToResource for K {
    fn to_resource(self: &Arc<Self>) -> Result<Arc<K>, DecodeError> {
        Ok(Arc::clone(self))
    }
}

/// Returns the owner references of a cached object. Representations that contain them implement this
/// trait: resource types, their `PartialObjectMeta`, `Lazy` and `Compressed`.
pub trait OwnerReferences {
    /// Returns the owner references. This decodes the references of a lazy or compressed object. If they
    /// do not decode, the result is empty.
    fn owner_references(&self) -> Cow<'_, [OwnerReference]>;
}

impl<K: Resource> OwnerReferences for K {
    fn owner_references(&self) -> Cow<'_, [OwnerReference]> {
        Cow::Borrowed(self.meta().owner_references.as_deref().unwrap_or_default())
    }
}
