//! `SlotLabel`: the label that contains the slot of an applied object.

use kube_informer::{ObjectKey, ShardKey, SlotCount};
use serde_json::{Value, json};

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
