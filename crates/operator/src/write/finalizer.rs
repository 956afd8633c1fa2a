//! `Finalizer`: what was made for an object is cleaned up before the object is gone.

use std::{
    collections::HashMap,
    fmt::{self, Debug},
    sync::Arc,
};

use json_patch_of_kube::{
    AddOperation, Patch as JsonPatch, PatchOperation, RemoveOperation, TestOperation, jsonptr::PointerBuf,
};
use kube_client::{
    Error, Resource,
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use kube_informer::{ApiObject, CachedApi, Object, ObjectId, ObjectKey, Uid};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::requests;
use crate::{Action, Failure};

/// So often a patch is made anew that was refused because somebody else has changed the object's finalizers meanwhile.
const TRIES: usize = 3;

/// Cleans up what was made for an object before the object is gone, by an entry in its `metadata.finalizers`: kube-runtime's
/// `finalizer()`.
///
/// A reconciler holds one, and does its whole work in the function that it hands to [`Finalizer::reconcile`].
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_informer::{ApiObject, CachedApi};
/// # use kube_operator::{Action, Failure, Finalizer, FinalizerEvent, Reconciler, Request};
/// struct Buckets { maps: CachedApi<ConfigMap>, finalizer: Finalizer }
///
/// impl Reconciler<ConfigMap> for Buckets {
///     async fn reconcile(&self, request: Request<ConfigMap>) -> Result<Action, Failure> {
///         let Some(map) = request.object else {
///             self.finalizer.forget(&request.key);
///             return Ok(Action::AwaitChange);
///         };
///         let maps = self.maps.namespace(request.key.namespace().unwrap_or_default());
///         let run = async |event| match event {
///             FinalizerEvent::Apply(map) => make_bucket(&map).await,
///             FinalizerEvent::Cleanup(map) => delete_bucket(&map).await,
///         };
///         self.finalizer.reconcile(&maps, map, run).await
///     }
/// }
/// # async fn make_bucket(_: &ConfigMap) -> Result<Action, Failure> { Ok(Action::Done) }
/// # async fn delete_bucket(_: &ConfigMap) -> Result<Action, Failure> { Ok(Action::Done) }
/// ```
///
/// # What is promised
/// Where only one process works on an object at a time, and only this takes its finalizer away:
///
/// - The finalizer is in the object, on the server, before anything of `Apply` runs, and for as long as it does.
/// - `Cleanup` runs until it ends in [`Action::Done`]; not before that the finalizer is taken away.
/// - `Cleanup` does not run any more once the server has taken the finalizer away, whatever the cache shows.
///
/// A cache may be behind, above all that of a process which was just started. So an object is asked for from the server
/// itself before each cleanup, and once in the life of a `Finalizer` where the cache shows the finalizer: that is one request
/// per object after a start. From then on nobody but this process can take it away, and the cache will do.
///
/// # What is not
/// Both have to be idempotent. A run is repeated at any time, a process may crash anywhere, and a crash after a cleanup and
/// before the server has taken the finalizer away cleans up again. `Cleanup` has to bear that `Apply` has never run, or was
/// dropped halfway. A request that a process has sent before its end may arrive after the next process has asked.
///
/// A process that has led, does not, and leads again takes a new `Finalizer`: another one may have cleaned up meanwhile.
/// Whoever takes the finalizer away by hand takes these promises with it.
#[derive(Debug)]
pub struct Finalizer {
    name: String,
    /// Objects of which the server has said that the finalizer is in them, and that have not been cleaned up since. As many as
    /// there are, unless [`Finalizer::forget`] is not told of those that vanish.
    held: Mutex<HashMap<ObjectKey, Uid>>,
}

/// What is to be done about an object. It may be newer than the one that the run was shown. Its `Debug` shows nothing of it.
pub enum FinalizerEvent<K> {
    /// It lives: bring the world closer to what it asks for.
    Apply(Arc<K>),
    /// It is being deleted: take away all that was made for it. [`Action::Done`] says that nothing is left; any other action
    /// that there is more to wait for, and leaves the finalizer where it is.
    Cleanup(Arc<K>),
}

impl<K> fmt::Debug for FinalizerEvent<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Apply(_) => "Apply(..)",
            Self::Cleanup(_) => "Cleanup(..)",
        })
    }
}

