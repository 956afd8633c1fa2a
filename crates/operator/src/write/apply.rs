//! `Applier`: server-side apply that sends no request if the object is up to date.

use std::{
    fmt::Debug,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use kube_client::{
    Resource,
    api::{Patch, PatchParams},
};
use kube_informer::{ApiObject, Cached, CachedApi, ObjectKey, ToResource};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    applied::{self, Applied, AppliedObjects, ApplyTarget, LastApply},
    compare::{contains_all, first_requested_difference, result_of_dry_run},
    owner::{check_controller, set_controller_reference},
    repairs::{Repairs, UnusualRepairs},
    requests::{self, ObjectPart, plural},
    slot_label::{self, SlotLabel},
    written::{OperationResult, WriteError, Written},
};
use crate::{Failure, ShardOptions};

/// Applies objects as one field manager, and skips applies that would not change the object.
///
/// Most reconciles apply an object that is already up to date. [`Applier::apply`] sends no request
/// if both conditions hold:
/// - The last apply of this `Applier` had the same fields and values. If this `Applier` has not applied the
///   object yet, the last apply of an earlier process had the same field names. Each apply adds the
///   annotation `kube-operator/applied-fields.MANAGER` with a digest of the names. If the name of the manager
///   is not valid in an annotation, a hash replaces it.
/// - The cached object contains all applied fields with their values. The [`CachedApi`] ensures that
///   the cached object contains the earlier writes of this process.
///
/// A restart of the program therefore sends no apply for objects that are up to date. In all other
/// cases, the apply is sent. Examples are changed fields, and a deleted or recreated object. If
/// another client changes an applied field, or if the response to the last apply was lost, the apply
/// is also sent.
///
/// A server may store a value in another form, for example `1` for the quantity `1000m`, or may add
/// elements to an applied list, for example `finalizers`. The cached object then does not contain
/// the applied value. In this case, the apply is sent after a restart and after each change of the
/// object. Such an apply changes nothing and causes no event, so it does not repeat.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use kube_informer::{ApiObject, CachedApi};
/// # use kube_operator::{Applier, Failure};
/// # use serde_json::json;
/// # async fn example(maps: CachedApi<ConfigMap>) -> Result<(), Failure> {
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
/// Another program can apply additional fields as the same field manager without the annotation.
/// These fields remain until the next apply that is sent, which removes them.
///
/// A status has no annotation, so the first apply of each status after a restart is sent. To avoid these
/// requests, use [`patch_status`](crate::patch_status).
///
/// After etcd is restored from a backup, the server may use a resourceVersion again for another
/// state of an object. An `Applier` may then skip a necessary apply until the object changes. For a
/// status, or without the annotation, it may skip the apply until the program applies other fields.
///
/// Do not apply the same object concurrently. Otherwise an `Applier` may record the responses in
/// the wrong order, and skip a necessary apply. Reconciles of one key never overlap, so this can
/// only happen if several keys or controllers apply the same object.
///
/// An `Applier` does not remember the applies of a [`CachedApi::dry_run`].
///
/// Use an `Applier` only for objects of one cluster, because the recorded applies do not identify
/// the cluster.
#[derive(Debug)]
pub struct Applier {
    manager: String,
    force: bool,
    adds_annotation: bool,
    slot_label: Option<SlotLabel>,
    hasher: RandomState,
    applied: Mutex<AppliedObjects>,
    repairs: Mutex<Repairs>,
}

/// The message about an object that this program and another client change in turn.
const FIGHT: &str = "another client changes a field again and again, and this program applies it again; find the other \
                     field manager with `kubectl get --show-managed-fields`";

/// A cached object, compared with the requested fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppliedState {
    /// The same fields were applied before, and the object contains them.
    UpToDate,
    /// This process applied the same fields before, and another client changed them.
    Reverted,
    /// These fields were not applied before, or the result of the last apply is unknown.
    Unknown,
}

/// Returns an error if an existing object must not be changed.
pub(crate) type CheckExisting<'a, K> = dyn Fn(&K) -> Result<(), Failure> + Send + Sync + 'a;

impl Applier {
    /// Creates an applier with this field manager. If another field manager has set a field to
    /// another value, an apply of the field fails with [`WriteError::FieldManagerConflict`].
    pub fn new(manager: impl Into<String>) -> Self {
        Self {
            manager: manager.into(),
            force: false,
            adds_annotation: true,
            slot_label: None,
            hasher: RandomState::new(),
            applied: Mutex::default(),
            repairs: Mutex::default(),
        }
    }

