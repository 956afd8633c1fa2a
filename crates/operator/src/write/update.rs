//! `create_or_update` and `update_status`: an object is changed by a function, and written only if that makes a difference.

use std::{fmt::Debug, sync::Arc};

use kube_client::Resource;
use kube_informer::{ApiObject, CachedApi, ObjectKey};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    json::same,
    requests,
    written::{WriteError, Written},
};
use crate::Failure;

/// Sees to it that an object is there and as `mutate` makes it: controller-runtime's `CreateOrUpdate`.
///
/// Where the cache has no object of the name of `initial` (in the namespace of the [`CachedApi`]), `mutate` is applied to
/// `initial` and that is created. Otherwise it is applied to a copy of what is cached, `initial` being no more than a name,
/// and the copy replaces the object if it is different: as JSON, where null is as good as absent.
///
/// A server that fills in what is left out does no harm, since `mutate` begins with what it has made of it. But what is set to
/// something that the server writes in another way (`1000m` of a quantity) is written in each run.
///
/// Only the version that is cached is replaced: what others have written meanwhile stays, and this fails with
/// [`WriteError::Conflict`], so that another run begins with it. The status is not written, for types that have it apart:
/// see [`update_status`].
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
///     // ... say so ...
/// }
/// # Ok(()) }
/// ```
///
/// # Limits
/// An informer with a transform that takes fields away must not be behind the [`CachedApi`]: they would be taken away from the
/// server's object, too. (`managedFields`, which informers leave out, the server keeps.) The same is true of a type that
/// lacks fields which the server has.
///
/// # Errors
/// What `mutate` fails with, as it is; otherwise a [`WriteError`].
///
/// # Cancel safety
/// A write that is cancelled may have been made.
pub async fn create_or_update<K>(
    api: &CachedApi<K>,
    mut initial: K,
    mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
) -> Result<Written<K>, Failure>
where
    K: ApiObject,
{
    if initial.meta().namespace.is_none() {
        initial.meta_mut().namespace = api.api().namespace().map(str::to_owned);
    }
    let key = place(api, &initial)?;
    if let Some(current) = api.get(key.name()).await.map_err(WriteError::from)? {
        return replace(api, current, mutate, Part::Main).await;
    }
    mutate(&mut initial)?;
    check_key(&key, &initial)?;
    let created = requests::create(api, &initial).await;
    Ok(Written::created(created.map_err(|error| WriteError::of(&key, error))?))
}

/// Writes the status of an object if `mutate` makes another one of it, over this version only: see [`create_or_update`].
/// What `mutate` changes elsewhere is not written, and is no reason to write.
///
/// # Errors
/// What `mutate` fails with, as it is; otherwise a [`WriteError`].
///
/// # Cancel safety
/// A write that is cancelled may have been made.
pub async fn update_status<K>(
    api: &CachedApi<K>,
    current: Arc<K>,
    mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
) -> Result<Written<K>, Failure>
where
    K: ApiObject,
{
    place(api, &*current)?;
    replace(api, current, mutate, Part::Status).await
}

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Main,
    Status,
}

async fn replace<K>(
    api: &CachedApi<K>,
    current: Arc<K>,
    mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
    part: Part,
) -> Result<Written<K>, Failure>
where
    K: ApiObject,
{
    let key = key(&*current);
    let mut object = K::clone(&current);
    mutate(&mut object)?;
    check_key(&key, &object)?;
    // Whatever became of them: only this version of this object is replaced.
    object.meta_mut().uid.clone_from(&current.meta().uid);
    object.meta_mut().resource_version.clone_from(&current.meta().resource_version);
    if part == Part::Status {
        // Of some built-in types a server takes labels and annotations from a status, too.
        object.meta_mut().clone_from(current.meta());
    }
    if !differ(&*current, &object, part)
        .map_err(|source| WriteError::Serialize { key: key.clone(), source })?
    {
        return Ok(Written::unchanged(current));
    }
    let updated = match part {
        Part::Main => requests::replace(api, key.name(), &object).await,
        Part::Status => requests::replace_status(api, key.name(), &object).await,
    };
    Ok(Written::updated(updated.map_err(|error| WriteError::of(&key, error))?))
}

/// Whether this part of them does: what is not written makes no difference.
fn differ<K: Serialize>(one: &K, other: &K, part: Part) -> Result<bool, serde_json::Error> {
    let (one, other) = (serde_json::to_value(one)?, serde_json::to_value(other)?);
    Ok(match part {
        Part::Main => !same(&one, &other),
        Part::Status => !same(&one["status"], &other["status"]),
    })
}

fn key(object: &impl Resource) -> ObjectKey {
    let meta = object.meta();
    ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

/// The object's key, if requests through this API are about it.
fn place<K>(api: &CachedApi<K>, object: &K) -> Result<ObjectKey, WriteError>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
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
    match after == *before {
        true => Ok(()),
        false => Err(WriteError::Renamed { before: before.clone(), after }),
    }
}