/// A finalizer can't be put into an object, or taken away. Its source may quote the object, as that of a `WriteError`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// The object was not read from a server.
    #[error("{0} has no name or no uid: take an object as the server has sent it")]
    MissingIdentity(ObjectKey),
    /// Requests for this object would go elsewhere.
    #[error(
        "{key} is not in the namespace of its CachedApi ({namespace:?}): take its `namespace` or `with_api`"
    )]
    NamespaceMismatch {
        /// The object.
        key: ObjectKey,
        /// That of the [`CachedApi`].
        namespace: Option<String>,
    },
    /// What the server has of the object is not known.
    #[error("can't ask whether {key} has the finalizer {finalizer}")]
    Read {
        /// The object.
        key: ObjectKey,
        /// The finalizer.
        finalizer: String,
        /// What the server says.
        source: Error,
    },
    /// Nothing was done for the object.
    #[error("can't add the finalizer {finalizer} to {key}")]
    Add {
        /// The object.
        key: ObjectKey,
        /// The finalizer.
        finalizer: String,
        /// What the server says.
        source: Error,
    },
    /// Nothing was done for the object.
    #[error(
        "the server took the finalizer {finalizer} for {key} and has not kept it: does a webhook take it away?"
    )]
    NotPersisted {
        /// The object.
        key: ObjectKey,
        /// The finalizer.
        finalizer: String,
    },
    /// It was cleaned up, and will be again.
    #[error("can't remove the finalizer {finalizer} of {key}, which is cleaned up")]
    Remove {
        /// The object.
        key: ObjectKey,
        /// The finalizer.
        finalizer: String,
        /// What the server says.
        source: Error,
    },
}

impl Finalizer {
    /// A finalizer of this name, which no other program uses: a domain and a name, as `shop.example.com/buckets`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), held: Mutex::default() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.held.lock().remove(key);
    }

    /// Adds the finalizer if need be and runs `Apply` for an object that lives; runs `Cleanup` for one that is being deleted
    /// and takes the finalizer away. Nothing is run for one that is gone, has been replaced under its name, or is being
    /// deleted without this finalizer.
    ///
    /// The [`CachedApi`] is of the object's namespace, and its client may write what it writes.
    ///
    /// # Errors
    /// What `run` fails with, as it is; otherwise a [`FinalizerError`].
    ///
    /// # Cancel safety
    /// Dropped, it leaves what a crash at that moment leaves: the next run goes on from there.
    pub async fn reconcile<K, F>(
        &self,
        api: &CachedApi<K>,
        object: Arc<K>,
        run: impl FnOnce(FinalizerEvent<K>) -> F,
    ) -> Result<Action, Failure>
    where
        K: ApiObject,
        F: Future<Output = Result<Action, Failure>>,
    {
        let id = identity(api, &*object)?;
        let Some(event) = self.prepare(api, &id, object).await? else {
            return Ok(Action::AwaitChange);
        };
        let leaving = match &event {
            FinalizerEvent::Apply(_) => return run(event).await,
            FinalizerEvent::Cleanup(object) => Arc::clone(object),
        };
        match run(event).await? {
            Action::Done => self.remove(api, &id, leaving).await?,
            more => {
                let (key, finalizer) = (&id.key, &self.name);
                tracing::info!(%key, %finalizer, ?more, "the cleanup is not done: the finalizer stays");
                return Ok(more);
            }
        }
        Ok(Action::AwaitChange)
    }

    /// Asks and writes until it is known what to run, if anything.
    async fn prepare<K>(
        &self,
        api: &CachedApi<K>,
        id: &ObjectId,
        mut object: Arc<K>,
    ) -> Result<Option<FinalizerEvent<K>>, FinalizerError>
    where
        K: ApiObject,
    {
        let mut known = match self.holds(id) {
            true => Known::Held,
            false => Known::Cached,
        };
        let mut tries = 0;
        loop {
            let newer = match step(object.meta(), &self.name, known) {
                Step::Leave => None,
                Step::Apply => {
                    self.held.lock().insert(id.key.clone(), id.uid.clone());
                    return Ok(Some(FinalizerEvent::Apply(object)));
                }
                Step::Cleanup => {
                    self.forget(&id.key);
                    return Ok(Some(FinalizerEvent::Cleanup(object)));
                }
                Step::Ask => self.read(api, id).await?,
                Step::Add => match patch(api, &id.key, addition(object.meta(), &self.name)).await {
                    Ok(added) if is_kept(added.meta(), id, &self.name) => Some(added),
                    Ok(_) => {
                        let (key, finalizer) = (id.key.clone(), self.name.clone());
                        return Err(FinalizerError::NotPersisted { key, finalizer });
                    }
                    Err(Refused::Gone) => None,
                    Err(Refused::Changed(_)) if tries < TRIES => {
                        tries += 1;
                        self.read(api, id).await?
                    }
                    Err(Refused::Changed(source) | Refused::Failed(source)) => {
                        let (key, finalizer) = (id.key.clone(), self.name.clone());
                        return Err(FinalizerError::Add { key, finalizer, source });
                    }
                },
            };
            let Some(newer) = newer else {
                self.forget(&id.key);
                return Ok(None);
            };
            (object, known) = (newer, Known::Asked);
        }
    }

    fn holds(&self, id: &ObjectId) -> bool {
        self.held.lock().get(&id.key) == Some(&id.uid)
    }

    /// Takes the finalizer away, wherever it stands by now.
    async fn remove<K>(
        &self,
        api: &CachedApi<K>,
        id: &ObjectId,
        mut object: Arc<K>,
    ) -> Result<(), FinalizerError>
    where
        K: ApiObject,
    {
        let mut tries = 0;
        loop {
            let source = match patch(api, &id.key, removal(object.meta(), &self.name)).await {
                Ok(_) | Err(Refused::Gone) => return Ok(()),
                Err(Refused::Changed(_)) if tries < TRIES => {
                    tries += 1;
                    match self.read(api, id).await? {
                        Some(now) if has(now.meta(), &self.name) => object = now,
                        _ => return Ok(()),
                    }
                    continue;
                }
                Err(Refused::Changed(source) | Refused::Failed(source)) => source,
            };
            let (key, finalizer) = (id.key.clone(), self.name.clone());
            return Err(FinalizerError::Remove { key, finalizer, source });
        }
    }

    /// The object as the server itself has it, from no cache; `None` where it is gone or another one has its name.
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

