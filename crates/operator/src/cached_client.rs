//! `CachedClient`: reads and writes the objects of all types, with the caches of a factory.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt::{self, Debug},
    hash::Hash,
    sync::Arc,
};

use kube_client::{
    Client, Error, Resource,
    api::{DeleteParams, Patch, ValidationDirective},
};
use kube_informer::{
    ApiScope, CachedApi, FactoryError, Informer, InformerFactory, LabelSelector, ObjectKey, StaticObject,
};
use parking_lot::Mutex;
use serde::Serialize;

use crate::{Applier, Failure, WriteError, Written, create_or_update, update_status};

/// Reads objects of any type from caches, and writes them to the server. Corresponds to the client of a
/// controller-runtime manager.
///
/// A `CachedClient` has a [`CachedApi`] for each type, so a read contains at least the earlier writes of
/// this client. When a type is used for the first time, the factory creates its informer, and the first
/// read waits for the initial list. The informers cover the namespace and the selectors of the factory.
/// Create them before the manager runs, so that the manager checks their permissions and waits for their
/// caches.
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
/// let controller = Controller::new(&client.informer::<Deployment>()?).owns(&client.informer::<ConfigMap>()?);
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
    /// The [`CachedApi`] of each type.
    apis: Arc<Mutex<HashMap<TypeId, Box<dyn Any + Send + Sync>>>>,
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
            apis: Arc::default(),
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

    /// Returns the informer of a type.
    ///
    /// # Errors
    /// Returns a [`FactoryError`] if the factory is shut down, or if its selectors are invalid.
    pub fn informer<K: StaticObject>(&self) -> Result<Informer<K>, FactoryError> {
        Ok(self.api::<K>()?.informer().clone())
    }

    /// Reads a type from this informer, for example an informer with a label selector. Call this method
    /// before the type is used.
    pub fn use_informer<K: StaticObject>(&self, informer: &Informer<K>) {
        let api = self.cached_api(informer);
        self.apis.lock().insert(TypeId::of::<K>(), Box::new(api));
    }

    /// Returns the [`CachedApi`] of a type for all namespaces.
    ///
    /// # Errors
    /// Returns a [`FactoryError`] if the factory is shut down, or if its selectors are invalid.
    pub fn api<K: StaticObject>(&self) -> Result<CachedApi<K>, FactoryError> {
        if let Some(api) = self.existing_api() {
            return Ok(self.with_settings(api));
        }
        // Without the lock, because the informer may call user code.
        let api = self.cached_api(&self.factory.informer::<K>()?);
        let mut apis = self.apis.lock();
        let known = apis.entry(TypeId::of::<K>()).or_insert_with(|| Box::new(api.clone()));
        Ok(self.with_settings(known.downcast_ref::<CachedApi<K>>().cloned().unwrap_or(api)))
    }

    /// Adds the settings of this client, which clones of the client may not have.
    fn with_settings<K: StaticObject>(&self, api: CachedApi<K>) -> CachedApi<K> {
        let api = if self.dry_run { api.dry_run() } else { api };
        match &self.field_validation {
            Some(directive) => api.field_validation(directive.clone()),
            None => api,
        }
    }

    fn existing_api<K: StaticObject>(&self) -> Option<CachedApi<K>> {
        self.apis.lock().get(&TypeId::of::<K>())?.downcast_ref::<CachedApi<K>>().cloned()
    }

    fn cached_api<K: StaticObject>(&self, informer: &Informer<K>) -> CachedApi<K> {
        let all = K::Scope::api(self.client.clone(), None);
        CachedApi::new(all, informer).field_manager(Arc::clone(&self.field_manager))
    }

    /// Returns the [`CachedApi`] of a type for the namespace of a key.
    ///
    /// # Errors
    /// Returns a [`FactoryError`] if the factory is shut down, or if its selectors are invalid.
    pub fn api_of<K: StaticObject>(&self, key: &ObjectKey) -> Result<CachedApi<K>, FactoryError> {
        Ok(self.api::<K>()?.with_api(K::Scope::api(self.client.clone(), key.namespace())))
    }

    /// Returns the object with this key from the cache. First, the method waits until the earlier writes
    /// of this client to the object are visible in the cache.
    ///
    /// # Errors
    /// Returns a failure with a [`FactoryError`], or with a
    /// [`CachedReadError`](kube_informer::CachedReadError) if the cache is not synced or does not contain
    /// the writes in time.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits.
    pub async fn get<K: StaticObject>(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Failure> {
        Ok(self.api_of::<K>(key)?.get(key.name()).await?)
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
        let lister = self.api::<K>()?.lister().await?;
        Ok(match namespace {
            Some(namespace) => lister.namespace(namespace).list(selector),
            None => lister.list(selector),
        })
    }

    /// Returns the cached objects that have this value in an index of their informer; see
    /// [`Informer::add_index`]. First, the method waits until the earlier writes of this client are visible
    /// in the cache.
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
    /// Returns a failure with a [`WriteError`] if the server rejects the object or does not respond.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have created the object.
    pub async fn create<K: StaticObject>(&self, object: &K) -> Result<K, Failure> {
        let key = key_of(object);
        let api = self.api_of::<K>(&key)?;
        let created = crate::write::requests::create(&api, object).await;
        Ok(created.map_err(|error| WriteError::request(&api, "create", &key, error))?)
    }

    /// Patches an object, and returns the object of the response.
    ///
    /// # Errors
    /// Returns a failure with a [`WriteError`] if the server rejects the patch or does not respond.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have patched the object.
    pub async fn patch<K: StaticObject>(
        &self,
        key: &ObjectKey,
        patch: &Patch<impl Serialize + Debug>,
    ) -> Result<K, Failure> {
        let api = self.api_of::<K>(key)?;
        let patched = crate::write::requests::patch(&api, key.name(), &api.patch_params(), patch).await;
        Ok(patched.map_err(|error| WriteError::request(&api, "patch", key, error))?)
    }

    /// Deletes an object. Returns false if the object does not exist.
    ///
    /// # Errors
    /// Returns a failure if the server rejects the deletion or does not respond.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have deleted the object.
    pub async fn delete<K: StaticObject>(&self, key: &ObjectKey) -> Result<bool, Failure> {
        let api = self.api_of::<K>(key)?;
        match api.delete(key.name(), &DeleteParams::default()).await {
            Ok(_) => Ok(true),
            Err(Error::Api(status)) if status.is_not_found() => Ok(false),
            Err(error) => Err(WriteError::request(&api, "delete", key, error).into()),
        }
    }

    /// Applies an object, or sends no request if the object is up to date. See [`Applier::apply`].
    ///
    /// # Errors
    /// Returns the failures of [`Applier::apply`].
    ///
    /// # Cancel safety
    /// See [`Applier::apply`].
    pub async fn apply<K: StaticObject>(&self, object: &K) -> Result<Written<K>, Failure> {
        self.applier.apply(&self.api_of::<K>(&key_of(object))?, object).await
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
        self.applier.apply_checked(&self.api_of::<K>(&key_of(object))?, object, check).await
    }

    /// Makes `owner` the controller of an object, and applies the object. The method never changes an object
    /// of another owner. See [`Applier::apply_owned`].
    ///
    /// # Errors
    /// Returns the failures of [`Applier::apply_owned`].
    ///
    /// # Cancel safety
    /// See [`Applier::apply`].
    pub async fn apply_owned<O, K>(&self, owner: &O, object: K) -> Result<Written<K>, Failure>
    where
        O: Resource<DynamicType: Default> + Sync,
        K: StaticObject,
    {
        self.applier.apply_owned(&self.api_of::<K>(&key_of(&object))?, owner, object).await
    }

    /// Creates an object, or updates it if `mutate` changes it. See [`create_or_update`].
    ///
    /// # Errors
    /// Returns the failures of [`create_or_update`].
    ///
    /// # Cancel safety
    /// See [`create_or_update`].
    pub async fn create_or_update<K: StaticObject>(
        &self,
        initial: K,
        mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
    ) -> Result<Written<K>, Failure> {
        create_or_update(&self.api_of::<K>(&key_of(&initial))?, initial, mutate).await
    }

    /// Updates the status of an object if `mutate` changes it. See [`update_status`].
    ///
    /// # Errors
    /// Returns the failures of [`update_status`].
    ///
    /// # Cancel safety
    /// See [`update_status`].
    pub async fn update_status<K: StaticObject>(
        &self,
        current: Arc<K>,
        mutate: impl FnOnce(&mut K) -> Result<(), Failure>,
    ) -> Result<Written<K>, Failure> {
        update_status(&self.api_of::<K>(&key_of(&*current))?, current, mutate).await
    }
}

fn key_of(object: &impl Resource) -> ObjectKey {
    let meta = object.meta();
    ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}
