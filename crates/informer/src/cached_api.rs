//! `CachedApi`: writes to the server, reads from the cache, and reads what it has written.

use std::{any::TypeId, fmt::Debug, sync::Arc, time::Duration};

use either::Either;
use kube_client::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{NamespaceResourceScope, Status},
};
use kube_object::{Cached, Object, ObjectId, ObjectKey, ResourceVersion, Uid};
use kube_store::{LabelSelector, Lister, Snapshot};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::runtime::Handle;

use crate::{
    Informer,
    coverage::covers,
    written::{Unseen, Written},
};

/// How long a read waits for the cache unless [`CachedApi::patience`] says otherwise.
const PATIENCE: Duration = Duration::from_secs(5);

/// An [`Api`] whose reads come from an informer's cache and show at least what was written through it.
///
/// A cache lags behind the server by the way of an event, so that a program which reads right after its own write may
/// see the state before it. Here each write is remembered until the cache shows it, and a read waits for that: for the
/// writes of its object, or for all of them. Clones share one memory.
///
/// Objects that the informer does not cover (of another namespace, without its labels) are not waited for. Where only
/// the server knows (field selectors, parameters of one's own) a read waits for the next event or bookmark.
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
    written: Arc<Mutex<Written>>,
    patience: Duration,
    /// The type lives in namespaces; of one known only at run time that is not known.
    namespaced: bool,
}

/// A cache does not show what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StaleRead {
    /// It has not reached the version of a write within the time; a later read waits again.
    #[error(
        "the cache of {informer} is {} and does not show what was written at {wanted} after {within:?}",
        at(.reached.as_ref())
    )]
    Behind {
        /// The informer: its kind and URL.
        informer: String,
        /// The version of the write.
        wanted: ResourceVersion,
        /// How far the cache is; `None` where nothing with a version is in it.
        reached: Option<ResourceVersion>,
        /// How long was waited.
        within: Duration,
    },
    /// It still holds an object that was deleted; a later read waits again.
    #[error(
        "the cache of {informer} is {} and still holds {key}, which was deleted, after {within:?}",
        at(.reached.as_ref())
    )]
    Undeleted {
        /// The informer: its kind and URL.
        informer: String,
        /// The object.
        key: ObjectKey,
        /// How far the cache is; `None` where nothing with a version is in it.
        reached: Option<ResourceVersion>,
        /// How long was waited.
        within: Duration,
    },
    /// The server's history was restored after a write, which may be undone. Said to each read that waits for such a write,
    /// or else to the next one; a later read does not wait for what was written before.
    #[error("the server's history was restored: what was written to {informer} at {wanted} may be undone")]
    Restored {
        /// The informer: its kind and URL.
        informer: String,
        /// The version of the last write of the lost history.
        wanted: ResourceVersion,
    },
    /// An object was asked for by its name alone, through an `Api` of all namespaces: none is found like that.
    #[error(
        "objects of {informer} live in namespaces: {name:?} is none without one, take an Api of a namespace or a lister"
    )]
    NoNamespace {
        /// The informer: its kind and URL.
        informer: String,
        /// What was asked for.
        name: String,
    },
    /// It does not show what was written yet; there is no tokio runtime here, and without its clock nothing can be waited
    /// for.
    #[error(
        "the cache of {informer} does not show what was written, which only a task of a tokio runtime can wait for"
    )]
    NoRuntime {
        /// The informer: its kind and URL.
        informer: String,
    },
    /// The informer was stopped before its cache showed a write.
    #[error("{informer} is stopped, and its cache does not show what was written")]
    Stopped {
        /// The informer: its kind and URL.
        informer: String,
    },
}

fn at(reached: Option<&ResourceVersion>) -> String {
    reached.map_or_else(|| "empty".to_owned(), |version| format!("at {version}"))
}

impl<T: Cached> Clone for CachedApi<T> {
    fn clone(&self) -> Self {
        Self {
            api: Arc::clone(&self.api),
            informer: self.informer.clone(),
            written: Arc::clone(&self.written),
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
            written: Arc::default(),
            patience: PATIENCE,
            namespaced: TypeId::of::<<T::Resource as Resource>::Scope>()
                == TypeId::of::<NamespaceResourceScope>(),
        }
    }

    /// How long a read waits for the cache to show what was written; 5 s unless set.
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
        T::Resource: Object,
    {
        let covered = self.informer.shared.config.source.coverage();
        let covered = covered.and_then(|coverage| covers(&coverage, object));
        let id = ObjectId::from(object.id());
        self.written.lock().change(&id, covered, &self.snapshot());
    }

    /// Remembers a deletion made elsewhere: this object is gone for good.
    pub fn deleted(&self, key: ObjectKey, uid: Uid) {
        self.written.lock().delete(key, uid, &self.snapshot());
    }

    /// A lister over a cache that shows everything that was written.
    ///
    /// # Errors
    /// [`StaleRead`].
    ///
    /// # Cancel safety
    /// Safe: nothing but the wait is lost.
    pub async fn lister(&self) -> Result<Lister<T>, StaleRead> {
        self.catch_up(None).await?;
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
        self.catch_up(Some(&key)).await?;
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

    /// Waits until the cache shows what was written of this object, or of all.
    async fn catch_up(&self, key: Option<&ObjectKey>) -> Result<(), StaleRead> {
        let (mut unseen, mut waits_in) = (None, None);
        let store = &self.informer.shared.store;
        let looking = store.wait_for(self.patience, |cache| {
            let (now, epoch) = (self.written.lock().unseen(key, cache), cache.position().epoch);
            unseen = match (now, unseen.take()) {
                // Another read was told, and forgot what this one waits for.
                (None, Some(Unseen::Change(wanted))) if waits_in != Some(epoch) => Some(Unseen::Lost(wanted)),
                (now, _) => now,
            };
            waits_in = Some(epoch);
            matches!(unseen, None | Some(Unseen::Lost(_)))
        });
        let reached = looking.await.watermark().cloned();
        let (informer, within) = (self.informer.shared.config.name.clone(), self.patience);
        Err(match unseen {
            None => return Ok(()),
            Some(Unseen::Lost(wanted)) => StaleRead::Restored { informer, wanted },
            Some(_) if store.is_closed() => StaleRead::Stopped { informer },
            Some(_) if Handle::try_current().is_err() => StaleRead::NoRuntime { informer },
            Some(Unseen::Change(wanted)) => StaleRead::Behind { informer, wanted, reached, within },
            Some(Unseen::Deletion(key)) => StaleRead::Undeleted { informer, key, reached, within },
        })
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
    T::Resource: Object + Clone + DeserializeOwned + Debug,
{
    /// [`Api::create`].
    ///
    /// # Errors
    /// As there.
    pub async fn create(&self, params: &PostParams, object: &T::Resource) -> kube_client::Result<T::Resource>
    where
        T::Resource: Serialize,
    {
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
    ) -> kube_client::Result<T::Resource>
    where
        T::Resource: Serialize,
    {
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
    ) -> kube_client::Result<T::Resource>
    where
        T::Resource: Serialize,
    {
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
