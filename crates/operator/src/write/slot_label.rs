//! `SlotLabel`: the label that contains the slot of an applied object.

use std::sync::Arc;

use kube_client::Error;
use kube_informer::{ApiObject, CachedApi, ObjectKey, ShardKey, SlotCount, ToResource};
use serde_json::{Value, json};

use super::{requests, written::WriteError};

/// Computes the label from the key of the object, so it never changes.
#[derive(Debug)]
pub(super) struct SlotLabel {
    pub(super) label: String,
    pub(super) key: ShardKey,
    pub(super) count: SlotCount,
}

impl SlotLabel {
    /// Adds the label to an object. Labels that are not an object are not changed, because the server
    /// rejects them.
    pub(super) fn add(&self, object: &mut Value, key: &ObjectKey) {
        let Some(slot) = self.count.slot_of_key(self.key, key) else { return };
        let labels = &mut object["metadata"]["labels"];
        if labels.is_null() {
            *labels = json!({});
        }
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(self.label.clone(), slot.to_string().into());
        }
    }
}

/// Reads an object that is not in the cache. If another client has changed its label, the informer does not
/// select it.
pub(super) async fn read_hidden<T>(
    api: &CachedApi<T>,
    key: &ObjectKey,
) -> Result<Option<Arc<T::Resource>>, WriteError>
where
    T: ToResource<Resource: ApiObject>,
{
    match requests::get(api, key.name()).await {
        Ok(object) => Ok(Some(Arc::new(object))),
        Err(Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(WriteError::request(api, "get", key, error)),
    }
}
