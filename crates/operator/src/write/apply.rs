//! `Applier`: server-side apply that sends no request if the object is up to date.

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
    json::json_contains,
    requests::{self, ObjectPart},
    written::{OperationResult, WriteError, Written},
};

/// Applies objects as one field manager, and skips applies that would not change the object.
///
/// Each reconcile usually applies the same objects again. [`Applier::apply`] sends nothing if both
/// hold:
/// - The same object was applied before with the same fields.
/// - The object is unchanged since then, or the cached object still contains all applied fields.
///   The cache contains at least the writes of this process.
///
/// Everything else is sent: the first apply after a start, changed fields, a deleted or recreated
/// object, an object whose applied fields another client changed, and an apply after a lost
/// response.
///
/// If the server stores a value differently (`1000m` for a quantity), or adds elements to a list
/// (`finalizers`), the apply is sent again after each change of the object. That is harmless.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_informer::{ApiObject, CachedApi};
/// # use kube_operator::{Applier, WriteError};
/// # use serde_json::json;
/// # async fn example(maps: CachedApi<ConfigMap>) -> Result<(), WriteError> {
/// let applier = Applier::new("website-operator").force(); // one for all runs
/// let requested = json!({
///     "apiVersion": "v1", "kind": "ConfigMap",
///     "metadata": {"name": "settings"}, "data": {"colour": "blue"},
/// });
/// applier.apply(&maps, &requested).await?;
/// # Ok(()) }
/// ```
///
/// # Limits
/// A field can have the right value and belong to another field manager. Only `managedFields`
/// contains the owner, and caches remove `managedFields`. The next apply that is sent takes the
/// field over.
///
/// Another process, such as another version of the program, may have applied further fields as the
/// same field manager. These fields remain until the next apply that is sent.
///
/// After a restore of the server's history, a resourceVersion may identify a different state. The
/// next change of the object corrects that.
///
/// Do not apply one object concurrently: the responses may be recorded in any order. Reconciles of
/// one key never overlap. Use an `Applier` for the objects of one cluster only.
#[derive(Debug)]
pub struct Applier {
    manager: String,
    force: bool,
    hasher: RandomState,
    /// The last apply of each object or status. [`Applier::forget`] removes entries.
    applied: Mutex<HashMap<ApplyTarget, LastApplied>>,
}

/// The object, or the status of an object, that an apply changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ApplyTarget {
    /// The URL of the collection, which contains type and namespace.
    url: String,
    name: String,
    part: ObjectPart,
}

/// The last apply of a target, and the resulting object.
#[derive(Clone, Debug)]
struct LastApplied {
    /// A hash of the applied JSON.
    digest: u64,
    uid: Option<String>,
    /// At this resourceVersion, the object contains the applied fields.
    resource_version: Option<String>,
}

impl LastApplied {
    fn new(digest: u64, object: &ObjectMeta) -> Self {
        Self { digest, uid: object.uid.clone(), resource_version: object.resource_version.clone() }
    }
}

impl Applier {
    /// Creates an applier with this field manager. A field that another manager has set to another
    /// value is a conflict.
    pub fn new(manager: impl Into<String>) -> Self {
        Self { manager: manager.into(), force: false, hasher: RandomState::new(), applied: Mutex::default() }
    }