    /// Takes over fields of other field managers, instead of failing with a conflict. Controllers
    /// usually enable this option, because they own their objects.
    #[must_use]
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }

    /// Adds no annotation to the applied objects. After a restart, the first apply of each object is
    /// then sent.
    ///
    /// If another field manager applies a copy of an object with its annotation, it becomes an owner of
    /// the annotation. An apply without [`force`](Self::force) then fails with a conflict when the fields
    /// change. In this case, use this method or `force`.
    #[must_use]
    pub fn without_annotation(self) -> Self {
        Self { adds_annotation: false, ..self }
    }

    /// Adds a label to each applied object. The label has the key `label` and contains the number of the slot
    /// of the object. An informer with [`Selection::slot_label`](kube_informer::Selection::slot_label) then
    /// receives only the objects of the slots of its process.
    ///
    /// If another client changes the label, the object leaves the cache. Therefore
    /// [`apply_owned`](Self::apply_owned) and [`apply_checked`](Self::apply_checked) read an object that is
    /// not cached from the server.
    ///
    /// If you change [`ShardOptions::key`](field@ShardOptions::key) or [`ShardOptions::count`], use another
    /// label. With [`ShardKey::Uid`](kube_informer::ShardKey::Uid), no label is added, because the uid of a
    /// new object is not known.
    #[must_use]
    pub fn slot_label(self, label: impl Into<String>, shards: &ShardOptions) -> Self {
        let slot_label = SlotLabel { label: label.into(), key: shards.key, count: shards.count };
        Self { slot_label: Some(slot_label), ..self }
    }

    /// Applies an object, or sends no request if the object is up to date.
    ///
    /// `object` must contain `apiVersion`, `kind`, `metadata.name` and the desired fields. If
    /// `object` no longer contains a field of an earlier apply, the server removes this field.
    ///
    /// The result is [`OperationResult::Created`] if the cache did not contain the object. An object that
    /// the informer does not select may have existed before. The result is
    /// [`OperationResult::Unchanged`] if no request was necessary, or if the apply changed nothing.
    ///
    /// # Errors
    /// Returns a failure with a [`WriteError`]. It is [`WriteError::FieldManagerConflict`] if another
    /// field manager has set an applied field to another value.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have applied the object. The next call for this
    /// object sends its request even if the object seems to be up to date, because the result of
    /// this call is unknown.
    pub async fn apply<T>(
        &self,
        api: &CachedApi<T>,
        object: &impl Serialize,
    ) -> Result<Written<T::Resource>, Failure>
    where
        T: ToResource<Resource: ApiObject>,
    {
        self.send(api, object, ObjectPart::Main, None).await
    }

    /// Applies an object like [`apply`](Self::apply), but only if `check` accepts the existing object, for
    /// example because it has a label of this program. The method never changes an object that `check` does
    /// not accept, even with [`force`](Self::force):
    /// - If the cache contains the object, the method calls `check` with the cached object.
    /// - If the cache does not contain the object, the method only creates it. If the object exists on the
    ///   server, the apply fails with [`WriteError::Conflict`].
    ///
    /// The server rejects the apply if the object has changed since it was cached, so the method is correct
    /// with a stale cache. The next reconcile then tries again.
    ///
    /// # Errors
    /// Returns the failure of `check` unchanged, and the failures of [`apply`](Self::apply). A
    /// [`WriteError::Conflict`] reports that the object exists and is not in the cache, or that the cache is
    /// stale.
    ///
    /// # Cancel safety
    /// See [`apply`](Self::apply).
    pub async fn apply_checked<T>(
        &self,
        api: &CachedApi<T>,
        object: &impl Serialize,
        check: impl Fn(&T::Resource) -> Result<(), Failure> + Send + Sync,
    ) -> Result<Written<T::Resource>, Failure>
    where
        T: ToResource<Resource: ApiObject>,
    {
        self.send(api, object, ObjectPart::Main, Some(&check)).await
    }

    /// Makes `owner` the controller of an object, and applies it like [`apply`](Self::apply). The
    /// method changes an existing object only if `owner` is already its controller, even with
    /// [`force`](Self::force):
    /// - If the cache contains the object, the method checks the controller of the cached object.
    /// - If the cache does not contain the object, the method only creates it. If the object exists on the
    ///   server, the apply fails with [`WriteError::Conflict`]. The informer must therefore select all
    ///   objects that the program applies.
    ///
    /// The server rejects the apply if the object has changed since it was cached, so the method is correct
    /// with a stale cache. The next reconcile then tries again.
    ///
    /// # Errors
    /// Returns a failure with an [`OwnerError`](crate::OwnerError) if `owner` is not the controller of
    /// the existing object, or cannot be its owner. Returns the failures of [`apply`](Self::apply). A
    /// [`WriteError::Conflict`] reports that the object exists and is not in the cache, or that the cache is
    /// stale.
    ///
    /// # Cancel safety
    /// See [`apply`](Self::apply).
    pub async fn apply_owned<O, T>(
        &self,
        api: &CachedApi<T>,
        owner: &O,
        mut object: T::Resource,
    ) -> Result<Written<T::Resource>, Failure>
    where
        O: Resource + Sync,
        O::DynamicType: Default,
        T: ToResource<Resource: ApiObject>,
    {
        set_controller_reference(owner, &Default::default(), &mut object)?;
        let check = |existing: &T::Resource| Ok(check_controller(existing, owner)?);
        self.send(api, &object, ObjectPart::Main, Some(&check)).await
    }

    /// Applies the status of an object, or sends no request if the status is up to date. See
    /// [`apply`](Self::apply).
    ///
    /// `object` must contain `apiVersion`, `kind`, `metadata.name` and `status`.
    ///
    /// # Errors
    /// Returns a failure with a [`WriteError`]. It is [`WriteError::FieldManagerConflict`] if another
    /// field manager has set an applied field to another value.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may have applied the status. The next call for this
    /// object sends its request even if the status seems to be up to date, because the result of
    /// this call is unknown.
    pub async fn apply_status<T>(
        &self,
        api: &CachedApi<T>,
        object: &impl Serialize,
    ) -> Result<Written<T::Resource>, Failure>
    where
        T: ToResource<Resource: ApiObject>,
    {
        self.send(api, object, ObjectPart::Status, None).await
    }

    pub(crate) async fn send<T>(
        &self,
        api: &CachedApi<T>,
        object: &impl Serialize,
        part: ObjectPart,
        check_existing: Option<&CheckExisting<'_, T::Resource>>,
    ) -> Result<Written<T::Resource>, Failure>
    where
        T: ToResource<Resource: ApiObject>,
    {
        let serialize_error = |key: &ObjectKey, source| WriteError::Serialize { key: key.clone(), source };
        let unnamed = ObjectKey::new(api.api().namespace(), "");
        let mut requested =
            serde_json::to_value(object).map_err(|source| serialize_error(&unnamed, source))?;
        // With the `preserve_order` feature of serde_json, the order of a `HashMap` would change the digest.
        requested.sort_all_objects();
        let key = key(api, &requested)?;
        if let (ObjectPart::Main, Some(slot_label)) = (part, &self.slot_label) {
            slot_label.add(&mut requested, &key);
        }
        if part == ObjectPart::Main && self.adds_annotation {
            applied::annotate(&mut requested, &self.manager);
        }
        let digest = self.hasher.hash_one(requested.to_string());
        let mut cached = api.get_decoded(key.name()).await.map_err(WriteError::from)?;
        if cached.is_none() && check_existing.is_some() && self.slot_label.is_some() {
            cached = slot_label::read_hidden(api, &key).await?;
        }
        if let (Some(cached), Some(check)) = (&cached, check_existing) {
            check(cached)?;
        }
        // The fields that another client changed, without the precondition that is added below.
        let mut reverted = None;
        if let Some(cached) = &cached {
            let state = self.applied_state(api, part, digest, cached, &requested);
            match state.map_err(|source| serialize_error(&key, source))? {
                AppliedState::UpToDate => return Ok(Written::unchanged(Arc::clone(cached))),
                AppliedState::Reverted => reverted = Some(requested.clone()),
                AppliedState::Unknown => {}
            }
        }
        if check_existing.is_some() {
            require_state(&mut requested, cached.as_deref());
        }
        if !api.is_dry_run() {
            // From here until the response, the last applied fields are unknown.
            self.record(api, part, key.name(), LastApply::Unknown);
        }
        let response = self.request(api, part, &key, &requested).await?;
        if api.is_dry_run() {
            let result = result_of_dry_run(cached.as_deref(), &response);
            let result = result.map_err(|source| serialize_error(&key, source))?;
            return Ok(Written { result, object: Arc::new(response) });
        }
        let applied = LastApply::Succeeded(Applied::new(digest, response.meta()));
        self.record(api, part, key.name(), applied);
        let result = match cached {
            None => OperationResult::Created,
            Some(cached) if cached.meta().resource_version == response.meta().resource_version => {
                OperationResult::Unchanged
            }
            Some(cached) => {
                // A server may store another form of a value. This is not a change by another client.
                if let Some(fields) = reverted
                    && contains_all(&response, &fields).is_ok_and(|contains| contains)
                {
                    self.log_repair(api, part, &key, &*cached, &fields);
                }
                OperationResult::Updated
            }
        };
        Ok(Written { result, object: Arc::new(response) })
    }

    /// Logs that another client changes the fields of this applier, if this happens often.
    fn log_repair<T: ToResource<Resource: ApiObject>>(
        &self,
        api: &CachedApi<T>,
        part: ObjectPart,
        key: &ObjectKey,
        cached: &T::Resource,
        requested: &Value,
    ) {
        let (url, now) = (api.api().resource_url(), Instant::now());
        let repaired = self.repairs.lock().record(ApplyTarget::new(url, part, key), now);
        let Some(UnusualRepairs { repairs, suppressed }) = repaired else { return };
        let resource = plural(url);
        let field = first_requested_difference(cached, requested).unwrap_or_default();
        let field_manager = &self.manager;
        tracing::warn!(%resource, object = %key, field, field_manager, repairs, suppressed, "{FIGHT}");
    }

    async fn request<T: ToResource<Resource: ApiObject>>(
        &self,
        api: &CachedApi<T>,
        part: ObjectPart,
        key: &ObjectKey,
        requested: &Value,
    ) -> Result<T::Resource, WriteError> {
        let field_manager = Some(self.manager.clone());
        let params = PatchParams { force: self.force, field_manager, ..api.patch_params() };
        let patch = Patch::Apply(requested);
        let (verb, response) = match part {
            ObjectPart::Main => ("apply", requests::patch(api, key.name(), &params, &patch).await),
            ObjectPart::Status => {
                ("apply the status of", requests::patch_status(api, key.name(), &params, &patch).await)
            }
        };
        response.map_err(|error| WriteError::request(api, verb, key, error))
    }

    /// Returns whether the same fields were applied before, and whether the object still contains them.
    fn applied_state<T: ToResource<Resource: ApiObject>>(
        &self,
        api: &CachedApi<T>,
        part: ObjectPart,
        digest: u64,
        cached: &T::Resource,
        requested: &Value,
    ) -> Result<AppliedState, serde_json::Error> {
        let name = cached.meta().name.as_deref().unwrap_or_default();
        let now = Applied::new(digest, cached.meta());
        let key = ObjectKey::new(api.api().namespace(), name);
        let before = self.applied.lock().get(ApplyTarget::new(api.api().resource_url(), part, &key));
        let state = match before {
            Some(LastApply::Unknown) => AppliedState::Unknown,
            Some(LastApply::Succeeded(before)) if (before.digest, &before.uid) != (digest, &now.uid) => {
                AppliedState::Unknown
            }
            Some(LastApply::Succeeded(before))
                if before.resource_version.is_some() && before.resource_version == now.resource_version =>
            {
                return Ok(AppliedState::UpToDate);
            }
            Some(LastApply::Succeeded(_)) if contains_all(cached, requested)? => AppliedState::UpToDate,
            Some(LastApply::Succeeded(_)) => AppliedState::Reverted,
            // `requested` contains the annotation of an earlier process.
            None if part == ObjectPart::Main && self.adds_annotation && contains_all(cached, requested)? => {
                AppliedState::UpToDate
            }
            // A typed cache can lack fields of the status that an earlier version applied.
            None => AppliedState::Unknown,
        };
        if state == AppliedState::UpToDate {
            // The next comparison needs only the resourceVersion.
            self.record(api, part, name, LastApply::Succeeded(now));
        }
        Ok(state)
    }

    fn record<T: ToResource<Resource: ApiObject>>(
        &self,
        api: &CachedApi<T>,
        part: ObjectPart,
        name: &str,
        apply: LastApply,
    ) {
        let key = ObjectKey::new(api.api().namespace(), name);
        let target = ApplyTarget::new(api.api().resource_url(), part, &key);
        let lister = api.informer().lister();
        self.applied.lock().insert(target, apply, |key| lister.get_by_key(key).is_some());
    }
}

/// Lets the server reject the apply if the object differs from the cached object, or exists and is not
/// cached. For example, another client may have removed the owner.
fn require_state(requested: &mut Value, cached: Option<&impl Resource>) {
    let version = cached.and_then(|cached| cached.meta().resource_version.clone());
    // An apply that creates an object ignores the resourceVersion. An existing object has another
    // resourceVersion, because 1 is the first revision of an empty etcd.
    requested["metadata"]["resourceVersion"] = version.unwrap_or_else(|| "1".to_owned()).into();
}

/// Returns the key of the requested object, or an error if this `CachedApi` cannot write it.
fn key<T: Cached>(api: &CachedApi<T>, requested: &Value) -> Result<ObjectKey, WriteError> {
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
