//! UPDATE and PATCH. An object is processed without the lock. The write is stored only if the original
//! object is unchanged; otherwise it is processed again.

use std::borrow::Cow;
use std::sync::Arc;

use kube_managed_fields::Managers;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::encoding::versions::from_store;
use crate::read::conversion;
use crate::schemas::kinds::events;
use crate::schemas::kinds::kind::{Generation, Kind};
use crate::state::Shared;
use crate::status::{Cause, Status};
use crate::storage::entry::{Change, Draft, Entry, Parsed, whole};
use crate::wire::object::{finalizers, meta, metadata_mut};
use crate::wire::query::parse_unsigned;
use crate::write::admission::{Admission, Operation};
use crate::write::apply::track;
use crate::write::create::{create, place};
use crate::write::custom::admit;
use crate::write::options::FieldValidation;
use crate::write::{Object, Target, WriteOptions, Written, type_meta};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    Put,
    Patch,
}

/// The part of an object that an update may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    /// The `spec.finalizers` of a namespace.
    Finalize,
    /// The node of a pod, which the server itself sets.
    Binding,
    /// The eviction of a pod. Updates do not use it.
    Eviction,
    /// The number of replicas, which the server itself sets.
    Scale,
}

#[derive(Clone, Debug)]
pub(crate) struct Mode {
    pub via: Via,
    pub part: Part,
    pub options: WriteOptions,
}

/// PUT: replaces an object, or creates it if the kind allows that.
pub(crate) async fn replace(
    shared: &Shared,
    target: &Target,
    object: &Object,
    mode: &Mode,
) -> Result<Written, Status> {
    replace_by(shared, target, mode, || Ok(object.clone())).await
}

/// Like `replace`. The result of `sent` is consumed; `sent` is called again only if another write was
/// stored in between.
pub(crate) async fn replace_by(
    shared: &Shared,
    target: &Target,
    mode: &Mode,
    sent: impl Fn() -> Result<Object, Status> + Sync,
) -> Result<Written, Status> {
    let mut object = sent()?;
    check_named(target, &object)?;
    place(target, &mut object)?;
    let creates = target.kind().rules.create_on_update
        && mode.part == Part::Main
        && meta(&object, "resourceVersion").is_empty();
    let first = Mutex::new(Some(object));
    let object = || match first.lock().take() {
        Some(object) => Ok(object),
        None => sent().and_then(|mut object| place(target, &mut object).map(|()| object)),
    };
    match update(shared, target, mode, |_, _| object()).await {
        Err(status) if status.code() == 404 && creates => {
            create(shared, target, object()?, &mode.options).await
        }
        done => done,
    }
}

/// Checks that the name in the object equals the name in the URL.
pub(crate) fn check_named(target: &Target, object: &Object) -> Result<(), Status> {
    let name = meta(object, "name");
    if name == target.name {
        return Ok(());
    }
    let url = &target.name;
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        )));
    }
    Err(Status::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({url})"
    )))
}

/// Changes an object with `edit`, which is called again if another write was stored in between. `edit`
/// receives the target with the current definition of its kind, which can change with the CRD.
pub(crate) async fn update(
    shared: &Shared,
    target: &Target,
    mode: &Mode,
    edit: impl Fn(&Target, &Object) -> Result<Object, Status> + Send,
) -> Result<Written, Status> {
    // A PUT does not depend on the managers of the stored object.
    update_by(shared, target, mode, mode.via == Via::Patch, edit).await
}

