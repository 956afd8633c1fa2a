//! Reads of a `CachedApi` from a sharded informer: a read fails if its result could lack objects of other
//! slots.

use std::sync::Arc;

use kube_object::{Cached, ObjectKey, ShardKey, SlotSet};
use kube_store::Snapshot;

use super::{cached_api::CachedApi, error::CachedReadError};

impl<T: Cached> CachedApi<T> {
    /// Reads from one state of the cache, so that the absence of an object is proved.
    pub(super) fn get_of_own_slot(&self, key: &ObjectKey) -> Result<Option<Arc<T>>, CachedReadError> {
        let cache = self.informer().shared.store.snapshot();
        self.check_slot(&cache, key)?;
        Ok(cache.get(key).map(|entry| Arc::clone(&entry.object)))
    }

    /// Returns an error if a list of the `Api` may lack objects of other slots.
    pub(super) fn check_list(&self, cache: &Snapshot<T>) -> Result<(), CachedReadError> {
        match (cache.shard(), self.api().namespace()) {
            (Some(shard), Some(namespace)) if shard.key == ShardKey::Namespace => {
                self.check_slot(cache, &ObjectKey::new(Some(namespace), ""))
            }
            (Some(shard), _) if shard.slots != SlotSet::all(shard.count) => {
                Err(CachedReadError::IncompleteList { informer: self.informer().name().to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Returns an error if the cache may not contain the slot of this key.
    fn check_slot(&self, cache: &Snapshot<T>, key: &ObjectKey) -> Result<(), CachedReadError> {
        if cache.covers(key) == Some(true) {
            return Ok(());
        }
        let (informer, namespace) = (self.informer().name().to_owned(), key.namespace().unwrap_or_default());
        Err(CachedReadError::OtherSlot { informer, namespace: namespace.to_owned() })
    }
}
