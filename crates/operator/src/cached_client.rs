//! `CachedClient`: reads and writes the objects of all types, with the caches of a factory.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt::{self, Debug},
    hash::Hash,
    sync::Arc,
};

use kube_client::{
    Client, Error, Resource,
    api::{Patch, ValidationDirective},
};
use kube_informer::{
    ApiScope, CachedApi, FactoryError, Informer, InformerFactory, LabelSelector, ObjectKey, StaticObject,
    ToResource,
};
use parking_lot::Mutex;
use serde::Serialize;

use crate::{
    Applier, Failure, Written,
    write::{
        apply::CheckExisting,
        owner::{check_controller, set_controller_reference},
        requests::ObjectPart,
        update::Write,
    },
};
use type_cache::{Mutate, TypeCache, configured};

mod type_cache;

/// Reads objects of any type from caches, and writes them to the server. Corresponds to the client of a
/// controller-runtime manager.
///
/// A `CachedClient` has a [`CachedApi`] for each type, so a read contains at least the earlier writes of
/// this client. When a type is used for the first time, the factory creates its informer, and the first
/// read waits for the initial list. The informers cover the namespace and the selectors of the factory.
/// Create them before the manager runs, so that the manager checks their permissions and waits for their
/// caches.
///
/// The informer of a type can cache another representation. For example,
/// `client.informer::<Compressed<ConfigMap>>()` caches compressed ConfigMaps, which need less memory. Call it
/// before the client uses the type. `client.get::<ConfigMap>(&key)` then decodes the ConfigMap that it
/// returns. A cached object that does not decode as `K` makes each `get` and `list` of it fail, whereas an
/// informer of `K` does not cache it.
///
/// A `CachedClient` is cheap to clone. All clones share the caches and the records of applied objects.
///
/// ```no_run
/// # use std::sync::Arc;
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// # use kube_operator::{
/// #     Action, CachedClient, Controller, Failure, Manager, Request, with_context,
/// # };
/// async fn reconcile(request: Request<Deployment>, client: CachedClient) -> Result<Action, Failure> {
///     let Some(deployment) = request.object.present() else { return Ok(Action::AwaitChange) };
///     let mut map = ConfigMap::default();
///     map.metadata.name = deployment.metadata.name.clone();
///     map.metadata.namespace = deployment.metadata.namespace.clone();
///     client.apply_owned(&*deployment, map).await?;
///     Ok(Action::Done)
/// }
///
/// # fn example(manager: &mut Manager) -> Result<(), Box<dyn std::error::Error>> {
/// let client = manager.cached_client("example-operator").force();
/// let deployments = client.informer::<Deployment>()?;
/// let controller = Controller::new(&deployments).owns(&client.informer::<ConfigMap>()?);
/// manager.add_controller(controller, with_context(client, reconcile));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CachedClient {
    factory: InformerFactory,
    client: Client,
    field_manager: Arc<str>,
    applier: Arc<Applier>,
    dry_run: bool,
    field_validation: Option<ValidationDirective>,
    /// By the resource type.
    types: Arc<Mutex<HashMap<TypeId, TypeEntry>>>,
}

/// The cache of one type.
struct TypeEntry {
    /// The [`CachedApi`] of the representation.
    api: Box<dyn Any + Send + Sync>,
    /// The same `CachedApi` as an `Arc<dyn TypeCache<K>>`.
    cache: Box<dyn Any + Send + Sync>,
    /// The name of the Rust type of the cached objects.
    representation: &'static str,
}

/// Reports why a [`CachedClient`] has no cache of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CachedClientError {
    /// The factory could not create the informer.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// The client uses the type in another representation. With two caches, a read could return a state
    /// without the earlier writes of the client.
    #[error(
        "the client caches the type as {cached}, not as {requested}; use one of them, or a separate client"
    )]
    OtherRepresentation {
        /// The Rust type of the cached objects.
        cached: &'static str,
        /// The requested Rust type.
        requested: &'static str,
    },
}

impl Debug for CachedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedClient").field("field_manager", &self.field_manager).finish_non_exhaustive()
    }
}

impl CachedClient {
    /// Creates a client that writes through `client`, as this field manager, and reads from the informers
    /// of the factory. See also [`Manager::cached_client`](crate::Manager::cached_client).
    pub fn new(factory: &InformerFactory, client: Client, field_manager: impl Into<Arc<str>>) -> Self {
        let field_manager = field_manager.into();
        Self {
            factory: factory.clone(),
            client,
            applier: Arc::new(Applier::new(&*field_manager)),
            field_manager,
            dry_run: false,
            field_validation: None,
            types: Arc::default(),
        }
    }

