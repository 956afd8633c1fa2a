//! `CachedApi`: writes to the server, reads from the cache, and reads what it has written.

use std::{any::TypeId, fmt::Debug, sync::Arc, time::Duration};

use either::Either;
use kube_client::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{NamespaceResourceScope, Status},
};
use kube_object::{Cached, Object, ObjectId, ObjectKey, Uid};
use kube_store::{LabelSelector, Lister, Snapshot};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Informer, StaleRead, coverage::covers};

/// How long a read waits for the cache unless [`CachedApi::patience`] says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// An [`Api`] whose reads come from an informer's cache and show at least what was written through it.
///
/// A cache lags behind the server by the way of an event, so that a program which reads right after its own write may
/// see the state before it. Here each write is remembered until the cache shows it, and a read waits for that: for the
/// writes of its object, or for all of them. All that are made with one informer share one memory. Before the first list
/// is in the cache a read waits for it: nothing is said not to be there by a cache that does not know.
///
/// Objects that the informer does not cover (of another namespace, without its labels, with other text in a field) are not
/// waited for. Where only the server knows (fields that are no text, parameters of one's own) a read waits for the next
/// event or bookmark.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_client::{Api, Client, api::PostParams};
/// # use kube_informer::{CachedApi, InformerFactory};
/// # async fn example(client: Client, map: ConfigMap) -> Result<(), Box<dyn std::error::Error>> {
/// let factory = InformerFactory::new(client.clone()).namespace("shop");
/// let maps = CachedApi::new(Api::<ConfigMap>::namespaced(client, "shop"), &factory.informer::<ConfigMap>()?);
/// factory.start();
/// maps.create(&PostParams::default(), &map).await?;
/// assert!(maps.get("settings").await?.is_some());
/// # Ok(()) }
/// ```
///
/// # Limits
/// What was deleted by its name, or changed so that the informer does not cover it any more, before the cache had ever
/// seen it may be seen for a moment. After a restore of the server's history that the cache has not noticed, its versions
/// say nothing about the cache; a deletion that a restore has undone is not said. A write whose version is no
/// number, as of some aggregated servers, is not waited for: nobody can say whether the cache has come there.
pub struct CachedApi<T: Cached> {
    api: Arc<Api<T::Resource>>,
    informer: Informer<T>,
    patience: Duration,
    /// The type lives in namespaces; of one known only at run time that is not known.
    namespaced: bool,
}

impl<T: Cached> Clone for CachedApi<T> {
    fn clone(&self) -> Self {
        Self {
            api: Arc::clone(&self.api),
            informer: self.informer.clone(),
            patience: self.patience,
            namespaced: self.namespaced,
        }
    }
}

impl<T: Cached> CachedApi<T> {
    /// Writes through this `Api`, reads from this informer's cache. The informer should cover what is written; it is
    /// not started by this, and goes on for as long as this is held.
    pub fn new(api: Api<T::Resource>, informer: &Informer<T>) -> Self
    where
        <T::Resource as Resource>::Scope: 'static,
    {
        Self {
            api: Arc::new(api),
            informer: informer.clone(),
            patience: PATIENCE,
            namespaced: TypeId::of::<<T::Resource as Resource>::Scope>()
                == TypeId::of::<NamespaceResourceScope>(),
        }
    }

    /// The same for the objects of one namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Self
    where
        T::Resource: Resource<Scope = NamespaceResourceScope> + Clone,
        <T::Resource as Resource>::DynamicType: Default,
    {
        self.with_api(Api::namespaced(Api::clone(&self.api).into_client(), namespace))
    }

    /// The same through another `Api`: of another namespace, of a type that is known only at run time.
    #[must_use]
    pub fn with_api(&self, api: Api<T::Resource>) -> Self {
        Self { api: Arc::new(api), ..self.clone() }
    }

    /// How long a read waits for the cache to have its first list and show what was written; 5 s unless set.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The `Api` itself, for everything else. What is written through it is not remembered unless [`CachedApi::wrote`]
    /// is told.
    pub fn api(&self) -> &Api<T::Resource> {
        &self.api
    }

    /// Remembers a write made elsewhere: this is what the server answered.
    pub fn wrote(&self, object: &T::Resource)
    where
        T::Resource: Object + Serialize + DeserializeOwned,
    {
        let covered = self.informer.shared.config.source.coverage();
        let covered = covered.and_then(|coverage| covers(&coverage, object));
        let id = ObjectId::from(object.id());
        self.informer.shared.written.lock().change(&id, covered, &self.snapshot());
    }

    /// Remembers a deletion made elsewhere: this object is gone for good.
    pub fn deleted(&self, key: ObjectKey, uid: Uid) {
        self.informer.shared.written.lock().delete(key, uid, &self.snapshot());
    }