    /// Takes over fields of other managers instead of failing with a conflict. Usual for
    /// controllers, which own their objects.
    #[must_use]
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }

    /// Applies an object if necessary. `object` contains `apiVersion`, `kind`, a name, and the
    /// desired fields. Fields of an earlier apply that are no longer contained are removed.
    ///
    /// The result is [`OperationResult::Created`] if the cache did not contain the object.
    ///
    /// # Errors
    /// Returns a [`WriteError`]. A conflict with another field manager is [`WriteError::Conflict`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the apply may have happened. The next apply is sent.
    pub async fn apply<K>(
        &self,
        api: &CachedApi<K>,
        object: &impl Serialize,
    ) -> Result<Written<K>, WriteError>
    where
        K: ApiObject,
    {
        self.send(api, object, ObjectPart::Main).await
    }

    /// Applies the status of an object, like [`apply`](Self::apply). `object` contains
    /// `apiVersion`, `kind`, a name, and `status`.
    ///
    /// # Errors
    /// Returns a [`WriteError`]. A conflict with another field manager is [`WriteError::Conflict`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the apply may have happened. The next apply is sent.
    pub async fn apply_status<K>(
        &self,
        api: &CachedApi<K>,
        object: &impl Serialize,
    ) -> Result<Written<K>, WriteError>
    where
        K: ApiObject,
    {
        self.send(api, object, ObjectPart::Status).await
    }

    /// Removes the recorded applies of an object. Call this method for deleted objects, or to make
    /// sure that the next apply is sent.
    pub fn forget<K>(&self, api: &CachedApi<K>, name: &str)
    where
        K: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        let mut applied = self.applied.lock();
        for part in [ObjectPart::Main, ObjectPart::Status] {
            applied.remove(&ApplyTarget::new(api, name, part));
        }
    }

    async fn send<K>(
        &self,
        api: &CachedApi<K>,
        object: &impl Serialize,
        part: ObjectPart,
    ) -> Result<Written<K>, WriteError>
    where
        K: ApiObject,
    {
        let serialize_error = |key: &ObjectKey, source| WriteError::Serialize { key: key.clone(), source };
        let unnamed = ObjectKey::new(api.api().namespace(), "");
        let mut requested =
            serde_json::to_value(object).map_err(|source| serialize_error(&unnamed, source))?;
        // With the `preserve_order` feature of serde_json, the order of a `HashMap` would change the digest.
        requested.sort_all_objects();
        let key = key(api, &requested)?;
        let target = ApplyTarget::new(api, key.name(), part);
        let digest = self.hasher.hash_one(requested.to_string());
        let cached = api.get(key.name()).await?;
        if let Some(cached) = &cached {
            let is_up_to_date = self.is_up_to_date(&target, digest, &**cached, &requested);
            if is_up_to_date.map_err(|source| serialize_error(&key, source))? {
                return Ok(Written::unchanged(Arc::clone(cached)));
            }
        }
        // From here until the response, the last applied fields are unknown.
        self.applied.lock().remove(&target);
        let params = PatchParams { force: self.force, ..PatchParams::apply(&self.manager) };
        let patch = Patch::Apply(&requested);
        let (verb, response) = match part {
            ObjectPart::Main => ("apply", requests::patch(api, key.name(), &params, &patch).await),
            ObjectPart::Status => {
                ("apply the status of", requests::patch_status(api, key.name(), &params, &patch).await)
            }
        };
        let response = response.map_err(|error| WriteError::request(api, verb, &key, error))?;
        self.applied.lock().insert(target, LastApplied::new(digest, response.meta()));
        let result = match cached {
            None => OperationResult::Created,
            Some(cached) if cached.meta().resource_version == response.meta().resource_version => {
                OperationResult::Unchanged
            }
            Some(_) => OperationResult::Updated,
        };
        Ok(Written { result, object: Arc::new(response) })
    }

    /// Returns whether the same fields were applied before, and the object still contains them.
    fn is_up_to_date<K: Resource + Serialize>(
        &self,
        target: &ApplyTarget,
        digest: u64,
        cached: &K,
        requested: &Value,
    ) -> Result<bool, serde_json::Error> {
        let now = LastApplied::new(digest, cached.meta());
        let Some(before) = self.applied.lock().get(target).cloned() else { return Ok(false) };
        if (before.digest, &before.uid) != (now.digest, &now.uid) {
            return Ok(false);
        }
        if before.resource_version.is_some() && before.resource_version == now.resource_version {
            return Ok(true);
        }
        if !contains_all(cached, requested)? {
            return Ok(false);
        }
        // The next comparison needs only the resourceVersion.
        self.applied.lock().insert(target.clone(), now);
        Ok(true)
    }
}

impl ApplyTarget {
    fn new<K>(api: &CachedApi<K>, name: &str, part: ObjectPart) -> Self
    where
        K: Resource + DeserializeOwned + Send + Sync + 'static,
    {
        Self { url: api.api().resource_url().to_owned(), name: name.to_owned(), part }
    }
}

/// Returns whether the object contains all requested fields. Cached objects may lack `apiVersion`
/// and `kind`, and the type is known already.
fn contains_all(cached: &impl Serialize, requested: &Value) -> Result<bool, serde_json::Error> {
    let cached = serde_json::to_value(cached)?;
    let is_type = |field: &String| matches!(field.as_str(), "apiVersion" | "kind");
    let mut fields = requested.as_object().into_iter().flatten().filter(|(field, _)| !is_type(field));
    Ok(fields.all(|(field, requested)| json_contains(&cached[field.as_str()], requested)))
}

/// Returns the key of the requested object, or an error if this `CachedApi` cannot write it.
fn key<K>(api: &CachedApi<K>, requested: &Value) -> Result<ObjectKey, WriteError>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
{
    let text = |field: &str| requested["metadata"][field].as_str().filter(|text| !text.is_empty());
    let name = text("name").ok_or(WriteError::MissingName)?;
    let own = api.api().namespace();
    let namespace = text("namespace").or(own);
    let key = ObjectKey::new(namespace, name);
    if namespace == own {
        Ok(key)
    } else {
        Err(WriteError::NamespaceMismatch { key, namespace: own.map(str::to_owned) })
    }
}
