//! `CachedApi`: writes to the API server, and reads from a cache that contains these writes.

use std::{fmt::Debug, sync::Arc, time::Duration};

use either::Either;
use http::Request;
use kube_client::{
    Api, Error, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams, ValidationDirective},
    core::{NamespaceResourceScope, Request as RequestBuilder, Status, request as core_request},
};
use kube_object::{Cached, Object, ObjectId, ObjectKey, Uid};
use kube_store::{LabelSelector, Lister};
use serde::{Serialize, de::DeserializeOwned};

use super::{api_object::ApiObject, coverage::covers, error::CachedReadError, write_settings::WriteSettings};
use crate::{Informer, Scope};

const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Writes to the API server through an [`Api`], and reads from the cache of an informer. A read
/// contains at least the earlier writes of this program.
///
/// The cache contains a write only after the informer has received the watch event of this write.
/// Without a `CachedApi`, a read immediately after a write can therefore return the old state. A
/// `CachedApi` records each write until the write is visible in the cache. A read of one object
/// waits for the recorded writes to this object, and a list waits for all recorded writes. All
/// `CachedApi`s of one informer share the records. Reads also wait for the initial list, because an
/// incomplete cache cannot prove that an object is absent.
///
/// A read does not wait for a write to an object that the informer does not select. The `CachedApi`
/// compares the namespace and the labels of the object with the selectors of the informer, and also
/// fields with a string value. For other field selectors and for custom query parameters, only the server can
/// decide. A read then waits for the next event or bookmark, and fails after its timeout.
///
/// If the informer is [sharded](crate::InformerBuilder::sharded), a read does not wait for a write to an
/// object of a slot that the program does not request. If the program removes the slot, waiting reads also
/// stop waiting for this write. A [`get`](CachedApi::get) of such an object, or a list of its namespace,
/// fails with [`CachedReadError::OtherSlot`]. A list of all namespaces fails with
/// [`CachedReadError::IncompleteList`], except if the informer caches all slots. With
/// [`ShardKey::Name`](kube_object::ShardKey::Name) and
/// [`ShardKey::Uid`](kube_object::ShardKey::Uid), this also applies to a list of one namespace. With `Uid`,
/// a `get` of an absent object fails, because its key does not determine its slot.
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
/// - A read can return a deleted object for a short time, if the cache did not contain the object
///   when you deleted it by name. The watch then delivers first the creation and later the
///   deletion. The same applies to an update after which the informer no longer selects the object.
/// - After the server was restored from an older state, a read can return without waiting for a
///   write, until a relist detects the restore. A read does not report that the restore has undone
///   a deletion.
/// - A read does not wait for a write if the resourceVersion of the written object is not a decimal
///   number. Some aggregated API servers return such versions.
/// - If the lists of a server have no resourceVersion, a read waits only for updates of cached
///   objects. The result may lack an object that you have just created.
pub struct CachedApi<T: Cached> {
    api: Arc<Api<T::Resource>>,
    informer: Informer<T>,
    read_timeout: Duration,
    settings: WriteSettings,
    /// The scope of the type. `None` for dynamic types.
    scope: Option<Scope>,
}

impl<T: Cached> Clone for CachedApi<T> {
    fn clone(&self) -> Self {
        Self {
            api: Arc::clone(&self.api),
            informer: self.informer.clone(),
            read_timeout: self.read_timeout,
            settings: self.settings.clone(),
            scope: self.scope,
        }
    }
}

impl<T: Cached> CachedApi<T> {
    /// Creates a `CachedApi` that writes through `api` and reads from the cache of `informer`.
    ///
    /// The informer should select the objects that you write. You must start the informer yourself.
    /// The `CachedApi` keeps it alive.
    pub fn new(api: Api<T::Resource>, informer: &Informer<T>) -> Self
    where
        <T::Resource as Resource>::Scope: 'static,
    {
        Self {
            api: Arc::new(api),
            informer: informer.clone(),
            read_timeout: DEFAULT_READ_TIMEOUT,
            settings: WriteSettings::default(),
            scope: Scope::of::<T::Resource>(),
        }
    }

