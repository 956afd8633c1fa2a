//! `Finalizer`: cleans up before an object is deleted.

mod patches;

use std::{sync::Arc, time::Duration};

use kube_client::{Error, Resource, core::ObjectMeta};
use kube_informer::{ApiObject, CachedApi, Object, ObjectId, ObjectKey, Uid};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use self::patches::{PatchError, addition, is_gone, patch, removal};
use super::{records::ObjectRecords, requests};
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
/// the server before each cleanup. If a cached object already has the finalizer, the `Finalizer`
/// also reads the object once before the first `apply`. After that, only this process can remove
/// the finalizer, so the cached object is sufficient. After a start, this requires one read per
/// object.
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
    /// Objects whose finalizer the server has confirmed, and that have not been cleaned up since.
    confirmed: Mutex<ObjectRecords<ObjectKey, Uid>>,
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

/// Describes the reason why a finalizer was not added or removed.
///
/// The source of the error may contain parts of the object. Convert the error to a [`Failure`]
/// before you log it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// The object has no name or no uid, because it was not read from the server.
    #[error("{0} has no name or no uid; use an object that was read from the server")]
    MissingIdentity(ObjectKey),
    /// The object and the [`CachedApi`] have different namespaces.
    #[error(
        "failed to reconcile {key}: the namespace of its CachedApi is {}; select the namespace with `CachedApi::namespace` or `CachedApi::with_api`",
        .namespace.as_deref().unwrap_or("not set")
    )]
    NamespaceMismatch {
        /// The key of the object.
        key: ObjectKey,
        /// The namespace of the [`CachedApi`].
        namespace: Option<String>,
    },
    /// The object could not be read from the server, before the user function ran or after a complete
    /// cleanup. The next reconcile tries again.
    #[error("failed to read {key} from the server to check the finalizer {finalizer}")]
    Read {
        /// The key of the object.
        key: ObjectKey,
        /// The name of the finalizer.
        finalizer: String,
        /// The error of the request.
        source: Error,
    },
    /// The patch that adds the finalizer failed. The user function did not run.
    #[error("failed to add the finalizer {finalizer} to {key}")]
    Add {
        /// The key of the object.
        key: ObjectKey,
        /// The name of the finalizer.
        finalizer: String,
        /// The error of the request.
        source: Error,
    },
    /// The server accepted the patch, but its response does not contain the finalizer. A webhook may
    /// have removed the finalizer. The user function did not run.
    #[error(
        "failed to add the finalizer {finalizer} to {key}: the server accepted the patch but did not store the finalizer; check whether a webhook removes it"
    )]
    NotPersisted {
        /// The key of the object.
        key: ObjectKey,
        /// The name of the finalizer.
        finalizer: String,
    },
    /// The patch that removes the finalizer failed. If a cleanup was complete, the next reconcile runs
    /// the cleanup again.
    #[error("failed to remove the finalizer {finalizer} from {key}")]
    Remove {
        /// The key of the object.
        key: ObjectKey,
        /// The name of the finalizer.
        finalizer: String,
        /// The error of the request.
        source: Error,
    },
}

impl Finalizer {
    /// Creates a finalizer with this name, for example `shop.example.com/buckets`. The name
    /// consists of a domain and a name. No other program may use the same name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), confirmed: Mutex::default() }
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
                self.forget(&id.key);
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
        self.forget(&id.key);
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
        mut object: Arc<K>,
    ) -> Result<Option<Work<K>>, FinalizerError>
    where
        K: ApiObject,
    {
        let mut read_from = if self.is_confirmed(id) { ReadFrom::ConfirmedCache } else { ReadFrom::Cache };
        let mut retries = 0;
        loop {
            let newer = match step(object.meta(), &self.name, read_from) {
                Step::Skip => None,
                Step::Apply => {
                    self.confirm(api, id);
                    return Ok(Some(Work::Apply(object)));
                }
                Step::Cleanup => {
                    self.forget(&id.key);
                    return Ok(Some(Work::Cleanup(object)));
                }
                Step::Read => self.read(api, id).await?,
                Step::Add => match patch(api, &id.key, addition(object.meta(), &self.name)).await {
                    Ok(added) if is_persisted(added.meta(), id, &self.name) => Some(added),
                    Ok(_) => {
                        let (key, finalizer) = (id.key.clone(), self.name.clone());
                        return Err(FinalizerError::NotPersisted { key, finalizer });
                    }
                    Err(PatchError::Gone) => None,
                    Err(PatchError::Changed(_)) if retries < MAX_PATCH_RETRIES => {
                        retries += 1;
                        self.read(api, id).await?
                    }
                    Err(PatchError::Changed(source) | PatchError::Failed(source)) => {
                        let (key, finalizer) = (id.key.clone(), self.name.clone());
                        return Err(FinalizerError::Add { key, finalizer, source });
                    }
                },
            };
            let Some(newer) = newer else {
                self.forget(&id.key);
                return Ok(None);
            };
            (object, read_from) = (newer, ReadFrom::Server);
        }
    }

    fn confirm<K: ApiObject>(&self, api: &CachedApi<K>, id: &ObjectId) {
        if api.is_dry_run() {
            return; // the server stores no finalizer
        }
        let lister = api.informer().lister();
        let exists = |key: &ObjectKey| lister.get_by_key(key).is_some();
        self.confirmed.lock().insert(id.key.clone(), id.uid.clone(), exists);
    }

    fn forget(&self, key: &ObjectKey) {
        self.confirmed.lock().remove(key);
    }

    fn is_confirmed(&self, id: &ObjectId) -> bool {
        self.confirmed.lock().get(&id.key) == Some(&id.uid)
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
            let (key, finalizer) = (id.key.clone(), self.name.clone());
            return Err(FinalizerError::Remove { key, finalizer, source });
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
                let (key, finalizer) = (id.key.clone(), self.name.clone());
                Err(FinalizerError::Read { key, finalizer, source })
            }
        }
    }
}

/// The origin of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadFrom {
    /// A cache, which may be stale.
    Cache,
    /// A cache, after the server confirmed that the object has the finalizer.
    ConfirmedCache,
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
        (true, _, ReadFrom::Cache) | (true, true, ReadFrom::ConfirmedCache) => Step::Read,
        (true, false, ReadFrom::ConfirmedCache | ReadFrom::Server) => Step::Apply,
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
