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
/// Most reconciles apply an object that is already up to date. [`Applier::apply`] sends no request
/// if both conditions hold:
/// - The last apply of the object by this `Applier` succeeded, and had the same fields and values.
/// - The cached object has not changed since then, or it still contains all applied fields. The
///   [`CachedApi`] ensures that the cached object contains the earlier writes of this process.
///
/// In all other cases, the apply is sent. Examples are the first apply after a start, changed
/// fields, and a deleted or recreated object. If another client changes an applied field, or if the
/// response to the last apply was lost, the apply is also sent.
///
/// A server may store a value in another form, for example `1` for the quantity `1000m`, or may add
/// elements to an applied list, for example `finalizers`. The cached object then does not contain
/// the applied value. In this case, the apply is sent after each change of the object, which is
/// harmless.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_informer::{ApiObject, CachedApi};
/// # use kube_operator::{Applier, WriteError};
/// # use serde_json::json;
/// # async fn example(maps: CachedApi<ConfigMap>) -> Result<(), WriteError> {
/// let applier = Applier::new("website-operator").force(); // one for all reconciles
/// let requested = json!({
///     "apiVersion": "v1", "kind": "ConfigMap",
///     "metadata": {"name": "settings"}, "data": {"colour": "blue"},
/// });
/// applier.apply(&maps, &requested).await?;
/// # Ok(()) }
/// ```
///
/// # Limits
/// An applied field can have the desired value, but belong to another field manager. An `Applier`
/// does not detect this case, because caches remove `managedFields`, and no other field contains
/// the owner. The next apply that is sent makes this field manager an owner of the field.
///
/// Another process can apply additional fields as the same field manager, for example another
/// version of the program. These fields remain until the next apply that is sent, which removes
/// them.
///
/// After etcd is restored from a backup, the server may use a resourceVersion again for another
/// state of an object. An `Applier` may then skip a necessary apply until the object changes.
///
/// Do not apply the same object concurrently. Otherwise an `Applier` may record the responses in
/// the wrong order, and skip a necessary apply. Reconciles of one key never overlap, so this can
/// only happen if several keys or controllers apply the same object.
///
/// Use an `Applier` only for objects of one cluster, because the recorded applies do not identify
/// the cluster.
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
    /// Creates an applier with this field manager. If another field manager has set a field to
    /// another value, an apply of the field fails with [`WriteError::Conflict`].
    pub fn new(manager: impl Into<String>) -> Self {
        Self { manager: manager.into(), force: false, hasher: RandomState::new(), applied: Mutex::default() }
    }

    /// Takes over fields of other field managers, instead of failing with a conflict. Controllers
    /// usually enable this option, because they own their objects.
    #[must_use]
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }

    /// Applies an object, or sends no request if the object is up to date.
    ///
    /// `object` must contain `apiVersion`, `kind`, `metadata.name` and the desired fields. If
    /// `object` no longer contains a field of an earlier apply, the server removes this field.
    ///
    /// The result is [`OperationResult::Created`] if the cache did not contain the object.
    ///
    /// # Errors
    /// Returns [`WriteError::Conflict`] if another field manager has set an applied field to
    /// another value. Other errors are also a [`WriteError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have applied the object. The next call for this
    /// object sends its request even if the object seems to be up to date, because the result of
    /// this call is unknown.
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

    /// Applies the status of an object, or sends no request if the status is up to date. See
    /// [`apply`](Self::apply).
    ///
    /// `object` must contain `apiVersion`, `kind`, `metadata.name` and `status`.
    ///
    /// # Errors
    /// Returns [`WriteError::Conflict`] if another field manager has set an applied field to
    /// another value. Other errors are also a [`WriteError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have applied the status. The next call for this
    /// object sends its request even if the status seems to be up to date, because the result of
    /// this call is unknown.
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

    /// Removes the recorded applies of an object and its status. The next apply of the object is
    /// always sent.
    ///
    /// Call this method for each deleted object. Otherwise the number of records grows with each
    /// new object.
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
