//! `create_or_update` and `update_status`: write an object only if a function changes it.

use std::{collections::BTreeMap, sync::Arc};

use kube_client::{Resource, api::Patch};
use kube_informer::{ApiObject, Cached, CachedApi, ObjectKey, ToResource};
use serde_json::{Value, json, value::RawValue};

use super::{
    json::merge_patch,
    requests,
    written::{WriteError, Written},
};
use crate::Failure;

/// Creates an object, or updates it if `mutate` changes it, as controller-runtime's
/// `CreateOrUpdate` does.
///
/// `initial` must contain the name of the object. The [`CachedApi`] determines the namespace.
/// - If the cache does not contain the object, the function calls `mutate` with `initial`, and
///   creates the result.
/// - If the cache contains the object, the function calls `mutate` with a copy of the cached
///   object. It updates the object if `mutate` changed the JSON of the copy. A null field equals an
///   absent field. The function ignores all fields of `initial` except the name.
///
/// Defaults that the server sets do not cause updates, because the cached object contains them. If
/// the server stores a value of `mutate` in another form, for example `1` for the quantity `1000m`,
/// each reconcile sends an update.
///
/// If another client changed the object after it was cached, this function fails with
/// [`WriteError::Conflict`]. The next reconcile receives the new state. For types with a status
/// subresource, the server ignores changes of the status. If `mutate` changes the status, each call sends
/// an update without effect. Use [`patch_status`] instead.
///
/// ```no_run
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// # use kube_informer::{ApiObject, CachedApi};
/// # use kube_operator::{Failure, OperationResult, create_or_update, set_controller_reference};
/// # async fn example(maps: CachedApi<ConfigMap>, owner: &Deployment) -> Result<(), Failure> {
/// let mut settings = ConfigMap::default();
/// settings.metadata.name = Some("settings".to_owned());
/// let written = create_or_update(&maps, settings, |map| {
///     map.data.get_or_insert_default().insert("colour".to_owned(), "blue".to_owned());
///     Ok(set_controller_reference(owner, &(), map)?)
/// }).await?;
/// if written.result != OperationResult::Unchanged {
///     // ... report it ...
/// }
/// # Ok(()) }
/// ```
///
/// # Limits
/// The informer of the [`CachedApi`] must not have a transform that removes fields. Otherwise an
/// update also removes these fields on the server. For the same reason, the Rust type must contain
/// all fields of the server's object. Informers remove `managedFields`, but the server retains them
/// in an update.
///
/// # Errors
/// Returns the failure of `mutate` unchanged. Other failures contain a [`WriteError`].
///
/// # Cancel safety
/// If the future is dropped, the server may have created or updated the object. The cache may not
/// contain this write when the next call starts. The next call then fails with
/// [`WriteError::Conflict`].
pub async fn create_or_update<T, K>(
    api: &CachedApi<T>,
    mut initial: K,
    mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
) -> Result<Written<K>, Failure>
where
    T: ToResource<Resource = K>,
    K: ApiObject,
{
    if initial.meta().namespace.is_none() {
        initial.meta_mut().namespace = api.api().namespace().map(str::to_owned);
    }
    let key = validate_target(api, &initial)?;
    if let Some(current) = api.get_decoded(key.name()).await.map_err(WriteError::from)? {
        return write(api, current, mutate, Write::Update).await;
    }
    mutate(&mut initial)?;
    check_key(&key, &initial)?;
    let created = requests::create(api, &initial).await;
    Ok(Written::created(created.map_err(|error| WriteError::request(api, "create", &key, error))?))
}

/// Updates the status of an object if `mutate` changes it. `current` is usually the object of the
/// [`Request`](crate::Request).
///
/// The function calls `mutate` with a copy of `current`. It sends an update only if `mutate`
/// changed the status, and ignores all other changes. If another client changed the object after
/// the version in `current`, this function fails with [`WriteError::Conflict`]. This also happens after an
/// earlier write of this program. To write an object several times, pass the [`Written::object`] of the last
/// write.
///
/// # Limits
/// An update removes the fields of the status that the Rust type does not contain. [`patch_status`] keeps
/// them.
///
/// # Errors
/// Returns the failure of `mutate` unchanged. Other failures contain a [`WriteError`].
///
/// # Cancel safety
/// If the future is dropped, the server may have updated the status. If `current` of the next call
/// is older than this update, the next call fails with [`WriteError::Conflict`].
pub async fn update_status<T, K>(
    api: &CachedApi<T>,
    current: Arc<K>,
    mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
) -> Result<Written<K>, Failure>
where
    T: ToResource<Resource = K>,
    K: ApiObject,
{
    write_status(api, current, mutate, Write::UpdateStatus).await
}

/// Patches the status of an object if `mutate` changes it. `current` is usually the object of the
/// [`Request`](crate::Request).
///
/// Prefer this function to [`update_status`]. These are the differences:
/// - The request is a JSON merge patch. It contains only the changed fields, and the resourceVersion of
///   `current`, so it cannot overwrite the write of another client. The response contains only metadata.
/// - [`Written::object`] is `current` with the new status, and with the metadata of the response. The server
///   may store another status, for example if it adds default values, or removes fields that the CRD does not
///   contain.
/// - Fields of the status that the Rust type does not contain remain unchanged, except in lists: a changed
///   list is replaced as a whole.
/// - The program needs the permission to `patch` the subresource `status`, and not to `update` it.
///
/// # Errors
/// Returns the errors of [`update_status`], and [`WriteError::MissingVersion`] if `current` has no
/// resourceVersion.
///
/// # Cancel safety
/// See [`update_status`].
pub async fn patch_status<T, K>(
    api: &CachedApi<T>,
    current: Arc<K>,
    mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
) -> Result<Written<K>, Failure>
where
    T: ToResource<Resource = K>,
    K: ApiObject,
{
    write_status(api, current, mutate, Write::PatchStatus).await
}

