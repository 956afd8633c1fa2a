//! `TypeCache`: reads and writes the objects of one type, independent of their representation in the cache.

use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use kube_client::{
    Api, Error,
    api::{DeleteParams, Patch, ValidationDirective},
};
use kube_informer::{ApiObject, CachedApi, LabelSelector, ObjectKey, ToResource, set_requested_kind};
use serde_json::Value;

use crate::{
    Applier, Failure, WriteError, Written, create_or_update,
    write::{
        apply::CheckExisting,
        requests::{self, ObjectPart},
        update::{Write, write_status},
    },
};

/// Changes a copy of an object.
pub(super) type Mutate<'a, K> = Box<dyn FnOnce(&mut K) -> Result<(), Failure> + Send + 'a>;

/// Reads and writes the objects of one type. The implementation for a [`CachedApi`] knows their
/// representation.
pub(super) trait TypeCache<K>: Send + Sync {
    /// Returns the same cache with another `Api` and these settings.
    fn configured(
        &self,
        api: Api<K>,
        dry_run: bool,
        validation: Option<&ValidationDirective>,
    ) -> Box<dyn TypeCache<K>>;

    fn get<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<K>>, Failure>>;

    fn list<'a>(&'a self, selector: &'a LabelSelector) -> BoxFuture<'a, Result<Vec<Arc<K>>, Failure>>;

    fn create<'a>(&'a self, key: &'a ObjectKey, object: &'a K) -> BoxFuture<'a, Result<K, Failure>>;

    fn patch<'a>(&'a self, key: &'a ObjectKey, patch: &'a Patch<Value>) -> BoxFuture<'a, Result<K, Failure>>;

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<bool, Failure>>;

    fn apply<'a>(
        &'a self,
        applier: &'a Applier,
        object: &'a K,
        part: ObjectPart,
        check: Option<&'a CheckExisting<'a, K>>,
    ) -> BoxFuture<'a, Result<Written<K>, Failure>>;

    fn create_or_update<'a>(
        &'a self,
        initial: K,
        mutate: Mutate<'a, K>,
    ) -> BoxFuture<'a, Result<Written<K>, Failure>>;

    fn write_status<'a>(
        &'a self,
        current: Arc<K>,
        mutate: Mutate<'a, K>,
        write: Write,
    ) -> BoxFuture<'a, Result<Written<K>, Failure>>;
}

impl<T, K> TypeCache<K> for CachedApi<T>
where
    T: ToResource<Resource = K>,
    K: ApiObject,
{
    fn configured(
        &self,
        api: Api<K>,
        dry_run: bool,
        validation: Option<&ValidationDirective>,
    ) -> Box<dyn TypeCache<K>> {
        Box::new(configured(self.with_api(api), dry_run, validation))
    }

    fn get<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Arc<K>>, Failure>> {
        async move { Ok(self.get_decoded(name).await?) }.boxed()
    }

    fn list<'a>(&'a self, selector: &'a LabelSelector) -> BoxFuture<'a, Result<Vec<Arc<K>>, Failure>> {
        async move { Ok(self.list_decoded(selector).await?) }.boxed()
    }

    fn create<'a>(&'a self, key: &'a ObjectKey, object: &'a K) -> BoxFuture<'a, Result<K, Failure>> {
        async move {
            let created = requests::create(self, object).await;
            Ok(created.map_err(|error| WriteError::request(self, "create", key, error))?)
        }
        .boxed()
    }

    fn patch<'a>(&'a self, key: &'a ObjectKey, patch: &'a Patch<Value>) -> BoxFuture<'a, Result<K, Failure>> {
        async move {
            let patched = requests::patch(self, key.name(), &self.patch_params(), patch).await;
            Ok(patched.map_err(|error| WriteError::request(self, "patch", key, error))?)
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<bool, Failure>> {
        async move {
            match CachedApi::delete(self, key.name(), &DeleteParams::default()).await {
                Ok(_) => Ok(true),
                Err(Error::Api(status)) if status.is_not_found() => Ok(false),
                Err(mut error) => {
                    if let Error::Api(status) = &mut error {
                        set_requested_kind(status, requests::plural(self.api().resource_url()));
                    }
                    Err(WriteError::request(self, "delete", key, error).into())
                }
            }
        }
        .boxed()
    }

    fn apply<'a>(
        &'a self,
        applier: &'a Applier,
        object: &'a K,
        part: ObjectPart,
        check: Option<&'a CheckExisting<'a, K>>,
    ) -> BoxFuture<'a, Result<Written<K>, Failure>> {
        applier.send(self, object, part, check).boxed()
    }

    fn create_or_update<'a>(
        &'a self,
        initial: K,
        mutate: Mutate<'a, K>,
    ) -> BoxFuture<'a, Result<Written<K>, Failure>> {
        create_or_update(self, initial, mutate).boxed()
    }

    fn write_status<'a>(
        &'a self,
        current: Arc<K>,
        mutate: Mutate<'a, K>,
        write: Write,
    ) -> BoxFuture<'a, Result<Written<K>, Failure>> {
        write_status(self, current, mutate, write).boxed()
    }
}

/// Adds the settings of a client.
pub(super) fn configured<T: ToResource>(
    api: CachedApi<T>,
    dry_run: bool,
    validation: Option<&ValidationDirective>,
) -> CachedApi<T> {
    let api = if dry_run { api.dry_run() } else { api };
    match validation {
        Some(directive) => api.field_validation(directive.clone()),
        None => api,
    }
}