/// Where what is known of an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// From a cache, which may be behind.
    Cached,
    /// From a cache; and the server has said before that the finalizer is in the object.
    Held,
    /// From the server, in this run.
    Asked,
}

/// What to do next about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ask,
    Add,
    Apply,
    Cleanup,
    /// It is being deleted, and not held by this finalizer.
    Leave,
}

fn step(object: &ObjectMeta, finalizer: &str, known: Known) -> Step {
    match (has(object, finalizer), object.deletion_timestamp.is_some(), known) {
        // Neither can come back: nobody adds a finalizer to what is being deleted.
        (false, true, _) => Step::Leave,
        // The patch itself finds out whether the cache is behind.
        (false, false, _) => Step::Add,
        (true, _, Known::Cached) | (true, true, Known::Held) => Step::Ask,
        (true, false, Known::Held | Known::Asked) => Step::Apply,
        (true, true, Known::Asked) => Step::Cleanup,
    }
}

/// Whether a patch that was accepted has done what it says; in what is being deleted by now it need not.
fn is_kept(object: &ObjectMeta, id: &ObjectId, finalizer: &str) -> bool {
    let is_same = object.uid.as_deref().is_some_and(|uid| uid == id.uid.to_string());
    is_same && (has(object, finalizer) || object.deletion_timestamp.is_some())
}

fn has(object: &ObjectMeta, finalizer: &str) -> bool {
    finalizers(object).iter().any(|name| name == finalizer)
}

fn finalizers(object: &ObjectMeta) -> &[String] {
    object.finalizers.as_deref().unwrap_or_default()
}

/// Appends the finalizer, if nobody has changed the finalizers of this very object meanwhile.
fn addition(object: &ObjectMeta, finalizer: &str) -> Vec<PatchOperation> {
    let list = path(&["finalizers"]);
    let (unchanged, added) = match &object.finalizers {
        // The server takes a list that is not there for null.
        None => (Value::Null, add(list.clone(), vec![finalizer].into())),
        Some(before) => (before.as_slice().into(), add(path(&["finalizers", "-"]), finalizer.into())),
    };
    vec![is_same(object), test(list, unchanged), added]
}

/// Removes the finalizer, wherever this object shows it, if it still stands there; the last one first, so that the places of
/// the others stay.
fn removal(object: &ObjectMeta, finalizer: &str) -> Vec<PatchOperation> {
    let mut patch = vec![is_same(object)];
    let places = finalizers(object).iter().enumerate().filter(|(_, name)| *name == finalizer);
    for (place, _) in places.rev() {
        let place = path(&["finalizers", &place.to_string()]);
        patch.push(test(place.clone(), finalizer.into()));
        patch.push(PatchOperation::Remove(RemoveOperation { path: place }));
    }
    patch
}

fn is_same(object: &ObjectMeta) -> PatchOperation {
    test(path(&["uid"]), object.uid.as_deref().into())
}

fn test(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation { path, value })
}

fn add(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}

/// A place in the metadata.
fn path(steps: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(["metadata"].iter().chain(steps).copied())
}

/// Why a patch was not made.
enum Refused {
    Gone,
    /// A test has failed; or the object is refused as it would be, which the server says in the same words.
    Changed(Error),
    Failed(Error),
}

async fn patch<K>(
    api: &CachedApi<K>,
    key: &ObjectKey,
    operations: Vec<PatchOperation>,
) -> Result<Arc<K>, Refused>
where
    K: ApiObject,
{
    let patch = Patch::<()>::Json(JsonPatch(operations));
    match requests::patch(api, key.name(), &PatchParams::default(), &patch).await {
        Ok(object) => Ok(Arc::new(object)),
        Err(error) if is_gone(&error) => Err(Refused::Gone),
        Err(Error::Api(status)) if status.is_invalid() || status.is_conflict() => {
            Err(Refused::Changed(Error::Api(status)))
        }
        Err(error) => Err(Refused::Failed(error)),
    }
}

/// The object is gone, as opposed to its type: then a server has no `Status` to say, and it may come back with its objects.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.reason == "NotFound")
}

/// Who the object is, if requests through this API are about it.
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
