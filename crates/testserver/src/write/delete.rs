//! DELETE: immediately, or in two steps if finalizers or the grace period of a pod delay it.

use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::clock::RunningClock;
use crate::encoding::object_encoder::ObjectEncoder;
use crate::encoding::versions::from_store;
use crate::read::conversion;
use crate::schemas::kinds::kind::Kind;
use crate::state::{Shared, State};
use crate::status::Status;
use crate::storage::entry::{Change, Draft, Entry};
use crate::wire::object::{FOREGROUND, ORPHAN, finalizers, meta, metadata_mut};
use crate::write::admission::{Admission, Caller, Operation};
use crate::write::delete_options::{DeleteOptions, Dependents, Propagation};
use crate::write::{Object, Target, generation};

#[derive(Clone, Debug)]
pub(crate) enum Deleted {
    /// The object still exists, with a `deletionTimestamp`.
    Kept(Arc<Entry>),
    /// The object was removed. The response contains its last state.
    Object(Arc<Entry>),
    /// The object was removed. The response does not contain the object.
    Gone { name: Box<str>, uid: Box<str> },
}

/// Deletes one object. `caller` is the request that webhooks review.
pub(crate) async fn delete(
    shared: &Shared,
    target: &Target,
    options: &DeleteOptions,
    caller: Option<&Caller>,
) -> Result<Deleted, Status> {
    let admission = Admission::of(shared, target, Operation::Delete, "", caller);
    loop {
        let mut reviewed = None;
        if let Some(admission) = &admission {
            let entry = shared.read(|state| find(state, target, options).map(|(_, entry)| entry))?;
            conversion::prepare(shared, target.kind(), [&entry]).await?;
            let object = from_store(target.kind(), &entry, entry.object());
            admission.mutate(None, Some(&object)).await?;
            admission.validate(None, Some(&object)).await?;
            reviewed = Some(entry);
        }
        let deleted = shared.write(|state| {
            let (target, entry) = find(state, target, options)?;
            // The webhooks must have seen the deleted state.
            let is_current = reviewed.is_none_or(|reviewed| Arc::ptr_eq(&reviewed, &entry));
            is_current.then(|| within(state, shared, &target, &entry, options)).transpose()
        })?;
        if let Some(deleted) = deleted {
            return Ok(deleted);
        }
    }
}

/// Returns an object to delete, if it satisfies the preconditions.
fn find(state: &State, target: &Target, options: &DeleteOptions) -> Result<(Target, Arc<Entry>), Status> {
    let target = target.current(state)?;
    let found = state.store.table(target.served.table).get(&target.key()).cloned();
    let entry = found.ok_or_else(|| target.not_found())?;
    check_preconditions(target.kind(), &entry, options)?;
    Ok((target, entry))
}

/// Deletes an object of any kind. The caller holds the lock.
pub(crate) fn within(
    state: &mut State,
    shared: &Shared,
    target: &Target,
    entry: &Arc<Entry>,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    if target.kind().is_namespace() {
        return crate::write::namespaces::terminate(state, entry, options, shared).map(Deleted::Kept);
    }
    if target.kind().is_crd() && !options.dry_run {
        let crd = crate::write::custom::removal::terminate(state, &target.served, entry, shared);
        return Ok(Deleted::Kept(crd));
    }
    Ok(one(state, shared, target, entry, options))
}

fn check_preconditions(kind: &Kind, entry: &Entry, options: &DeleteOptions) -> Result<(), Status> {
    let conflict = |detail: String| Status::conflict(kind.named_kind(), &entry.essentials.name, &detail);
    let uid = &*entry.essentials.uid;
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        return Err(conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might \
             have been deleted and then recreated"
        )));
    }
    let version = entry.revision.to_string();
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        return Err(conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        )));
    }
    Ok(())
}