/// Like `update`. The object that `edit` receives contains `managedFields` only if `shows_managers` is set.
pub(crate) async fn update_by(
    shared: &Shared,
    target: &Target,
    mode: &Mode,
    shows_managers: bool,
    edit: impl Fn(&Target, &Object) -> Result<Object, Status> + Send,
) -> Result<Written, Status> {
    loop {
        let (target, old) = &shared.read(|state| {
            let target = target.current(state)?;
            let old = state.store.table(target.served.table).get(&target.key()).cloned();
            let old = old.ok_or_else(|| target.not_found())?;
            Ok::<_, Status>((target, old))
        })?;
        conversion::prepare(shared, target.kind(), [old]).await?;
        let mut live = old.take_object();
        live.object = from_store(target.kind(), old, live.object);
        // The result of a conversion webhook contains the managers.
        metadata_mut(&mut live.object).remove(track::KEY);
        let before = &live.object;
        let (mut after, owners) = match edited(target, mode, &live, shows_managers, &edit) {
            // The message can contain the patched object.
            Err(status) if status.code() == 422 && mode.via == Via::Patch && !shows_managers => {
                edited(target, mode, &live, true, &edit)?
            }
            done => done?,
        };
        place(target, &mut after)?;
        check_named(target, &after)?;
        mode.options.check(&after, Some(before))?;
        crate::write::unsupported::check(shared, target.kind(), &after)?;
        let mut after = events::inside(target.kind(), after);
        let admission = admission(shared, target, mode);
        let tracked = match admission.as_ref().filter(|admission| admission.mutates()) {
            Some(admission) => {
                Some(Box::pin(mutate(admission, mode, &live, &mut after, owners.clone())).await?)
            }
            None => None,
        };
        let mut after = settle(target, mode, before, after)?;
        crate::write::metadata::check(target.kind(), &after)?;
        let managers = match tracked {
            Some(managers) => managers,
            None => track::updated(shared, target.kind(), mode, &live, &mut after, owners),
        };
        if mode.part == Part::Main {
            crate::write::pod::complete(shared, target.kind(), &mut after, Some(before))?;
            if target.kind().is_service() {
                crate::schemas::kinds::services::assign(&shared.service_addresses, Some(before), &mut after);
            }
            crate::write::rules::check(shared, target.kind(), &after, Some(before))?;
        }
        admit::check_update(target.kind(), mode.part, before, &mut after, &mode.options)?;
        let is_unchanged = after == *before && managers.is_same_except_times(&live.managers);
        if let Some(admission) = &admission {
            let old = live.whole();
            let new = if is_unchanged { old.clone() } else { whole(&after, &managers) };
            Box::pin(admission.validate(Some(&new), Some(&old))).await?;
        }
        if is_unchanged {
            shared.recent.keep(target.kind(), old, live);
            return Ok(Written::Updated(old.clone()));
        }
        let stored = conversion::to_storage(shared, target.kind(), (&after, &managers)).await?;
        let draft = admit::draft(target.kind(), stored.as_ref().unwrap_or(&after), &managers);
        crate::write::metadata::check_size(&draft)?;
        if let Some(done) = commit(shared, target, mode, (old, before), (draft, &after)) {
            if let (Written::Updated(entry), false) = (&done, mode.options.dry_run) {
                shared.recent.keep(target.kind(), entry, Parsed { object: after, managers });
            }
            return Ok(done);
        }
    }
}

/// Returns the object after `edit`, as the server decodes it, and the owners that an apply has computed.
fn edited(
    target: &Target,
    mode: &Mode,
    live: &Parsed,
    shows_managers: bool,
    edit: impl Fn(&Target, &Object) -> Result<Object, Status>,
) -> Result<(Object, Option<Value>), Status> {
    let kind = target.kind();
    let shown = if shows_managers { Cow::Owned(live.whole()) } else { Cow::Borrowed(&live.object) };
    let mut after = edit(target, &events::outside(kind, &shown))?;
    crate::write::bounds::check_depth(&after)?;
    let owners = track::owners_of_apply(mode, &after);
    crate::write::custom::admit::read(kind, mode.via, &mut after, &mode.options)?;
    Ok((after, owners))
}

/// Returns the webhooks for an update. Bindings and evictions have their own reviews.
fn admission<'a>(shared: &'a Shared, target: &'a Target, mode: &'a Mode) -> Option<Admission<'a>> {
    let subresource = match mode.part {
        Part::Main => "",
        Part::Status => "status",
        Part::Finalize => "finalize",
        Part::Scale => "scale",
        Part::Binding | Part::Eviction => return None,
    };
    Admission::of(shared, target, Operation::Update, subresource, mode.options.caller.as_deref())
}

/// Calls the mutating webhooks, and reads their result. Returns the managers of the object before the
/// webhooks, because no manager owns the fields that webhooks set.
async fn mutate(
    admission: &Admission<'_>,
    mode: &Mode,
    live: &Parsed,
    after: &mut Object,
    owners: Option<Value>,
) -> Result<Managers, Status> {
    let Admission { shared, target, .. } = admission;
    let kind = target.kind();
    let mut tracked = settle(target, mode, &live.object, after.clone())?;
    let managers = track::updated(shared, kind, mode, live, &mut tracked, owners);
    metadata_mut(after).remove(track::KEY);
    let (new, old) = (whole(after, &managers), live.whole());
    *after = admission.mutate(Some(new), Some(&old)).await?.unwrap_or_default();
    let options = WriteOptions { validation: FieldValidation::Ignore, ..WriteOptions::default() };
    crate::write::custom::admit::read(kind, mode.via, after, &options)?;
    place(target, after)?;
    check_named(target, after)?;
    metadata_mut(after).remove(track::KEY);
    Ok(managers)
}

