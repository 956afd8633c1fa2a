//! `Applier`: server-side apply that asks nothing of the server where nothing is to be done.

use std::{
    collections::HashMap,
    fmt::Debug,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use kube_client::{
    Resource,
    api::{Patch, PatchParams},
    core::ObjectMeta,
};
use kube_informer::{ApiObject, CachedApi, ObjectKey};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    json::holds,
    requests,
    written::{OperationResult, WriteError, Written},
};

/// Applies objects in the name of one field manager, and remembers what it has applied.
///
/// A reconciler asks for the same again in each run, mostly of objects that are as they should be. An apply is not sent where
/// this has asked for the same of the same object before, and either nobody has written it since, or all that is asked for is
/// in it as it is: in the cache, which shows at least what this has written. Everything else is sent: the first apply of
/// an object after a start, another wish, one for an object that is gone or was created anew, one that somebody has
/// interfered with, one whose answer was lost.
///
/// What the server keeps in another form than it was asked for (`1000m` of a quantity) or puts more elements into (a list of
/// finalizers) is sent again after each change of the object, which does no harm.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_informer::{ApiObject, CachedApi};
/// # use kube_operator::{Applier, WriteError};
/// # use serde_json::json;
/// # async fn example(maps: CachedApi<ConfigMap>) -> Result<(), WriteError> {
/// let applier = Applier::new("website-operator").force(); // one for all runs
/// let asked = json!({
///     "apiVersion": "v1", "kind": "ConfigMap",
///     "metadata": {"name": "settings"}, "data": {"colour": "blue"},
/// });
/// applier.apply(&maps, &asked).await?;
/// # Ok(()) }
/// ```
///
/// # Limits
/// That a field is in the object does not say that it is this manager's: where another one has set a field to the same
/// value before this asked for it, or has taken it over, that shows only in `managedFields`, which caches leave out. It is
/// mended by the next apply that is sent. Fields that another process has applied in the name of this manager, such as another
/// version of the program, and that this does not ask for, stay until then. After a restore of the server's history a version may stand for another state, which
/// is mended when the object changes next.
///
/// Two applies of one object at a time would be remembered in any order: no two runs of one key overlap. An `Applier` is for
/// the objects of one cluster.
#[derive(Debug)]
pub struct Applier {
    manager: String,
    force: bool,
    hasher: RandomState,
    /// One for each object, or status of one, that was applied, unless [`Applier::forget`] was told.
    applied: Mutex<HashMap<Target, Applied>>,
}

/// What an apply is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    /// Of the collection, which tells type and namespace.
    url: String,
    name: String,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Main,
    Status,
}

/// What was asked for last, and which object has come of it.
#[derive(Clone, Debug)]
struct Applied {
    /// A digest of the JSON.
    asked: u64,
    uid: Option<String>,
    /// At this version the object holds what is asked for.
    version: Option<String>,
}

impl Applied {
    fn new(asked: u64, object: &ObjectMeta) -> Self {
        Self { asked, uid: object.uid.clone(), version: object.resource_version.clone() }
    }
}

impl Applier {
    /// Applies as this field manager. What another manager has set otherwise is a conflict.
    pub fn new(manager: impl Into<String>) -> Self {
        Self { manager: manager.into(), force: false, hasher: RandomState::new(), applied: Mutex::default() }
    }