    /// A lister over a cache that shows everything that was written.
    ///
    /// # Errors
    /// [`StaleRead`].
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn lister(&self) -> Result<Lister<T>, StaleRead> {
        self.informer.catch_up(None, self.patience).await?;
        Ok(self.informer.lister())
    }

    /// The object of this name, in the namespace of the `Api`; what was written of it is in it.
    ///
    /// # Errors
    /// [`StaleRead`]; [`StaleRead::NoNamespace`] where the `Api` is of all namespaces and the objects live in them. For a
    /// type that is known only at run time the first object that is cached shows that.
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn get(&self, name: &str) -> Result<Option<Arc<T>>, StaleRead> {
        let key = ObjectKey::new(self.api.namespace(), name);
        self.informer.catch_up(Some(&key), self.patience).await?;
        let cache = self.snapshot();
        let in_namespaces = || self.namespaced || cache.iter().any(|entry| entry.key().namespace().is_some());
        if key.namespace().is_none() && in_namespaces() {
            let informer = self.informer.shared.config.name.clone();
            return Err(StaleRead::NoNamespace { informer, name: name.to_owned() });
        }
        Ok(cache.get(&key).map(|entry| Arc::clone(&entry.object)))
    }

    /// The objects that this selector matches, in the namespace of the `Api` if it has one; everything that was written
    /// is in them.
    ///
    /// # Errors
    /// [`StaleRead`].
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn list(&self, selector: &LabelSelector) -> Result<Vec<Arc<T>>, StaleRead> {
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

/// The writes: those of [`Api`], remembered.
///
/// # Errors
/// Those of [`Api`], of each method's own name.
///
/// # Cancel safety
/// A write that is cancelled may have been made, and is not remembered.
impl<T: Cached> CachedApi<T>
where
    T::Resource: Object + Clone + Serialize + DeserializeOwned + Debug,
{
    /// [`Api::create`].
    ///
    /// # Errors
    /// As there.
    pub async fn create(
        &self,
        params: &PostParams,
        object: &T::Resource,
    ) -> kube_client::Result<T::Resource> {
        self.remembered(self.api.create(params, object).await, params.dry_run)
    }

    /// [`Api::replace`].
    ///
    /// # Errors
    /// As there.
    pub async fn replace(
        &self,
        name: &str,
        params: &PostParams,
        object: &T::Resource,
    ) -> kube_client::Result<T::Resource> {
        self.remembered(self.api.replace(name, params, object).await, params.dry_run)
    }

    /// [`Api::replace_status`].
    ///
    /// # Errors
    /// As there.
    pub async fn replace_status(
        &self,
        name: &str,
        params: &PostParams,
        object: &T::Resource,
    ) -> kube_client::Result<T::Resource> {
        self.remembered(self.api.replace_status(name, params, object).await, params.dry_run)
    }

    /// [`Api::patch`].
    ///
    /// # Errors
    /// As there.
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube_client::Result<T::Resource> {
        self.remembered(self.api.patch(name, params, patch).await, params.dry_run)
    }

    /// [`Api::patch_status`].
    ///
    /// # Errors
    /// As there.
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube_client::Result<T::Resource> {
        self.remembered(self.api.patch_status(name, params, patch).await, params.dry_run)
    }

    /// [`Api::delete`]. An object that is gone at once is waited for to be gone from the cache, one that a finalizer or
    /// a grace period holds to be shown as being deleted.
    ///
    /// # Errors
    /// As there.
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
            Either::Left(object) if is_held(object) => self.wrote(object),
            Either::Left(object) => {
                let id = ObjectId::from(object.id());
                self.deleted(id.key, id.uid);
            }
            Either::Right(status) => {
                let uid = status.details.as_ref().map(|details| Uid::new(&details.uid));
                self.deleted(ObjectKey::new(self.api.namespace(), name), uid.unwrap_or_else(|| Uid::new("")));
            }
        }
        Ok(answer)
    }

    fn remembered(
        &self,
        answer: kube_client::Result<T::Resource>,
        dry_run: bool,
    ) -> kube_client::Result<T::Resource> {
        if let (Ok(object), false) = (&answer, dry_run) {
            self.wrote(object);
        }
        answer
    }
}

/// Whether something keeps a deleted object for a while. One that goes at once is not marked as being deleted, or with
/// a grace period of zero; a namespace, whose finalizers stand in its spec, is marked without one.
fn is_held(object: &impl Resource) -> bool {
    let meta = object.meta();
    let has_finalizers = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    has_finalizers || (meta.deletion_timestamp.is_some() && meta.deletion_grace_period_seconds != Some(0))
}
