//! `CachedApi`: writes through the API server, reads from the cache that show those writes.

use std::{fmt::Debug, sync::Arc, time::Duration};

use either::Either;
use kube_client::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{NamespaceResourceScope, Status},
};
use kube_object::{Cached, Object, ObjectId, ObjectKey, Uid};
use kube_store::{LabelSelector, Lister, Snapshot};
use serde::{Serialize, de::DeserializeOwned};

use super::{api_object::ApiObject, coverage::covers, error::CachedReadError};
use crate::{Informer, Scope};

const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Wraps an [`Api`]: writes go to the server, reads come from an informer's cache and show at least
/// the writes made through it.
///
/// A cache lags the server by the delivery of one watch event. A program that reads immediately
/// after its own write may therefore see the old state. A `CachedApi` records each write until it
/// is visible in the cache. A read of one object waits for the writes to that object, and a list waits for
/// all writes. All `CachedApi`s of one informer share these records. Reads also wait for the initial
/// list, because an incomplete cache cannot prove that an object is absent.
///
/// Reads do not wait for an object that the informer does not select: another namespace, other
/// labels, or other text in a selected field. Sometimes only the server can decide this, for example
/// for selected fields that are not text, or for custom query parameters. Then a read waits for the
/// next event or bookmark.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube_client::{Api, Client, api::PostParams};
/// use kube_informer::{CachedApi, InformerFactory};
///
/// # async fn example(client: Client, map: ConfigMap) -> Result<(), Box<dyn std::error::Error>> {
/// let factory = InformerFactory::new(client.clone()).namespace("shop");
/// let informer = factory.informer::<ConfigMap>()?;
/// let maps = CachedApi::new(Api::namespaced(client, "shop"), &informer);
/// factory.start();
/// maps.create(&PostParams::default(), &map).await?;
/// assert!(maps.get("settings").await?.is_some());
/// # Ok(()) }
/// ```
///
/// # Limits
/// - An object may appear shortly after its deletion. This happens if the cache had never
///   contained it, and it was deleted by name or changed so that the informer no longer selects it.
/// - If the server's history was restored and the cache has not noticed, resourceVersions of writes
///   and of the cache cannot be compared. A deletion that the restore has undone is not reported.
/// - Reads do not wait for a write whose resourceVersion is not a number, as some aggregated servers
///   return: such versions have no order.
pub struct CachedApi<T: Cached> {
    api: Arc<Api<T::Resource>>,
    informer: Informer<T>,
    read_timeout: Duration,
    /// Whether the type is known to be namespaced. It is unknown for dynamic types.
    is_namespaced: bool,
}

impl<T: Cached> Clone for CachedApi<T> {
    fn clone(&self) -> Self {
        Self {
            api: Arc::clone(&self.api),
            informer: self.informer.clone(),
            read_timeout: self.read_timeout,
            is_namespaced: self.is_namespaced,
        }
    }
}

impl<T: Cached> CachedApi<T> {
    /// Writes through this `Api` and reads from the cache of this informer.
    ///
    /// The informer should select the written objects. This does not start the informer, and keeps it
    /// alive.
    pub fn new(api: Api<T::Resource>, informer: &Informer<T>) -> Self
    where
        <T::Resource as Resource>::Scope: 'static,
    {
        Self {
            api: Arc::new(api),
            informer: informer.clone(),
            read_timeout: DEFAULT_READ_TIMEOUT,
            is_namespaced: Scope::of::<T::Resource>() == Some(Scope::Namespaced),
        }
    }

    /// Returns a `CachedApi` for the objects of one namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Self
    where
        T::Resource: Resource<Scope = NamespaceResourceScope> + Clone,
        <T::Resource as Resource>::DynamicType: Default,
    {
        self.with_api(Api::namespaced(Api::clone(&self.api).into_client(), namespace))
    }

    /// Returns a `CachedApi` that writes through another `Api`, for example of another namespace or
    /// of a dynamic type.
    #[must_use]
    pub fn with_api(&self, api: Api<T::Resource>) -> Self {
        Self { api: Arc::new(api), ..self.clone() }
    }