    /// Takes over fields of other field managers in each apply. See [`Applier::force`]. The returned client
    /// does not share the records of applied objects with this client.
    #[must_use]
    pub fn force(self) -> Self {
        Self { applier: Arc::new(Applier::new(&*self.field_manager).force()), ..self }
    }

    /// Makes all writes of the returned client a dry run. See [`CachedApi::dry_run`].
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self { dry_run: true, ..self }
    }

    /// Sets the field validation of all writes of the returned client. See [`CachedApi::field_validation`].
    #[must_use]
    pub fn field_validation(self, directive: ValidationDirective) -> Self {
        Self { field_validation: Some(directive), ..self }
    }

    /// Returns the informer of a type, or of another representation of complete objects, such as
    /// `Compressed<ConfigMap>`. The client then reads the type from this informer.
    ///
    /// # Errors
    /// Returns an error if the client uses the type in another representation, if the factory is shut down,
    /// or if its selectors are invalid.
    pub fn informer<T>(&self) -> Result<Informer<T>, CachedClientError>
    where
        T: ToResource<Resource: StaticObject>,
    {
        Ok(self.api::<T>()?.informer().clone())
    }

    /// Reads a type from this informer, for example an informer with a label selector. Call this method
    /// before the type is used. Otherwise, existing `CachedApi`s of the type keep their informer.
    pub fn use_informer<T>(&self, informer: &Informer<T>)
    where
        T: ToResource<Resource: StaticObject>,
    {
        let entry = TypeEntry::new(self.cached_api(informer));
        let replaced = self.types.lock().insert(TypeId::of::<T::Resource>(), entry);
        drop(replaced); // without the lock, because the last drop of an informer may call user code
    }

    /// Returns the [`CachedApi`] of a type, or of another representation, for all namespaces.
    ///
    /// # Errors
    /// Returns the errors of [`informer`](Self::informer).
    pub fn api<T>(&self) -> Result<CachedApi<T>, CachedClientError>
    where
        T: ToResource<Resource: StaticObject>,
    {
        let api = match self.existing_api() {
            Some(api) => api?,
            None => self.new_api()?,
        };
        Ok(configured(api, self.dry_run, self.field_validation.as_ref()))
    }

    /// Returns the cache of a type, or an error if it has another representation.
    fn existing_api<T>(&self) -> Option<Result<CachedApi<T>, CachedClientError>>
    where
        T: ToResource<Resource: StaticObject>,
    {
        self.types.lock().get(&TypeId::of::<T::Resource>()).map(TypeEntry::api)
    }

    /// Creates the informer of a type.
    fn new_api<T>(&self) -> Result<CachedApi<T>, CachedClientError>
    where
        T: ToResource<Resource: StaticObject>,
    {
        // Without the lock, because the informer may call user code.
        let api = self.cached_api(&self.factory.informer::<T>()?);
        let mut types = self.types.lock();
        // Another thread may have created an informer in the meantime.
        types.entry(TypeId::of::<T::Resource>()).or_insert_with(|| TypeEntry::new(api)).api()
    }

    fn cached_api<T>(&self, informer: &Informer<T>) -> CachedApi<T>
    where
        T: ToResource<Resource: StaticObject>,
    {
        let all = <T::Resource as Resource>::Scope::api(self.client.clone(), None);
        CachedApi::new(all, informer).field_manager(Arc::clone(&self.field_manager))
    }

    /// Returns the [`CachedApi`] of a type, or of another representation, for the namespace of a key. See
    /// [`api`](Self::api).
    ///
    /// # Errors
    /// Returns the errors of [`informer`](Self::informer).
    pub fn api_of<T>(&self, key: &ObjectKey) -> Result<CachedApi<T>, CachedClientError>
    where
        T: ToResource<Resource: StaticObject>,
    {
        let api = <T::Resource as Resource>::Scope::api(self.client.clone(), key.namespace());
        Ok(self.api::<T>()?.with_api(api))
    }

    /// Returns the cache of a type in any representation, for a namespace.
    fn cache<K: StaticObject>(
        &self,
        namespace: Option<&str>,
    ) -> Result<Box<dyn TypeCache<K>>, CachedClientError> {
        let existing = || self.types.lock().get(&TypeId::of::<K>()).and_then(TypeEntry::cache);
        let cache: Arc<dyn TypeCache<K>> = match existing() {
            Some(cache) => cache,
            None => match (self.new_api::<K>(), existing()) {
                (_, Some(cache)) => cache,
                (created, None) => Arc::new(created?),
            },
        };
        let api = K::Scope::api(self.client.clone(), namespace);
        Ok(cache.configured(api, self.dry_run, self.field_validation.as_ref()))
    }

    /// Returns the object with this key from the cache. First, the method waits until the earlier writes
    /// of this client to the object are visible in the cache.
    ///
    /// # Errors
    /// Returns a failure with a [`CachedClientError`], or with a
    /// [`CachedReadError`](kube_informer::CachedReadError) if the cache is not synced or does not contain
    /// the writes in time.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits.
    pub async fn get<K: StaticObject>(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Failure> {
        self.cache::<K>(key.namespace())?.get(key.name()).await
    }

    /// Returns the cached objects that match this selector, of one namespace or of all namespaces. First,
    /// the method waits until the earlier writes of this client are visible in the cache.
    ///
    /// # Errors
    /// Returns the failures of [`get`](Self::get).
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits.
    pub async fn list<K: StaticObject>(
        &self,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<K>>, Failure> {
        self.cache::<K>(namespace)?.list(selector).await
    }

    /// Returns the cached objects that have this value in an index of their informer; see
    /// [`Informer::add_index`]. If the client caches another representation of `K`, the method fails. Use
    /// [`api`](Self::api) with this representation instead. First, the method waits until the earlier
    /// writes of this client are visible in the cache.
    ///
    /// # Errors
    /// Returns the failures of [`get`](Self::get), and a failure if the informer has no index with this
    /// name and this type of values.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits.
    pub async fn list_by_index<K, V>(&self, index: &'static str, value: &V) -> Result<Vec<Arc<K>>, Failure>
    where
        K: StaticObject,
        V: Hash + Eq + Clone + Send + Sync + 'static,
    {
        let api = self.api::<K>()?;
        let missing = || {
            format!(
                "the informer {} has no index {index} with this type of values; call `Informer::add_index` first",
                api.informer().name()
            )
        };
        let found = api.informer().index::<V>(index).ok_or_else(missing)?;
        api.lister().await?;
        Ok(found.get(value))
    }

    /// Creates an object, and returns the object of the response.
    ///
    /// # Errors
    /// Returns a failure with a [`WriteError`](crate::WriteError) if the server rejects the object or does
    /// not respond, or with a [`CachedClientError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have created the object.
    pub async fn create<K: StaticObject>(&self, object: &K) -> Result<K, Failure> {
        let key = key_of(object);
        self.cache::<K>(key.namespace())?.create(&key, object).await
    }

    /// Patches an object, and returns the object of the response.
    ///
    /// # Errors
    /// Returns a failure with a [`WriteError`](crate::WriteError) if the server rejects the patch or does not
    /// respond, or with a [`CachedClientError`]. Also fails if the patch cannot be serialized.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have patched the object.
    pub async fn patch<K: StaticObject>(
        &self,
        key: &ObjectKey,
        patch: &Patch<impl Serialize + Debug>,
    ) -> Result<K, Failure> {
        let to_value = |body: &_| serde_json::to_value(body).map_err(Error::SerdeError);
        let patch = match patch {
            Patch::Apply(body) => Patch::Apply(to_value(body)?),
            Patch::Merge(body) => Patch::Merge(to_value(body)?),
            Patch::Strategic(body) => Patch::Strategic(to_value(body)?),
            Patch::Json(operations) => Patch::Json(operations.clone()),
            _ => return Err(format!("failed to patch {key}: only apply, merge, strategic and JSON patches are supported; use `CachedClient::api_of`").into()),
        };
        self.cache::<K>(key.namespace())?.patch(key, &patch).await
    }

    /// Deletes an object. Returns false if the object does not exist.
    ///
    /// # Errors
    /// Returns a failure if the server rejects the deletion or does not respond.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have deleted the object.
    pub async fn delete<K: StaticObject>(&self, key: &ObjectKey) -> Result<bool, Failure> {
        self.cache::<K>(key.namespace())?.delete(key).await
    }

    /// Applies an object, or sends no request if the object is up to date. See [`Applier::apply`].
    ///
    /// # Errors
    /// Returns the failures of [`Applier::apply`].
    ///
    /// # Cancel safety
    /// See [`Applier::apply`].
    pub async fn apply<K: StaticObject>(&self, object: &K) -> Result<Written<K>, Failure> {
        self.send(object, None).await
    }

    /// Applies an object like [`apply`](Self::apply), but only if `check` accepts the existing object. See
    /// [`Applier::apply_checked`].
    ///
    /// # Errors
    /// Returns the failures of [`Applier::apply_checked`].
    ///
    /// # Cancel safety
    /// See [`Applier::apply`].
    pub async fn apply_checked<K: StaticObject>(
        &self,
        object: &K,
        check: impl Fn(&K) -> Result<(), Failure> + Send + Sync,
    ) -> Result<Written<K>, Failure> {
        self.send(object, Some(&check)).await
    }

    /// Makes `owner` the controller of an object, and applies the object. The method changes an existing
    /// object only if `owner` is already its controller. See [`Applier::apply_owned`].
    ///
    /// # Errors
    /// Returns the failures of [`Applier::apply_owned`].
    ///
    /// # Cancel safety
    /// See [`Applier::apply`].
    pub async fn apply_owned<O, K>(&self, owner: &O, mut object: K) -> Result<Written<K>, Failure>
    where
        O: Resource<DynamicType: Default> + Sync,
        K: StaticObject,
    {
        set_controller_reference(owner, &Default::default(), &mut object)?;
        self.send(&object, Some(&|existing: &K| Ok(check_controller(existing, owner)?))).await
    }

    async fn send<K: StaticObject>(
        &self,
        object: &K,
        check: Option<&CheckExisting<'_, K>>,
    ) -> Result<Written<K>, Failure> {
        let cache = self.cache::<K>(key_of(object).namespace())?;
        cache.apply(&self.applier, object, ObjectPart::Main, check).await
    }

    /// Creates an object, or updates it if `mutate` changes it. See
    /// [`create_or_update`](crate::create_or_update).
    ///
    /// # Errors
    /// Returns the failures of [`create_or_update`](crate::create_or_update).
    ///
    /// # Cancel safety
    /// See [`create_or_update`](crate::create_or_update).
    pub async fn create_or_update<K: StaticObject>(
        &self,
        initial: K,
        mutate: impl FnOnce(&mut K) -> Result<(), Failure> + Send,
    ) -> Result<Written<K>, Failure> {
        let cache = self.cache::<K>(key_of(&initial).namespace())?;
        cache.create_or_update(initial, Box::new(mutate)).await
    }

    /// Updates the status of an object if `mutate` changes it. See [`update_status`](crate::update_status).
    ///
    /// # Errors
    /// Returns the failures of [`update_status`](crate::update_status).
    ///
    /// # Cancel safety
    /// See [`update_status`](crate::update_status).
    pub async fn update_status<K: StaticObject>(
        &self,
        current: Arc<K>,
        mutate: impl FnOnce(&mut K) -> Result<(), Failure> + Send,
    ) -> Result<Written<K>, Failure> {
        self.write_status(current, Box::new(mutate), Write::UpdateStatus).await
    }

    /// Patches the status of an object if `mutate` changes it. See [`patch_status`](crate::patch_status).
    ///
    /// # Errors
    /// Returns the failures of [`patch_status`](crate::patch_status).
    ///
    /// # Cancel safety
    /// See [`patch_status`](crate::patch_status).
    pub async fn patch_status<K: StaticObject>(
        &self,
        current: Arc<K>,
        mutate: impl FnOnce(&mut K) -> Result<(), Failure> + Send,
    ) -> Result<Written<K>, Failure> {
        self.write_status(current, Box::new(mutate), Write::PatchStatus).await
    }

    async fn write_status<K: StaticObject>(
        &self,
        current: Arc<K>,
        mutate: Mutate<'_, K>,
        write: Write,
    ) -> Result<Written<K>, Failure> {
        let cache = self.cache::<K>(key_of(&*current).namespace())?;
        cache.write_status(current, mutate, write).await
    }
}

fn key_of(object: &impl Resource) -> ObjectKey {
    let meta = object.meta();
    ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

impl TypeEntry {
    fn new<T: ToResource<Resource: StaticObject>>(api: CachedApi<T>) -> Self {
        let cache: Arc<dyn TypeCache<T::Resource>> = Arc::new(api.clone());
        Self { api: Box::new(api), cache: Box::new(cache), representation: type_name::<T>() }
    }

    fn api<T: ToResource>(&self) -> Result<CachedApi<T>, CachedClientError> {
        let api = self.api.downcast_ref::<CachedApi<T>>().cloned();
        api.ok_or(CachedClientError::OtherRepresentation {
            cached: self.representation,
            requested: type_name::<T>(),
        })
    }

    fn cache<K: 'static>(&self) -> Option<Arc<dyn TypeCache<K>>> {
        self.cache.downcast_ref::<Arc<dyn TypeCache<K>>>().cloned()
    }
}
