//! `Finalizer`: cleans up before an object is deleted.

mod barriers;
mod error;
mod patches;

use std::{sync::Arc, time::Duration};

use kube_client::{Resource, core::ObjectMeta};
use kube_informer::{ApiObject, CachedApi, Object, ObjectId, ObjectKey, Uid};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use self::barriers::Barriers;
pub use self::error::FinalizerError;
use self::patches::{PatchError, addition, is_gone, patch, removal};
use super::{
    records::ObjectRecords,
    requests::{self, plural},
};
use crate::{Action, Failure, Observed};

/// How often a patch is retried because another client changed the finalizers of the object.
const MAX_PATCH_RETRIES: usize = 3;

/// Cleans up before an object is deleted, as kube-runtime's `finalizer()` does. An entry in
/// `metadata.finalizers` blocks the deletion until the cleanup is complete.
///
/// A reconciler holds one `Finalizer`, and does all its work in the two functions that it passes to
/// [`Finalizer::reconcile`].
///
/// ```no_run
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_informer::CachedApi;
/// # use kube_operator::{Action, Cleanup, Failure, Finalizer, Reconciler, Request};
/// struct Buckets { maps: CachedApi<ConfigMap>, finalizer: Finalizer }
///
/// impl Reconciler<ConfigMap> for Buckets {
///     async fn reconcile(&self, request: Request<ConfigMap>) -> Result<Action, Failure> {
///         let maps = self.maps.namespace(request.key.namespace().unwrap_or_default());
///         self.finalizer.reconcile(&maps, request.object, make_bucket, delete_bucket).await
///     }
/// }
///
/// async fn make_bucket(map: Arc<ConfigMap>) -> Result<Action, Failure> {
///     // ...
/// #   drop(map);
///     Ok(Action::Done)
/// }
///
/// async fn delete_bucket(map: Arc<ConfigMap>) -> Result<Cleanup, Failure> {
///     // ...
/// #   drop(map);
///     Ok(Cleanup::Done)
/// }
/// ```
///
/// # Guarantees
/// The guarantees hold if only one process reconciles an object at a time, and if no user or other
/// program removes the finalizer:
///
/// - Before and while `apply` runs, the object on the server has the finalizer.
/// - The finalizer is removed only after `cleanup` has returned [`Cleanup::Done`].
/// - After the server has removed the finalizer, `cleanup` does not run again, even if the cache is
///   stale.
///
/// A cache may be stale, especially after a start. A `Finalizer` therefore reads the object from
/// the server before each cleanup.
///
/// Before the first `apply` of an object that already has the finalizer, the `Finalizer` calls
/// [`Informer::wait_for_latest`](kube_informer::Informer::wait_for_latest), once for each informer. The
/// cache then contains the changes of all earlier processes, so a cached finalizer also exists on the
/// server. After that, only this process can remove the finalizer, so the cached objects are sufficient.
/// After a start, this requires one LIST with `limit=1` and one short watch, instead of one read per
/// object. All reconciles that need the result wait for it, in most cases about three seconds, and at most
/// 10 seconds.
///
/// If the wait fails, for example because the server sends no bookmarks, the `Finalizer` reads each such
/// object once from the server. After a minute, it calls `wait_for_latest` again. It also reads an object
/// from the server if this process has cleaned up or released the object before, or if the newest state of
/// the object could not be decoded.
///
/// # Limits
/// `apply` and `cleanup` must be idempotent, because reconciles are repeated, and a process may
/// crash at any point. After a crash between the cleanup and the removal of the finalizer,
/// `cleanup` runs again. `cleanup` must also work if `apply` never ran, or was dropped before it
/// completed.
///
/// A request that a process sends before it exits may reach the server late, even after the next
/// process has read the object. The guarantees do not cover such a request.
///
/// Create a new `Finalizer` for each term of leadership, because another leader may have removed
/// the finalizer in between. A program with a [`Manager`](crate::Manager) has only one term,
/// because the manager stops when the lease is lost.
#[derive(Debug)]
pub struct Finalizer {
    name: String,
    barriers: Barriers,
    /// A record is dropped only if the cache no longer contains the object, and therefore is newer than the
    /// removal of the finalizer.
    records: Mutex<ObjectRecords<ObjectKey, (Uid, CacheTrust)>>,
}

/// Describes whether a cached finalizer proves that the server has the finalizer. Without a record, it
/// proves this if the informer has passed its barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheTrust {
    /// The server has confirmed the finalizer, and this process has not removed it since.
    Trusted,
    /// This process may have removed the finalizer after the cached state.
    Doubted,
}