    /// Sets how long a read waits for the initial list and for writes. The default is 5 seconds.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = timeout;
        self
    }

    /// Returns the `Api`, for all other requests.
    ///
    /// Writes through it are not recorded. Pass their responses to [`CachedApi::record_write`].
    pub fn api(&self) -> &Api<T::Resource> {
        &self.api
    }

    /// Records a write that was made elsewhere. `object` is the response of the server.
    pub fn record_write(&self, object: &T::Resource)
    where
        T::Resource: Object + Serialize + DeserializeOwned,
    {
        let coverage = self.informer.shared.config.source.coverage();
        let covered = coverage.and_then(|coverage| covers(&coverage, object));
        self.informer.shared.writes.record_write(&ObjectId::from(object.id()), covered);
    }

    /// Records that an object was removed from the server elsewhere.
    ///
    /// Do not call this for an object that a finalizer still holds.
    pub fn record_delete(&self, key: ObjectKey, uid: Uid) {
        self.informer.shared.writes.record_delete(key, uid);
    }

    /// Returns a lister, after all recorded writes are visible in the cache.
    ///
    /// # Errors
    /// [`CachedReadError`].
    ///
    /// # Cancel safety
    /// Safe: only the wait is lost.
    pub async fn lister(&self) -> Result<Lister<T>, CachedReadError> {
        self.informer.wait_for_writes(None, self.read_timeout).await?;
        Ok(self.informer.lister())
    }

    /// Returns the object of this name in the namespace of the `Api`, after the recorded writes to the
    /// object are visible in the cache.
    ///
    /// # Errors
    /// [`CachedReadError`]. It is [`CachedReadError::NamespaceRequired`] if the `Api` covers all
    /// namespaces and the type is namespaced. A dynamic type counts as namespaced once the cache
    /// contains a namespaced object.
    ///
    /// # Cancel safety
    /// Safe: only the wait is lost.
    pub async fn get(&self, name: &str) -> Result<Option<Arc<T>>, CachedReadError> {
        let key = ObjectKey::new(self.api.namespace(), name);
        self.informer.wait_for_writes(Some(&key), self.read_timeout).await?;
        let cache = self.snapshot();
        let is_namespaced =
            || self.is_namespaced || cache.iter().any(|entry| entry.key().namespace().is_some());
        if key.namespace().is_none() && is_namespaced() {
            let informer = self.informer.name().to_owned();
            return Err(CachedReadError::NamespaceRequired { informer, name: name.to_owned() });
        }
        Ok(cache.get(&key).map(|entry| Arc::clone(&entry.object)))
    }

    /// Returns the objects that match this selector, after all recorded writes are visible in the
    /// cache. An `Api` of one namespace restricts the list to this namespace.
    ///
    /// # Errors
    /// [`CachedReadError`].
    ///
    /// # Cancel safety
    /// Safe: only the wait is lost.
    pub async fn list(&self, selector: &LabelSelector) -> Result<Vec<Arc<T>>, CachedReadError> {
        let lister = self.lister().await?;
        Ok(match self.api.namespace() {
            Some(namespace) => lister.namespace(namespace).list(selector),
            None => lister.list(selector),
        })
    }

    fn snapshot(&self) -> Snapshot<T> {
        self.informer.shared.store.snapshot()
    }
}

/// Writes: the methods of [`Api`] with the same names. Each successful write is recorded.
///
/// # Errors
/// The errors of [`Api`].
///
/// # Cancel safety
/// A cancelled write may have reached the server, and is not recorded.
impl<T: Cached> CachedApi<T>
where
    T::Resource: ApiObject,
{
    /// Calls [`Api::create`] and records the write.
    ///
    /// # Errors
    /// The errors of [`Api`].
    pub async fn create(
        &self,
        params: &PostParams,
        object: &T::Resource,
    ) -> kube_client::Result<T::Resource> {
        self.recorded(self.api.create(params, object).await, params.dry_run)
    }

    /// Calls [`Api::replace`] and records the write.
    ///
    /// # Errors
    /// The errors of [`Api`].
    pub async fn replace(
        &self,
        name: &str,
        params: &PostParams,
        object: &T::Resource,
    ) -> kube_client::Result<T::Resource> {
        self.recorded(self.api.replace(name, params, object).await, params.dry_run)
    }

    /// Calls [`Api::replace_status`] and records the write.
    ///
    /// # Errors
    /// The errors of [`Api`].
    pub async fn replace_status(
        &self,
        name: &str,
        params: &PostParams,
        object: &T::Resource,
    ) -> kube_client::Result<T::Resource> {
        self.recorded(self.api.replace_status(name, params, object).await, params.dry_run)
    }

    /// Calls [`Api::patch`] and records the write.
    ///
    /// # Errors
    /// The errors of [`Api`].
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube_client::Result<T::Resource> {
        self.recorded(self.api.patch(name, params, patch).await, params.dry_run)
    }

    /// Calls [`Api::patch_status`] and records the write.
    ///
    /// # Errors
    /// The errors of [`Api`].
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube_client::Result<T::Resource> {
        self.recorded(self.api.patch_status(name, params, patch).await, params.dry_run)
    }

    /// Calls [`Api::delete`] and records the deletion.
    ///
    /// Later reads wait until the cache no longer contains the object. If a finalizer or a grace
    /// period holds the object, they wait until its `deletionTimestamp` is visible.
    ///
    /// # Errors
    /// The errors of [`Api`].
    pub async fn delete(
        &self,
        name: &str,
        params: &DeleteParams,
    ) -> kube_client::Result<Either<T::Resource, Status>> {
        let answer = self.api.delete(name, params).await?;
        if params.dry_run {
            return Ok(answer);
        }
        match &answer {
            Either::Left(object) if is_held(object) => self.record_write(object),
            Either::Left(object) => {
                let id = ObjectId::from(object.id());
                self.record_delete(id.key, id.uid);
            }
            Either::Right(status) => {
                let uid = status.details.as_ref().map(|details| Uid::new(&details.uid));
                self.record_delete(
                    ObjectKey::new(self.api.namespace(), name),
                    uid.unwrap_or_else(|| Uid::new("")),
                );
            }
        }
        Ok(answer)
    }

    fn recorded(
        &self,
        answer: kube_client::Result<T::Resource>,
        dry_run: bool,
    ) -> kube_client::Result<T::Resource> {
        if let (Ok(object), false) = (&answer, dry_run) {
            self.record_write(object);
        }
        answer
    }
}

/// Returns whether a finalizer or a grace period holds a deleted object.
///
/// An object that is removed immediately has no deletionTimestamp, or a grace period of zero. A
/// namespace has a deletionTimestamp without a grace period, because its finalizers are in its spec.
fn is_held(object: &impl Resource) -> bool {
    let meta = object.meta();
    let has_finalizers = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    has_finalizers || (meta.deletion_timestamp.is_some() && meta.deletion_grace_period_seconds != Some(0))
}