    /// Returns a `CachedApi` that reads and writes the objects of one namespace.
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

    /// Sets the timeout of reads. A read waits for the initial list and for recorded writes. The
    /// default is 5 seconds.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = timeout;
        self
    }

    /// Sets the field manager of all writes whose parameters contain none. By default, the server uses
    /// the start of the user agent.
    #[must_use]
    pub fn field_manager(mut self, name: impl Into<Arc<str>>) -> Self {
        self.settings.field_manager = Some(name.into());
        self
    }

    /// Makes all writes a dry run, as controller-runtime's `NewDryRunClient` does. The server checks
    /// each write and responds as usual, but does not store it.
    ///
    /// A dry run is not recorded. Later reads therefore return the state without the write.
    ///
    /// Requests through [`CachedApi::api`] are not a dry run. The functions that a program passes to a
    /// helper run as usual, for example the cleanup of a `Finalizer`.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.settings.dry_run = true;
        self
    }

    /// Returns whether all writes are a dry run.
    pub fn is_dry_run(&self) -> bool {
        self.settings.dry_run
    }

    /// Sets the field validation of all creates, replaces and patches whose parameters contain none,
    /// as controller-runtime's `WithFieldValidation` does.
    ///
    /// With [`ValidationDirective::Strict`], the server rejects an object with an unknown or repeated
    /// field. By default, the server ignores such fields and sends warnings, which kube-client does not
    /// show. For example, `Strict` reveals that the schema of a CRD lacks a field of the Rust type.
    #[must_use]
    pub fn field_validation(mut self, directive: ValidationDirective) -> Self {
        self.settings.field_validation = Some(directive);
        self
    }

    /// Returns default parameters for a create or a replace, with the field manager and the dry run.
    /// To add the field validation to a request, call [`CachedApi::add_field_validation`].
    pub fn post_params(&self) -> PostParams {
        self.settings.post(&PostParams::default())
    }

    /// Returns default parameters for a patch, with the settings of this `CachedApi`.
    pub fn patch_params(&self) -> PatchParams {
        self.settings.patch(&PatchParams::default())
    }

    /// Adds the field validation to a create or a replace that the program builds itself. The
    /// parameters of these requests cannot contain it.
    pub fn add_field_validation(&self, request: &mut Request<Vec<u8>>) {
        self.settings.add_field_validation(request);
    }

    /// Returns the `Api`, for requests that `CachedApi` does not provide.
    ///
    /// Writes through this `Api` are not recorded. To record a write, pass its response to
    /// [`CachedApi::record_write`].
    pub fn api(&self) -> &Api<T::Resource> {
        &self.api
    }

    /// Returns the informer whose cache this `CachedApi` reads.
    pub fn informer(&self) -> &Informer<T> {
        &self.informer
    }

    /// Records a write that was sent without a `CachedApi`. `object` is the response of the server.
    /// Later reads wait until the write is visible in the cache. If the informer is stopped, the call
    /// has no effect.
    pub fn record_write(&self, object: &T::Resource)
    where
        T::Resource: Object + Serialize + DeserializeOwned,
    {
        let covered = self.selects(object);
        self.informer.shared.writes.record_write(&ObjectId::from(object.id()), covered);
    }

    /// Returns whether the informer selects this object. Returns `None` if only the server can decide:
    /// for field selectors that the type cannot evaluate, and for custom query parameters.
    pub fn selects(&self, object: &T::Resource) -> Option<bool>
    where
        T::Resource: Object + Serialize + DeserializeOwned,
    {
        if self.informer.shard().is_some_and(|shard| !shard.contains(&object.id())) {
            return Some(false);
        }
        let coverage = self.informer.shared.config.source.coverage()?;
        covers(&coverage, object)
    }

    /// Records that an object was removed from the server without a `CachedApi`. Later reads wait
    /// until the cache no longer contains the object. If the informer is stopped, the call has no
    /// effect.
    ///
    /// If a finalizer or a grace period still holds the deleted object, call
    /// [`CachedApi::record_write`] with the response instead. Otherwise, reads wait until the
    /// object is removed.
    pub fn record_delete(&self, key: ObjectKey, uid: Uid) {
        self.informer.shared.writes.record_delete(key, uid);
    }

    /// Waits until all recorded writes are visible in the cache, and returns a lister.
    ///
    /// # Errors
    /// Returns a [`CachedReadError`] if the cache does not contain the initial list and the
    /// recorded writes within the read timeout. Also returns an error if the informer is stopped,
    /// or if the server may have lost a recorded write.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn lister(&self) -> Result<Lister<T>, CachedReadError> {
        self.informer.wait_for_writes(None, self.read_timeout).await?;
        Ok(self.informer.lister())
    }

    /// Returns the object with this name in the namespace of the `Api`. First, the method waits
    /// until the recorded writes to the object are visible in the cache.
    ///
    /// # Errors
    /// Returns a [`CachedReadError`] if the cache does not contain the initial list and the
    /// recorded writes within the read timeout. Also returns an error if the informer is stopped,
    /// or if the server may have lost a recorded write.
    ///
    /// Returns [`CachedReadError::NamespaceRequired`] if the `Api` covers all namespaces and the
    /// type is namespaced. A dynamic type counts as namespaced if the cache contains a namespaced
    /// object.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn get(&self, name: &str) -> Result<Option<Arc<T>>, CachedReadError> {
        let key = ObjectKey::new(self.api.namespace(), name);
        self.informer.wait_for_writes(Some(&key), self.read_timeout).await?;
        if key.namespace().is_none() && self.has_namespaces() {
            let informer = self.informer.name().to_owned();
            return Err(CachedReadError::NamespaceRequired { informer, name: name.to_owned() });
        }
        let found = self.informer.shared.store.get(&key);
        if found.is_none() && self.informer.shard().is_some() {
            return self.get_of_own_slot(&key);
        }
        Ok(found)
    }

    /// Returns the objects that match this selector. First, the method waits until all recorded
    /// writes are visible in the cache. If the `Api` has a namespace, the result contains only
    /// objects of this namespace.
    ///
    /// # Errors
    /// Returns a [`CachedReadError`] if the cache does not contain the initial list and the
    /// recorded writes within the read timeout. Also returns an error if the informer is stopped,
    /// or if the server may have lost a recorded write.
    ///
    /// Returns [`CachedReadError::OtherSlot`] or [`CachedReadError::IncompleteList`] if the informer is
    /// [sharded](crate::InformerBuilder::sharded), and the objects can belong to slots that it does not
    /// cache. Use a [`Lister`] to list only the cached objects.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn list(&self, selector: &LabelSelector) -> Result<Vec<Arc<T>>, CachedReadError> {
        // One state of the cache, so that the result is complete if the slots are cached.
        let cache = self.lister().await?.snapshot();
        self.check_list(&cache)?;
        Ok(match self.api.namespace() {
            None => cache.list(selector),
            Some(namespace) => cache.namespace_list(namespace, selector),
        })
    }

    /// Returns whether the type is namespaced. A dynamic type counts as namespaced if the cache contains
    /// a namespaced object.
    fn has_namespaces(&self) -> bool {
        match self.scope {
            Some(scope) => scope == Scope::Namespaced,
            None => self.informer.shared.store.snapshot().namespaces().next().is_some(),
        }
    }
}

