//! Reads of a `CachedApi` that return the resource type, independent of the representation in the cache.

use std::sync::Arc;

use kube_object::{ObjectId, ToResource};
use kube_store::LabelSelector;

use super::{cached_api::CachedApi, error::CachedReadError};

impl<T: ToResource> CachedApi<T> {
    /// Returns the object with this name like [`get`](Self::get), but as the resource type. This decodes
    /// the object if the informer caches another representation.
    ///
    /// # Errors
    /// Returns the errors of [`get`](Self::get), and [`CachedReadError::Decode`] if the cached object does
    /// not decode as the resource type.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn get_decoded(&self, name: &str) -> Result<Option<Arc<T::Resource>>, CachedReadError> {
        self.get(name).await?.as_ref().map(|cached| self.decode(cached)).transpose()
    }

    fn decode(&self, cached: &Arc<T>) -> Result<Arc<T::Resource>, CachedReadError> {
        cached.to_resource().map_err(|source| CachedReadError::Decode {
            informer: self.informer().name().to_owned(),
            key: ObjectId::from(cached.id()).key,
            source,
        })
    }

    /// Returns the objects that match this selector like [`list`](Self::list), but as the resource type.
    /// This decodes the objects if the informer caches another representation.
    ///
    /// # Errors
    /// Returns the errors of [`list`](Self::list), and [`CachedReadError::Decode`] if an object does not
    /// decode as the resource type.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn list_decoded(
        &self,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<T::Resource>>, CachedReadError> {
        self.list(selector).await?.iter().map(|cached| self.decode(cached)).collect()
    }
}