/// Stores `after` if the object is still `old`; otherwise returns `None` without a change.
fn commit(
    shared: &Shared,
    target: &Target,
    mode: &Mode,
    (old, before): (&Arc<Entry>, &Object),
    (draft, after): (Draft, &Object),
) -> Option<Written> {
    let removes = is_last_finalizer(target.kind(), before, after);
    shared.write(|state| {
        let table = target.served.table;
        let now = state.store.table(table).get(&target.key())?;
        if !Arc::ptr_eq(now, old) {
            return None;
        }
        if mode.options.dry_run || removes {
            if !mode.options.dry_run {
                state.store.remove(table, &target.key());
                crate::write::namespaces::removed(state, &target.served, old);
            }
            return Some(Written::Updated(Arc::new(draft.seal(Change::Modified, old.revision))));
        }
        let entry = state.store.put(table, draft);
        crate::write::custom::serve::stored(state, &target.served, Some(old), &entry, shared);
        crate::write::namespaces::stored(state, &target.served, &entry);
        Some(Written::Updated(entry))
    })
}

/// Returns whether this update removes the last finalizer of an object that is being deleted.
pub(crate) fn is_last_finalizer(kind: &Kind, before: &Object, after: &Object) -> bool {
    let deleted = !meta(before, "deletionTimestamp").is_empty();
    if kind.is_namespace() {
        let held = after.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
        return deleted && held.is_none_or(Vec::is_empty) && finalizers(after).is_empty();
    }
    let grace =
        before.get("metadata").and_then(|m| m.get("deletionGracePeriodSeconds")).and_then(Value::as_i64);
    deleted && grace.unwrap_or(0) == 0 && !finalizers(before).is_empty() && finalizers(after).is_empty()
}

/// Combines the part of `after` that this update may write with the rest of `before`.
fn settle(target: &Target, mode: &Mode, before: &Object, mut after: Object) -> Result<Object, Status> {
    check_version(target, mode, before, &after)?;
    check_uid(target, mode, before, &after)?;
    let kind = target.kind();
    match mode.part {
        Part::Main => {
            keep(&mut after, before, "status", kind.rules.status);
            keep(&mut after, before, "spec", kind.is_namespace());
            crate::schemas::kinds::defaults::spec(kind, &mut after);
        }
        Part::Status => only_status(kind, before, &mut after),
        Part::Binding | Part::Eviction | Part::Scale => {}
        Part::Finalize => {
            let spec = after.remove("spec");
            after = before.clone();
            after.insert("spec".into(), spec.unwrap_or_else(|| Value::Object(Map::new())));
        }
    }
    check_immutable(target, before, &after)?;
    type_meta::check_kept(&after, kind)?;
    after.insert("apiVersion".into(), kind.api_version().into());
    after.insert("kind".into(), kind.kind.as_str().into());
    inherit(kind, &mut after, before);
    if matches!(mode.part, Part::Main | Part::Scale) && content_changed(kind.rules.generation, before, &after)
    {
        let next = generation(before) + 1;
        metadata_mut(&mut after).insert("generation".into(), next.into());
    }
    Ok(after)
}

fn keep(after: &mut Object, before: &Object, key: &str, kept: bool) {
    if kept {
        after.remove(key);
        if let Some(value) = before.get(key) {
            after.insert(key.into(), value.clone());
        }
    }
}

/// Returns the old object with the new status, and with the metadata that a status write may change.
fn only_status(kind: &Kind, before: &Object, after: &mut Object) {
    after.retain(|key, _| key == "status" || before.contains_key(key));
    for (key, old) in before.iter().filter(|(key, _)| !matches!(key.as_str(), "status" | "metadata")) {
        // The values are usually equal, and comparing is cheaper than copying.
        if after.get(key) != Some(old) {
            after.insert(key.clone(), old.clone());
        }
    }
    let left_alone = crate::write::apply::reset::beside_status(kind);
    let old = before.get("metadata");
    if left_alone.contains(&["metadata"].as_slice()) {
        after.insert("metadata".into(), old.cloned().unwrap_or_default());
        return;
    }
    for path in left_alone {
        if let ["metadata", key] = path {
            let metadata = metadata_mut(after);
            metadata.remove(*key);
            if let Some(value) = old.and_then(|old| old.get(key)) {
                metadata.insert((*key).into(), value.clone());
            }
        }
    }
}

