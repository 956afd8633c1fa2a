//! The JSON patches that add and remove a finalizer. They fail if another client has changed the object.

use std::sync::Arc;

use json_patch_of_kube::{
    AddOperation, Patch as JsonPatch, PatchOperation, RemoveOperation, TestOperation, jsonptr::PointerBuf,
};
use kube_client::{Error, api::Patch, core::ObjectMeta};
use kube_informer::{ApiObject, CachedApi, ObjectKey};
use serde_json::Value;

use super::{super::requests, finalizers};

/// Returns a patch that appends the finalizer. It fails if the finalizers or the uid of the object
/// have changed.
pub(super) fn addition(object: &ObjectMeta, finalizer: &str) -> Vec<PatchOperation> {
    let list = path(&["finalizers"]);
    let (unchanged, added) = match &object.finalizers {
        // The server treats an absent list as null.
        None => (Value::Null, add(list.clone(), vec![finalizer].into())),
        Some(before) => (before.as_slice().into(), add(path(&["finalizers", "-"]), finalizer.into())),
    };
    vec![is_same(object), test(list, unchanged), added]
}

/// Returns a patch that removes each occurrence of the finalizer. It fails if the positions have
/// changed. The last occurrence is removed first, so that the other positions stay valid.
pub(super) fn removal(object: &ObjectMeta, finalizer: &str) -> Vec<PatchOperation> {
    let mut patch = vec![is_same(object)];
    let places = finalizers(object).iter().enumerate().filter(|(_, name)| *name == finalizer);
    for (place, _) in places.rev() {
        let place = path(&["finalizers", &place.to_string()]);
        patch.push(test(place.clone(), finalizer.into()));
        patch.push(PatchOperation::Remove(RemoveOperation { path: place }));
    }
    patch
}

fn is_same(object: &ObjectMeta) -> PatchOperation {
    test(path(&["uid"]), object.uid.as_deref().into())
}

fn test(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation { path, value })
}

fn add(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}

/// Returns a path in the metadata.
fn path(steps: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(["metadata"].iter().chain(steps).copied())
}

/// The reason why a patch failed.
pub(super) enum PatchError {
    Gone,
    /// A test of the patch failed. A rejected object cannot be distinguished from that: the server
    /// reports the same reason.
    Changed(Error),
    Failed(Error),
}

pub(super) async fn patch<K>(
    api: &CachedApi<K>,
    key: &ObjectKey,
    operations: Vec<PatchOperation>,
) -> Result<Arc<K>, PatchError>
where
    K: ApiObject,
{
    let patch = Patch::<()>::Json(JsonPatch(operations));
    match requests::patch(api, key.name(), &api.patch_params(), &patch).await {
        Ok(object) => Ok(Arc::new(object)),
        Err(error) if is_gone(&error) => Err(PatchError::Gone),
        Err(Error::Api(status)) if status.is_invalid() || status.is_conflict() => {
            Err(PatchError::Changed(Error::Api(status)))
        }
        Err(error) => Err(PatchError::Failed(error)),
    }
}

/// Returns whether the object does not exist. If its type does not exist, the server does not send
/// a `Status`, and the type may be restored with its objects.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.reason == "NotFound")
}