/// Describes the result of a cleanup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// The cleanup is complete. The finalizer is removed. The server deletes the object if no other
    /// finalizer remains.
    Done,
    /// The cleanup is not complete. The finalizer remains, and the cleanup runs again after this time,
    /// or earlier if the object or a related object changes.
    RetryAfter(Duration),
}

/// The work to do for an object. The contained object may be newer than the object that was passed to
/// [`Finalizer::reconcile`].
enum Work<K> {
    Apply(Arc<K>),
    Cleanup(Arc<K>),
}

impl Finalizer {
    /// Creates a finalizer with this name, for example `shop.example.com/buckets`. The name
    /// consists of a domain and a name. No other program may use the same name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), barriers: Barriers::default(), records: Mutex::default() }
    }

    /// Returns the name of the finalizer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls the function for the work to do, with the object. `object` is an `Arc<K>`, or the
    /// [`object`](crate::Request::object) of a request.
    ///
    /// - If the object is not being deleted, the method adds the finalizer if necessary, and calls
    ///   `apply`. It returns the action of `apply`.
    /// - If the object is being deleted, the method calls `cleanup`. After [`Cleanup::Done`], it removes
    ///   the finalizer and returns [`Action::AwaitChange`]. After [`Cleanup::RetryAfter`], it returns
    ///   [`Action::RequeueAfter`]. If `cleanup` fails, the finalizer remains.
    /// - If the informer does not [select](Observed::Unselected) the object, and the object has the
    ///   finalizer, the method also calls `cleanup`, and then removes the finalizer.
    /// - The method calls no function if the object no longer exists, or if another object has its
    ///   name. It also calls no function if the object is being deleted without this finalizer. In
    ///   these cases, it returns [`Action::AwaitChange`].
    ///
    /// The first calls after a start can wait some seconds, until the cache is known to be recent enough.
    ///
    /// The object that the functions receive can be newer than `object`.
    ///
    /// The [`CachedApi`] must be for the namespace of the object. Its client must have permission
    /// to get and patch the object.
    ///
    /// # Errors
    /// Returns the failure of `apply` or `cleanup` unchanged. Other failures contain a
    /// [`FinalizerError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the functions may be incomplete, and the server may have added or
    /// removed the finalizer. The next call checks the finalizer, and continues with `apply` or
    /// `cleanup`.
    pub async fn reconcile<K, A, C>(
        &self,
        api: &CachedApi<K>,
        object: impl Into<Observed<K>>,
        apply: impl FnOnce(Arc<K>) -> A,
        cleanup: impl FnOnce(Arc<K>) -> C,
    ) -> Result<Action, Failure>
    where
        K: ApiObject,
        A: Future<Output = Result<Action, Failure>>,
        C: Future<Output = Result<Cleanup, Failure>>,
    {
        let (id, work) = match object.into() {
            Observed::Absent => return Ok(Action::AwaitChange),
            Observed::Present(object) => {
                let id = identity(api, &*object)?;
                let work = self.prepare(api, &id, object).await?;
                (id, work)
            }
            Observed::Unselected(object) => {
                let id = identity(api, &*object)?;
                self.set_trust(api, &id, CacheTrust::Doubted);
                let work = has_finalizer(object.meta(), &self.name).then_some(Work::Cleanup(object));
                (id, work)
            }
        };
        let obsolete = match work {
            None => return Ok(Action::AwaitChange),
            Some(Work::Apply(object)) => return apply(object).await,
            Some(Work::Cleanup(object)) => object,
        };
        match cleanup(Arc::clone(&obsolete)).await? {
            Cleanup::Done => {
                self.remove(api, &id, obsolete).await?;
                Ok(Action::AwaitChange)
            }
            Cleanup::RetryAfter(after) => {
                let (key, finalizer) = (&id.key, &self.name);
                tracing::info!(%key, %finalizer, ?after, "cleanup is not complete; keeping the finalizer");
                Ok(Action::RequeueAfter(after))
            }
        }
    }

    /// Removes the finalizer from an object that is not being deleted, because the operator no longer
    /// manages the object. Clean up first: after this call, a deletion does not wait for a cleanup. A
    /// later call of [`reconcile`](Self::reconcile) adds the finalizer again.
    ///
    /// The method sends no request if `object` does not have the finalizer.
    ///
    /// # Errors
    /// Returns a failure with a [`FinalizerError`] if the server rejects the patch or does not respond.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have removed the finalizer.
    pub async fn release<K>(&self, api: &CachedApi<K>, object: Arc<K>) -> Result<(), Failure>
    where
        K: ApiObject,
    {
        let id = identity(api, &*object)?;
        self.set_trust(api, &id, CacheTrust::Doubted);
        if has_finalizer(object.meta(), &self.name) {
            self.remove(api, &id, object).await?;
        }
        Ok(())
    }

    /// Sends requests until the work to do is clear, if any.
    async fn prepare<K>(
        &self,
        api: &CachedApi<K>,
        id: &ObjectId,
        object: Arc<K>,
    ) -> Result<Option<Work<K>>, FinalizerError>
    where
        K: ApiObject,
    {
        let Some((mut object, mut read_from)) = self.recent_state(api, id, object).await else {
            return Ok(None);
        };
        let mut retries = 0;
        loop {
            let newer = match step(object.meta(), &self.name, read_from) {
                Step::Skip => return Ok(None),
                Step::Apply => {
                    if read_from == ReadFrom::Server {
                        self.set_trust(api, id, CacheTrust::Trusted);
                    }
                    return Ok(Some(Work::Apply(object)));
                }
                Step::Cleanup => {
                    self.set_trust(api, id, CacheTrust::Doubted);
                    return Ok(Some(Work::Cleanup(object)));
                }
                Step::Read => self.read(api, id).await?,
                Step::Add => match patch(api, &id.key, addition(object.meta(), &self.name)).await {
                    Ok(added) if is_persisted(added.meta(), id, &self.name) => Some(added),
                    Ok(_) => {
                        let (resource, key, finalizer) = self.target(api, id);
                        return Err(FinalizerError::NotPersisted { resource, key, finalizer });
                    }
                    Err(PatchError::Gone) => None,
                    Err(PatchError::Changed(_)) if retries < MAX_PATCH_RETRIES => {
                        retries += 1;
                        self.read(api, id).await?
                    }
                    Err(PatchError::Changed(source) | PatchError::Failed(source)) => {
                        let (resource, key, finalizer) = self.target(api, id);
                        return Err(FinalizerError::Add { resource, key, finalizer, source });
                    }
                },
            };
            let Some(newer) = newer else {
                self.set_trust(api, id, CacheTrust::Doubted);
                return Ok(None);
            };
            (object, read_from) = (newer, ReadFrom::Server);
        }
    }

    /// Returns the state from which the first step is decided. Returns `None` if the object does not exist.
    async fn recent_state<K>(
        &self,
        api: &CachedApi<K>,
        id: &ObjectId,
        object: Arc<K>,
    ) -> Option<(Arc<K>, ReadFrom)>
    where
        K: ApiObject,
    {
        let needs_barrier = has_finalizer(object.meta(), &self.name)
            && object.meta().deletion_timestamp.is_none()
            && self.trust(id).is_none();
        let has_passed = needs_barrier && self.barriers.pass(api.informer()).await;
        match self.trust(id) {
            Some(CacheTrust::Trusted) => Some((object, ReadFrom::TrustedCache)),
            None if has_passed => match cached(api, id, &*object) {
                Cached::Recent(object) => Some((object, ReadFrom::TrustedCache)),
                Cached::Unknown => Some((object, ReadFrom::Cache)),
                Cached::Gone => None,
            },
            Some(CacheTrust::Doubted) | None => Some((object, ReadFrom::Cache)),
        }
    }

    /// Returns the resource, the key and the finalizer for an error.
    fn target<K: ApiObject>(&self, api: &CachedApi<K>, id: &ObjectId) -> (Box<str>, ObjectKey, Box<str>) {
        (plural(api.api().resource_url()).into(), id.key.clone(), self.name.as_str().into())
    }

    fn trust(&self, id: &ObjectId) -> Option<CacheTrust> {
        let records = self.records.lock();
        records.get(&id.key).filter(|(uid, _)| *uid == id.uid).map(|(_, trust)| *trust)
    }

    fn set_trust<K: ApiObject>(&self, api: &CachedApi<K>, id: &ObjectId, trust: CacheTrust) {
        if trust == CacheTrust::Trusted && api.is_dry_run() {
            return; // the server stores no finalizer
        }
        let lister = api.informer().lister();
        let exists = |key: &ObjectKey| lister.get_by_key(key).is_some();
        self.records.lock().insert(id.key.clone(), (id.uid.clone(), trust), exists);
    }

    /// Removes the finalizer, at its current position in the list.
    async fn remove<K>(
        &self,
        api: &CachedApi<K>,
        id: &ObjectId,
        mut object: Arc<K>,
    ) -> Result<(), FinalizerError>
    where
        K: ApiObject,
    {
        let mut retries = 0;
        loop {
            let source = match patch(api, &id.key, removal(object.meta(), &self.name)).await {
                Ok(_) | Err(PatchError::Gone) => return Ok(()),
                Err(PatchError::Changed(_)) if retries < MAX_PATCH_RETRIES => {
                    retries += 1;
                    match self.read(api, id).await? {
                        Some(current) if has_finalizer(current.meta(), &self.name) => object = current,
                        _ => return Ok(()),
                    }
                    continue;
                }
                Err(PatchError::Changed(source) | PatchError::Failed(source)) => source,
            };
            let (resource, key, finalizer) = self.target(api, id);
            return Err(FinalizerError::Remove { resource, key, finalizer, source });
        }
    }

    /// Reads the object from the server. Returns `None` if it does not exist, or if another object
    /// has its name.
    async fn read<K>(&self, api: &CachedApi<K>, id: &ObjectId) -> Result<Option<Arc<K>>, FinalizerError>
    where
        K: ApiObject,
    {
        match requests::get(api, id.key.name()).await {
            Ok(object) if object.id().uid == id.uid => Ok(Some(Arc::new(object))),
            Ok(_) => Ok(None),
            Err(error) if is_gone(&error) => Ok(None),
            Err(source) => {
                let (resource, key, finalizer) = self.target(api, id);
                Err(FinalizerError::Read { resource, key, finalizer, source })
            }
        }
    }
}