/// How an object is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Update,
    UpdateStatus,
    PatchStatus,
}

/// Writes the status of an object if `mutate` changes it.
pub(crate) async fn write_status<T, K>(
    api: &CachedApi<T>,
    current: Arc<K>,
    mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
    kind: Write,
) -> Result<Written<K>, Failure>
where
    T: ToResource<Resource = K>,
    K: ApiObject,
{
    validate_target(api, &*current)?;
    write(api, current, mutate, kind).await
}

async fn write<T, K>(
    api: &CachedApi<T>,
    current: Arc<K>,
    mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
    write: Write,
) -> Result<Written<K>, Failure>
where
    T: ToResource<Resource = K>,
    K: ApiObject,
{
    let key = key(&*current);
    let mut object = K::clone(&current);
    mutate(&mut object)?;
    check_key(&key, &object)?;
    // `mutate` may have changed them. Replace only this version of this object.
    object.meta_mut().uid.clone_from(&current.meta().uid);
    object.meta_mut().resource_version.clone_from(&current.meta().resource_version);
    if write != Write::Update {
        // For some built-in types, a status update also writes labels and annotations.
        object.meta_mut().clone_from(current.meta());
    }
    let serialize_error = |source| WriteError::Serialize { key: key.clone(), source };
    let before = serde_json::to_vec(&*current).map_err(serialize_error)?;
    let after = serde_json::to_vec(&object).map_err(serialize_error)?;
    let Some(patch) = change(&before, &after, write).map_err(serialize_error)? else {
        return Ok(Written::unchanged(current));
    };
    let (verb, updated) = match write {
        Write::Update => ("update", requests::replace(api, key.name(), &object).await),
        Write::UpdateStatus => {
            ("update the status of", requests::replace_status(api, key.name(), &object).await)
        }
        Write::PatchStatus => {
            // Without a resourceVersion, the patch would be unconditional.
            let version = current.meta().resource_version.as_deref().filter(|version| !version.is_empty());
            let version = version.ok_or(WriteError::MissingVersion)?;
            let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "status": patch}));
            object = with_status_of(&before, &after, object).map_err(serialize_error)?;
            let patched = requests::patch_status_of(api, &mut object, &patch).await;
            ("patch the status of", patched.map(|()| object))
        }
    };
    Ok(Written::updated(updated.map_err(|error| WriteError::request(api, verb, &key, error))?))
}

/// Returns the merge patch of the written part, or `None` if this part did not change. `before` and `after`
/// are the JSON of the object.
fn change(before: &[u8], after: &[u8], write: Write) -> Result<Option<Value>, serde_json::Error> {
    // Most calls do not change the object. A comparison of the texts is then much cheaper.
    if before == after {
        return Ok(None);
    }
    Ok(match write {
        Write::Update => merge_patch(&serde_json::from_slice(before)?, &serde_json::from_slice(after)?),
        Write::UpdateStatus | Write::PatchStatus => merge_patch(&status(before)?, &status(after)?),
    })
}

/// Returns the object `before` with the status of the object `after`. `changed` is the object `after`.
fn with_status_of<K: ApiObject>(before: &[u8], after: &[u8], changed: K) -> Result<K, serde_json::Error> {
    let (mut fields, mut changed_fields) = (fields(before)?, fields(after)?);
    let status = changed_fields.remove("status");
    fields.remove("status");
    if fields.keys().eq(changed_fields.keys())
        && fields.values().zip(changed_fields.values()).all(|(before, after)| before.get() == after.get())
    {
        return Ok(changed);
    }
    fields.extend(status.map(|status| ("status".to_owned(), status)));
    serde_json::from_slice(&serde_json::to_vec(&fields)?)
}

/// Returns the fields in the JSON of an object.
fn fields(object: &[u8]) -> Result<BTreeMap<String, &RawValue>, serde_json::Error> {
    serde_json::from_slice(object)
}

/// Returns the status in the JSON of an object, or null.
fn status(object: &[u8]) -> Result<Value, serde_json::Error> {
    fields(object)?.get("status").map_or(Ok(Value::Null), |status| serde_json::from_str(status.get()))
}

fn key(object: &impl Resource) -> ObjectKey {
    let meta = object.meta();
    ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

/// Returns the key of the object, or an error if this `CachedApi` cannot write it.
fn validate_target<T: Cached>(api: &CachedApi<T>, object: &T::Resource) -> Result<ObjectKey, WriteError> {
    let (namespace, key) = (api.api().namespace(), key(object));
    if key.name().is_empty() {
        return Err(WriteError::MissingName);
    }
    if key.namespace() != namespace {
        return Err(WriteError::NamespaceMismatch { key, namespace: namespace.map(str::to_owned) });
    }
    Ok(key)
}

fn check_key(before: &ObjectKey, object: &impl Resource) -> Result<(), WriteError> {
    let after = key(object);
    if after == *before { Ok(()) } else { Err(WriteError::Renamed { before: before.clone(), after }) }
}