/// Restores metadata that updates cannot change. Built-in kinds omit empty values.
fn inherit(kind: &Kind, after: &mut Object, before: &Object) {
    let empty = Map::new();
    let old = before.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let metadata = metadata_mut(after);
    metadata.retain(|_, value| !value.is_null() && value != "");
    for key in ["labels", "annotations"] {
        let kept = kind.rules.custom && old.contains_key(key);
        if !kept && metadata.get(key).and_then(Value::as_object).is_some_and(Map::is_empty) {
            metadata.remove(key);
        }
    }
    crate::write::metadata::unique_owners(metadata);
    let fixed = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    ];
    for key in fixed {
        match old.get(key) {
            Some(value) => metadata.insert(key.into(), value.clone()),
            None => metadata.remove(key),
        };
    }
}

pub(crate) fn generation(object: &Object) -> i64 {
    object.get("metadata").and_then(|m| m.get("generation")).and_then(Value::as_i64).unwrap_or(0)
}

fn content_changed(rule: Generation, before: &Object, after: &Object) -> bool {
    let differs = |ignored: &[&str]| {
        let mut keys = before.keys().chain(after.keys()).filter(|key| !ignored.contains(&key.as_str()));
        keys.any(|key| before.get(key) != after.get(key))
    };
    match rule {
        Generation::None => false,
        Generation::Spec => before.get("spec") != after.get("spec"),
        Generation::Content => differs(&["metadata", "status", "kind", "apiVersion"]),
        Generation::Everything => differs(&["metadata", "kind", "apiVersion"]),
    }
}

fn check_version(target: &Target, mode: &Mode, before: &Object, after: &Object) -> Result<(), Status> {
    let (stored, sent) = (version(before)?, version(after)?);
    let kind = target.kind();
    let unset = sent == 0;
    if unset && mode.via == Via::Put && mode.part != Part::Scale && !kind.rules.unconditional_update {
        let cause = Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update");
        return Err(Status::invalid(kind.named(), &target.name, vec![cause]));
    }
    if unset || sent == stored { Ok(()) } else { Err(Status::modified(kind.named(), &target.name)) }
}

/// Returns the version of an object as a number; 0 if it is absent.
pub(crate) fn version(object: &Object) -> Result<u64, Status> {
    match meta(object, "resourceVersion") {
        "" => Ok(0),
        text => parse_unsigned(text).map_err(Status::internal),
    }
}

fn check_uid(target: &Target, mode: &Mode, before: &Object, after: &Object) -> Result<(), Status> {
    let (stored, sent) = (meta(before, "uid"), meta(after, "uid"));
    if mode.via == Via::Patch || sent.is_empty() || sent == stored {
        return Ok(());
    }
    let (kind, key) = (target.kind(), target.key());
    let group = if kind.rules.custom { format!("{}/", kind.group) } else { String::new() };
    let detail = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {sent}, UID in object meta: {stored}",
        kind.plural
    );
    Err(Status::conflict(target.kind().named(), &target.name, &detail))
}

/// Rejects changes of fields that only the server writes. Each cause is listed twice, because two
/// validators find it.
fn check_immutable(target: &Target, before: &Object, after: &Object) -> Result<(), Status> {
    let field = |object: &Object, key: &str| object.get("metadata").and_then(|m| m.get(key)).cloned();
    let mut causes: Vec<Cause> = added_finalizers(before, after).into_iter().collect();
    for key in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (old, new) = (field(before, key), field(after, key));
        // The deletion time of the body is ignored, so a different value is not an error.
        let ignored = key == "deletionTimestamp" && old.is_some();
        if let Some(new) = new.filter(|new| !ignored && new != "" && Some(new) != old.as_ref()) {
            causes.push(Cause::invalid(&format!("metadata.{key}"), &new.to_string(), "field is immutable"));
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    causes.extend(causes.clone());
    Err(Status::invalid(target.kind().named_kind(), &target.name, causes))
}

fn added_finalizers(before: &Object, after: &Object) -> Option<Cause> {
    if meta(before, "deletionTimestamp").is_empty() {
        return None;
    }
    let old = finalizers(before);
    let new: Vec<String> =
        finalizers(after).into_iter().filter(|f| !old.contains(f)).map(|f| format!("{f:?}")).collect();
    if new.is_empty() {
        return None;
    }
    let text = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        new.join(", ")
    );
    Some(Cause::forbidden("metadata.finalizers", &text))
}