/// An object in the cache, after the informer has passed its barrier.
enum Cached<K> {
    Recent(Arc<K>),
    Gone,
    /// The cache contains an older state than the server had at the barrier, or than the known object.
    Unknown,
}

/// Returns the cached state of an object. `known` is the object that the caller passed.
fn cached<K: ApiObject>(api: &CachedApi<K>, id: &ObjectId, known: &K) -> Cached<K> {
    let cache = api.informer().lister().snapshot();
    if cache.is_stale(&id.key) || !cache.has_applied(&ObjectId::from(known.id()).version) {
        return Cached::Unknown;
    }
    match cache.get(&id.key) {
        Some(entry) if entry.id.uid == id.uid => Cached::Recent(Arc::clone(&entry.object)),
        _ => Cached::Gone,
    }
}

/// The origin of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadFrom {
    /// A cache, which may be stale.
    Cache,
    /// A cache whose state of the finalizer is recent enough.
    TrustedCache,
    /// The server, in this reconcile.
    Server,
}

/// The next step for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Read,
    Add,
    Apply,
    Cleanup,
    /// The object is being deleted, and does not have this finalizer.
    Skip,
}

fn step(object: &ObjectMeta, finalizer: &str, read_from: ReadFrom) -> Step {
    match (has_finalizer(object, finalizer), object.deletion_timestamp.is_some(), read_from) {
        // Final: the server accepts no new finalizers during a deletion.
        (false, true, _) => Step::Skip,
        // The patch has a precondition, so it fails if the cache is stale.
        (false, false, _) => Step::Add,
        (true, _, ReadFrom::Cache) | (true, true, ReadFrom::TrustedCache) => Step::Read,
        (true, false, ReadFrom::TrustedCache | ReadFrom::Server) => Step::Apply,
        (true, true, ReadFrom::Server) => Step::Cleanup,
    }
}