/// Calls the methods of [`Api`] with the same names, and records each successful write. A dry run
/// is not recorded.
///
/// # Errors
/// Returns the errors of [`Api`].
///
/// # Cancel safety
/// These methods are not cancel safe. If you drop the future, the server may have received the
/// write, but the write is not recorded. A later read can then return the old state.
impl<T: Cached> CachedApi<T>
where
    T::Resource: ApiObject,
{
    /// Calls [`Api::create`] and records the write.
    ///
    /// # Errors
    /// Returns the error of [`Api::create`]. A failed request is not recorded.
    pub async fn create(
        &self,
        params: &PostParams,
        object: &T::Resource,
    ) -> kube_client::Result<T::Resource> {
        let params = self.settings.post(params);
        let request = self.builder().create(&params, json(object)?);
        self.recorded(self.send("create", request).await, params.dry_run)
    }

    /// Calls [`Api::replace`] and records the write.
    ///
    /// # Errors
    /// Returns the error of [`Api::replace`]. A failed request is not recorded.
    pub async fn replace(
        &self,
        name: &str,
        params: &PostParams,
        object: &T::Resource,
    ) -> kube_client::Result<T::Resource> {
        let params = self.settings.post(params);
        let request = self.builder().replace(name, &params, json(object)?);
        self.recorded(self.send("replace", request).await, params.dry_run)
    }

    /// Calls [`Api::replace_status`] and records the write.
    ///
    /// # Errors
    /// Returns the error of [`Api::replace_status`]. A failed request is not recorded.
    pub async fn replace_status(
        &self,
        name: &str,
        params: &PostParams,
        object: &T::Resource,
    ) -> kube_client::Result<T::Resource> {
        let params = self.settings.post(params);
        let request = self.builder().replace_subresource("status", name, &params, json(object)?);
        self.recorded(self.send("replace_status", request).await, params.dry_run)
    }

    /// Calls [`Api::patch`] and records the write.
    ///
    /// # Errors
    /// Returns the error of [`Api::patch`]. A failed request is not recorded.
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube_client::Result<T::Resource> {
        let params = self.settings.patch(params);
        self.recorded(self.api.patch(name, &params, patch).await, params.dry_run)
    }

    /// Calls [`Api::patch_status`] and records the write.
    ///
    /// # Errors
    /// Returns the error of [`Api::patch_status`]. A failed request is not recorded.
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube_client::Result<T::Resource> {
        let params = self.settings.patch(params);
        self.recorded(self.api.patch_status(name, &params, patch).await, params.dry_run)
    }

    /// Calls [`Api::delete`] and records the deletion, except for a dry run.
    ///
    /// Later reads wait until the cache no longer contains the object. If a finalizer or a grace
    /// period still holds the object, later reads wait until its `deletionTimestamp` is visible in
    /// the cache.
    ///
    /// # Errors
    /// Returns the error of [`Api::delete`]. A failed request is not recorded.
    pub async fn delete(
        &self,
        name: &str,
        params: &DeleteParams,
    ) -> kube_client::Result<Either<T::Resource, Status>> {
        let params = self.settings.delete(params);
        let response = self.api.delete(name, &params).await?;
        if params.dry_run {
            return Ok(response);
        }
        match &response {
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
        Ok(response)
    }

    fn builder(&self) -> RequestBuilder {
        RequestBuilder::new(self.api.resource_url())
    }

    /// Sends a create or a replace as [`Api`] does, with the field validation.
    async fn send(
        &self,
        name: &'static str,
        request: Result<Request<Vec<u8>>, core_request::Error>,
    ) -> kube_client::Result<T::Resource> {
        let mut request = request.map_err(Error::BuildRequest)?;
        self.settings.add_field_validation(&mut request);
        // kube-client uses this as the name of the span.
        request.extensions_mut().insert(name);
        Api::clone(&self.api).into_client().request(request).await
    }

    fn recorded(
        &self,
        response: kube_client::Result<T::Resource>,
        dry_run: bool,
    ) -> kube_client::Result<T::Resource> {
        if let (Ok(object), false) = (&response, dry_run) {
            self.record_write(object);
        }
        response
    }
}

fn json(object: &impl Serialize) -> kube_client::Result<Vec<u8>> {
    serde_json::to_vec(object).map_err(Error::SerdeError)
}

/// Returns whether a finalizer or a grace period holds a deleted object.
///
/// An object that is removed immediately has no deletionTimestamp, or a grace period of zero. A
/// namespace has a deletionTimestamp without a grace period, because its finalizers are in its
/// spec.
fn is_held(object: &impl Resource) -> bool {
    let meta = object.meta();
    let has_finalizers = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    has_finalizers || (meta.deletion_timestamp.is_some() && meta.deletion_grace_period_seconds != Some(0))
}