    /// What another manager has set otherwise is taken from it: usual for controllers, whose objects these are.
    #[must_use]
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }

    /// Applies this object, if need be: with its `apiVersion`, `kind` and name, and the fields that it is to have. Fields that
    /// were asked for before and are no more go.
    ///
    /// The result is [`OperationResult::Created`] where the cache had no such object.
    ///
    /// # Errors
    /// [`WriteError`]; a conflict with another manager, too, is [`WriteError::Conflict`].
    ///
    /// # Cancel safety
    /// One that is cancelled may have been made; the next one is sent.
    pub async fn apply<K>(
        &self,
        api: &CachedApi<K>,
        object: &impl Serialize,
    ) -> Result<Written<K>, WriteError>
    where
        K: ApiObject,
    {
        self.send(api, object, Part::Main).await
    }

    /// The same for its status: `object` has its `apiVersion`, `kind` and name, and a `status`.
    ///
    /// # Errors
    /// [`WriteError`]; a conflict with another manager, too, is [`WriteError::Conflict`].
    ///
    /// # Cancel safety
    /// One that is cancelled may have been made; the next one is sent.
    pub async fn apply_status<K>(
        &self,
        api: &CachedApi<K>,
        object: &impl Serialize,
    ) -> Result<Written<K>, WriteError>
    where
        K: ApiObject,
    {
        self.send(api, object, Part::Status).await
    }

    /// Forgets what was asked for of an object: one that is gone, or whose next apply is to be sent in any case.
    pub fn forget<K>(&self, api: &CachedApi<K>, name: &str)
    where
        K: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        let mut applied = self.applied.lock();
        for part in [Part::Main, Part::Status] {
            applied.remove(&Target::new(api, name, part));
        }
    }

    async fn send<K>(
        &self,
        api: &CachedApi<K>,
        object: &impl Serialize,
        part: Part,
    ) -> Result<Written<K>, WriteError>
    where
        K: ApiObject,
    {
        let no_json = |key: &ObjectKey, source| WriteError::Serialize { key: key.clone(), source };
        let nameless = ObjectKey::new(api.api().namespace(), "");
        let mut asked = serde_json::to_value(object).map_err(|source| no_json(&nameless, source))?;
        // With serde_json's feature `preserve_order` a `HashMap` has another order, and so another digest, each time.
        asked.sort_all_objects();
        let key = key(api, &asked)?;
        let target = Target::new(api, key.name(), part);
        let digest = self.hasher.hash_one(asked.to_string());
        let cached = api.get(key.name()).await?;
        if let Some(cached) = &cached {
            let is_done = self.is_done(&target, digest, &**cached, &asked);
            if is_done.map_err(|source| no_json(&key, source))? {
                return Ok(Written::unchanged(Arc::clone(cached)));
            }
        }
        // From here on it is not known what the server has been asked for last.
        self.applied.lock().remove(&target);
        let params = PatchParams { force: self.force, ..PatchParams::apply(&self.manager) };
        let patch = Patch::Apply(&asked);
        let answer = match part {
            Part::Main => requests::patch(api, key.name(), &params, &patch).await,
            Part::Status => requests::patch_status(api, key.name(), &params, &patch).await,
        };
        let answer = answer.map_err(|error| WriteError::of(&key, error))?;
        self.applied.lock().insert(target, Applied::new(digest, answer.meta()));
        let result = match cached {
            None => OperationResult::Created,
            Some(cached) if cached.meta().resource_version == answer.meta().resource_version => {
                OperationResult::Unchanged
            }
            Some(_) => OperationResult::Updated,
        };
        Ok(Written { result, object: Arc::new(answer) })
    }

    /// Whether the same was asked for before, and is still so.
    fn is_done<K: Resource + Serialize>(
        &self,
        target: &Target,
        digest: u64,
        cached: &K,
        asked: &Value,
    ) -> Result<bool, serde_json::Error> {
        let now = Applied::new(digest, cached.meta());
        let Some(before) = self.applied.lock().get(target).cloned() else { return Ok(false) };
        if (before.asked, &before.uid) != (now.asked, &now.uid) {
            return Ok(false);
        }
        if before.version.is_some() && before.version == now.version {
            return Ok(true);
        }
        if !is_in(cached, asked)? {
            return Ok(false);
        }
        // The next look need not be as close.
        self.applied.lock().insert(target.clone(), now);
        Ok(true)
    }
}

impl Target {
    fn new<K>(api: &CachedApi<K>, name: &str, part: Part) -> Self
    where
        K: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        Self { url: api.api().resource_url().to_owned(), name: name.to_owned(), part }
    }
}

/// Whether all that is asked for is in the object. Of which type it is was asked already, and not each cached object says it.
fn is_in(cached: &impl Serialize, asked: &Value) -> Result<bool, serde_json::Error> {
    let cached = serde_json::to_value(cached)?;
    let is_type = |field: &String| matches!(field.as_str(), "apiVersion" | "kind");
    let mut fields = asked.as_object().into_iter().flatten().filter(|(field, _)| !is_type(field));
    Ok(fields.all(|(field, asked)| holds(&cached[field.as_str()], asked)))
}

/// The key of what is asked for, which goes to the namespace of the API.
fn key<K>(api: &CachedApi<K>, asked: &Value) -> Result<ObjectKey, WriteError>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    let text = |field: &str| asked["metadata"][field].as_str().filter(|text| !text.is_empty());
    let name = text("name").ok_or(WriteError::MissingName)?;
    let own = api.api().namespace();
    let namespace = text("namespace").or(own);
    let key = ObjectKey::new(namespace, name);
    match namespace == own {
        true => Ok(key),
        false => Err(WriteError::NamespaceMismatch { key, namespace: own.map(str::to_owned) }),
    }
}