/// Returns whether the response contains the added finalizer. It need not if the object is now
/// being deleted.
fn is_persisted(object: &ObjectMeta, id: &ObjectId, finalizer: &str) -> bool {
    let is_same = object.uid.as_deref().is_some_and(|uid| uid == id.uid.as_str());
    is_same && (has_finalizer(object, finalizer) || object.deletion_timestamp.is_some())
}

fn has_finalizer(object: &ObjectMeta, finalizer: &str) -> bool {
    finalizers(object).iter().any(|name| name == finalizer)
}

fn finalizers(object: &ObjectMeta) -> &[String] {
    object.finalizers.as_deref().unwrap_or_default()
}

/// Returns the identity of the object, or an error if this `CachedApi` cannot write it.
fn identity<K>(api: &CachedApi<K>, object: &K) -> Result<ObjectId, FinalizerError>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    let id = ObjectId::from(object.id());
    if id.key.name().is_empty() || id.uid.is_empty() {
        return Err(FinalizerError::MissingIdentity(id.key));
    }
    if id.key.namespace() != api.api().namespace() {
        let namespace = api.api().namespace().map(str::to_owned);
        return Err(FinalizerError::NamespaceMismatch { key: id.key, namespace });
    }
    Ok(id)
}

#[cfg(test)]
mod tests;