/// Deletes an object that is neither a namespace nor a CRD. The caller holds the lock.
pub(crate) fn one(
    state: &mut State,
    shared: &Shared,
    target: &Target,
    entry: &Arc<Entry>,
    options: &DeleteOptions,
) -> Deleted {
    let kind = target.kind();
    let before = entry.object();
    let Some((after, stays)) = marked(&shared.config.clock, kind, &before, options) else {
        return Deleted::Kept(entry.clone());
    };
    let stays = stays || kind.is_crd();
    if options.dry_run {
        return dry_run_result(kind, entry, &before, &after, stays);
    }
    let entry = if after == before {
        entry.clone()
    } else {
        state.store.put(target.served.table, Draft::new(kind, &after))
    };
    if stays { Deleted::Kept(entry) } else { remove(state, target, &entry) }
}

fn dry_run_result(kind: &Kind, entry: &Arc<Entry>, before: &Object, after: &Object, stays: bool) -> Deleted {
    if after == before {
        return if stays { Deleted::Kept(entry.clone()) } else { deleted(kind, entry, entry.clone()) };
    }
    let would = Arc::new(Draft::new(kind, after).seal(Change::Modified, entry.revision));
    if stays { Deleted::Kept(would) } else { Deleted::Object(would) }
}

/// Returns the changed object, and whether it remains for now. Returns `None` if an earlier delete is
/// pending and this delete would not complete sooner.
fn marked(
    clock: &RunningClock,
    kind: &Kind,
    before: &Object,
    options: &DeleteOptions,
) -> Option<(Object, bool)> {
    let mut after = before.clone();
    let grace = match begin_grace(clock, kind, &mut after, options.grace) {
        Grace::Pending => return None,
        Grace::Given(seconds) => Some(seconds),
        Grace::Unknown => None,
    };
    settle_dependents(kind, &mut after, options.dependents);
    let held = !finalizers(&after).is_empty();
    if held && grace.is_none() {
        mark(clock, &mut after);
    }
    Some((after, held || grace.is_some_and(|seconds| seconds > 0)))
}

enum Grace {
    Unknown,
    Given(i64),
    /// The period of an earlier delete is not longer than the requested period.
    Pending,
}

/// Sets the grace period of a pod. A later delete can only shorten it.
fn begin_grace(clock: &RunningClock, kind: &Kind, object: &mut Object, requested: Option<i64>) -> Grace {
    if !kind.is_pod() {
        return Grace::Unknown;
    }
    let began = meta(object, "deletionTimestamp").to_owned();
    if began.is_empty() {
        let seconds = pod_grace(object, requested);
        bump_generation(object);
        set_deletion(object, clock.timestamp(seconds), seconds);
        return Grace::Given(seconds);
    }
    let left = object.get("metadata").and_then(|m| m.get("deletionGracePeriodSeconds"));
    let Some(left) = left.and_then(Value::as_i64) else { return Grace::Unknown };
    match requested {
        Some(requested) if requested < left => {
            let sooner = began.parse::<Timestamp>().ok();
            let sooner = sooner.and_then(|at| {
                at.checked_add(SignedDuration::from_secs(requested.saturating_sub(left))).ok()
            });
            let at = sooner.map_or(began, |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            set_deletion(object, at, requested);
            Grace::Given(requested)
        }
        _ => Grace::Pending,
    }
}

/// Returns the grace period in seconds: 0 unless the pod is on a node and still running.
fn pod_grace(pod: &Object, requested: Option<i64>) -> i64 {
    let part = |part: &str, key: &str| pod.get(part).and_then(|part| part.get(key));
    let ended = matches!(part("status", "phase").and_then(Value::as_str), Some("Succeeded" | "Failed"));
    let bound = part("spec", "nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty());
    if !bound || ended {
        return 0;
    }
    let own = part("spec", "terminationGracePeriodSeconds").and_then(Value::as_i64);
    match requested.or(own).unwrap_or(0) {
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

pub(crate) fn mark(clock: &RunningClock, object: &mut Object) {
    let began = meta(object, "deletionTimestamp").to_owned();
    if began.is_empty() {
        bump_generation(object);
    }
    let now = clock.timestamp(0);
    let at = if began.is_empty() || began > now { now } else { began };
    set_deletion(object, at, 0);
}

fn set_deletion(object: &mut Object, at: String, grace: i64) {
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".into(), at.into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
}

fn bump_generation(object: &mut Object) {
    let generation = generation(object);
    if generation > 0 {
        metadata_mut(object).insert("generation".into(), (generation + 1).into());
    }
}

/// Adds the garbage collector finalizer that this delete requests, and removes the other finalizer.
pub(crate) fn settle_dependents(kind: &Kind, object: &mut Object, requested: Dependents) {
    let old: Vec<String> = finalizers(object).into_iter().map(Into::into).collect();
    let mut new: Vec<&str> =
        old.iter().map(String::as_str).filter(|f| !matches!(*f, ORPHAN | FOREGROUND)).collect();
    match propagation(kind, &old, requested) {
        Propagation::Orphan => new.push(ORPHAN),
        Propagation::Foreground => new.push(FOREGROUND),
        Propagation::Background => {}
    }
    let same = old.len() == new.len() && old.iter().all(|finalizer| new.contains(&finalizer.as_str()));
    if !same {
        let new = json!(new);
        let metadata = metadata_mut(object);
        if new == json!([]) {
            metadata.remove("finalizers")
        } else {
            metadata.insert("finalizers".into(), new)
        };
    }
}

/// Returns the propagation policy of a delete. The request has precedence, then the finalizers of the
/// object, then the default of the kind.
fn propagation(kind: &Kind, finalizers: &[String], requested: Dependents) -> Propagation {
    if kind.is_event() {
        return Propagation::Background;
    }
    match requested {
        Dependents::Policy(policy) => return policy,
        Dependents::Orphaned(true) => return Propagation::Orphan,
        Dependents::Orphaned(false) => return Propagation::Background,
        Dependents::Unspecified => {}
    }
    let said = finalizers.iter().find_map(|finalizer| match finalizer.as_str() {
        ORPHAN => Some(Propagation::Orphan),
        FOREGROUND => Some(Propagation::Foreground),
        _ => None,
    });
    said.unwrap_or(match (kind.group.as_str(), kind.plural.as_str()) {
        // The default of the first versions of Kubernetes.
        ("", "replicationcontrollers") | ("batch", "jobs") => Propagation::Orphan,
        _ => Propagation::Background,
    })
}

fn remove(state: &mut State, target: &Target, entry: &Arc<Entry>) -> Deleted {
    let last = state.store.remove(target.served.table, entry.key());
    crate::write::namespaces::removed(state, &target.served, entry);
    deleted(target.kind(), entry, last.unwrap_or_else(|| entry.clone()))
}

fn deleted(kind: &Kind, entry: &Entry, last: Arc<Entry>) -> Deleted {
    if kind.rules.returns_deleted {
        return Deleted::Object(last);
    }
    Deleted::Gone { name: entry.essentials.name.clone(), uid: entry.essentials.uid.clone() }
}

/// Stores an object after finalizers or owners were removed, or removes it if it can be deleted now.
pub(crate) fn release(state: &mut State, target: &Target, entry: &Arc<Entry>, after: &Object) {
    if crate::write::update::is_last_finalizer(target.kind(), &entry.object(), after) {
        remove(state, target, entry);
    } else {
        let entry = state.store.put(target.served.table, Draft::new(target.kind(), after));
        crate::write::namespaces::stored(state, &target.served, &entry);
    }
}

/// Deletes the content of a namespace or of a CRD without waiting. Objects with finalizers remain, marked
/// as deleted.
pub(crate) fn sweep(state: &mut State, shared: &Shared, target: &Target, entry: &Arc<Entry>) {
    let dependents = Dependents::Policy(Propagation::Background);
    let options = DeleteOptions { grace: Some(0), dependents, ..DeleteOptions::default() };
    one(state, shared, target, entry, &options);
}

impl Deleted {
    /// Returns 202 (Accepted) if `orphanDependents` is false and the object still exists.
    pub(crate) fn code(&self, options: &DeleteOptions) -> u16 {
        match (self, options.dependents) {
            (Self::Kept(_), Dependents::Orphaned(false)) => 202,
            _ => 200,
        }
    }

    pub(crate) fn bytes(&self, kind: &Kind, encoder: &ObjectEncoder) -> Bytes {
        match self {
            Self::Kept(entry) | Self::Object(entry) => encoder.object(entry),
            Self::Gone { name, uid } => crate::status::deleted(kind.named(), name, uid).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> RunningClock {
        RunningClock::from(crate::Clock::Fixed(Timestamp::UNIX_EPOCH))
    }

    fn kind(plural: &str) -> Kind {
        crate::schemas::kinds::builtin::kinds()
            .into_iter()
            .find(|k| k.plural == plural && k.group != "events.k8s.io")
            .unwrap()
    }

    fn deleted(plural: &str, object: &Value, options: &DeleteOptions) -> Option<(Value, bool)> {
        let object = object.as_object().unwrap().clone();
        marked(&clock(), &kind(plural), &object, options)
            .map(|(object, stays)| (Value::Object(object), stays))
    }

    fn policy(policy: Propagation) -> DeleteOptions {
        DeleteOptions { dependents: Dependents::Policy(policy), ..DeleteOptions::default() }
    }

    #[test]
    fn last_delete_selects_garbage_collector_finalizer() {
        let with = |list: &Value| json!({"metadata": {"finalizers": list}});
        let after = |object: &Value, options: &DeleteOptions| {
            deleted("configmaps", object, options).unwrap().0["metadata"]["finalizers"].clone()
        };
        assert_eq!(after(&with(&json!(["a/b"])), &policy(Propagation::Orphan)), json!(["a/b", ORPHAN]));
        assert_eq!(
            after(&with(&json!(["a/b", ORPHAN])), &policy(Propagation::Foreground)),
            json!(["a/b", FOREGROUND])
        );
        assert_eq!(after(&with(&json!(["a/b", ORPHAN])), &policy(Propagation::Background)), json!(["a/b"]));
        assert_eq!(after(&with(&json!([ORPHAN])), &DeleteOptions::default()), json!([ORPHAN]));
        let (object, stays) =
            deleted("configmaps", &with(&json!([ORPHAN])), &policy(Propagation::Background)).unwrap();
        assert_eq!((object, stays), (json!({"metadata": {}}), false));
    }

    #[test]
    fn old_kinds_orphan_dependents_and_events_have_none() {
        let stays = |plural: &str, options: &DeleteOptions| deleted(plural, &json!({}), options).unwrap().1;
        assert!(
            stays("jobs", &DeleteOptions::default())
                && stays("replicationcontrollers", &DeleteOptions::default())
        );
        assert!(
            !stays("jobs", &policy(Propagation::Background))
                && !stays("replicasets", &DeleteOptions::default())
        );
        assert!(!stays("events", &policy(Propagation::Foreground)));
    }

    #[test]
    fn pod_grace_only_shortens_and_starts_at_first_delete() {
        let pod = json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}});
        let grace = |seconds: i64| DeleteOptions { grace: Some(seconds), ..DeleteOptions::default() };
        let (first, stays) = deleted("pods", &pod, &DeleteOptions::default()).unwrap();
        assert!(stays);
        let at = |object: &Value| object["metadata"]["deletionTimestamp"].as_str().unwrap().to_owned();
        assert_eq!(at(&first), "1970-01-01T00:00:30Z");
        assert!(deleted("pods", &first, &grace(30)).is_none());
        assert!(deleted("pods", &first, &DeleteOptions::default()).is_none());
        let (sooner, stays) = deleted("pods", &first, &grace(2)).unwrap();
        assert_eq!((at(&sooner).as_str(), stays), ("1970-01-01T00:00:02Z", true));
        let (now, stays) = deleted("pods", &sooner, &grace(0)).unwrap();
        assert_eq!((at(&now).as_str(), stays), ("1970-01-01T00:00:00Z", false));
    }
}
