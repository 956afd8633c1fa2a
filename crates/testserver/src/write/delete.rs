//! DELETE: at once, or in two steps where finalizers or a pod's grace period hold an object back.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::http::view::View;
use crate::kinds::kind::{Generation, Kind};
use crate::state::{Shared, State};
use crate::status::Status;
use crate::storage::entry::{Draft, Entry};
use crate::write::decode::{DeleteOptions, Propagation, finalizers, meta, metadata_mut};
use crate::write::{Object, Target, generation};

/// What a DELETE answers.
#[derive(Clone, Debug)]
pub(crate) enum Deleted {
    /// The object: it is still there, or its kind answers so.
    Object(Arc<Entry>),
    /// It is gone.
    Gone { name: Box<str>, uid: Box<str> },
}

/// Deletes one object.
pub(crate) fn delete(shared: &Shared, target: &Target, options: &DeleteOptions) -> Result<Deleted, Status> {
    shared.write(|state| {
        let found = state.store.table(target.served.table).get(&target.key()).cloned();
        let entry = found.ok_or_else(|| target.not_found())?;
        check_preconditions(target.kind(), &entry, options)?;
        if options.dry_run {
            return Ok(Deleted::Object(entry));
        }
        if target.kind().is_namespace() {
            return crate::write::namespaces::terminate(state, &entry, shared).map(Deleted::Object);
        }
        if target.kind().is_crd() {
            return Ok(Deleted::Object(crate::crd::definition::terminate(
                state,
                &target.served,
                &entry,
                shared,
            )));
        }
        Ok(one(state, shared, target, &entry, options))
    })
}

fn check_preconditions(kind: &Kind, entry: &Entry, options: &DeleteOptions) -> Result<(), Status> {
    let conflict = |why: String| Status::conflict(kind.named_kind(), &entry.essentials.name, &why);
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

/// Deletes an object that is neither a namespace nor a CRD. Under the lock.
pub(crate) fn one(
    state: &mut State,
    shared: &Shared,
    target: &Target,
    entry: &Arc<Entry>,
    options: &DeleteOptions,
) -> Deleted {
    let kind = target.kind();
    let mut object = entry.object();
    let grace = grace(kind, &object, options);
    let fresh = meta(&object, "deletionTimestamp").is_empty();
    let wanted = match options.propagation {
        Propagation::Background => None,
        Propagation::Foreground => Some("foregroundDeletion"),
        Propagation::Orphan => Some("orphan"),
    };
    let held = !finalizers(&object).is_empty() || (fresh && wanted.is_some());
    if !held && !kind.is_pod() {
        return remove(state, target, entry);
    }
    if !fresh && (held || grace >= remaining(&object)) {
        return if held || grace > 0 { Deleted::Object(entry.clone()) } else { remove(state, target, entry) };
    }
    mark(shared, kind, &mut object, grace, wanted);
    let marked = state.store.put(target.served.table, Draft::new(kind, &object));
    if held || grace > 0 {
        return Deleted::Object(marked);
    }
    remove(state, target, &marked)
}

/// Seconds that a pod on a node has left by its earlier delete.
fn remaining(object: &Object) -> i64 {
    let metadata = object.get("metadata");
    metadata.and_then(|m| m.get("deletionGracePeriodSeconds")).and_then(Value::as_i64).unwrap_or(0)
}

/// Seconds until the object may go. Only pods on a node that have not ended are given time.
fn grace(kind: &Kind, object: &Object, options: &DeleteOptions) -> i64 {
    let text = |part: &str, key: &str| {
        object.get(part).and_then(|part| part.get(key)).and_then(Value::as_str).unwrap_or("").to_owned()
    };
    let ended = matches!(text("status", "phase").as_str(), "Succeeded" | "Failed");
    if !kind.is_pod() || text("spec", "nodeName").is_empty() || ended {
        return 0;
    }
    let own =
        object.get("spec").and_then(|spec| spec.get("terminationGracePeriodSeconds")).and_then(Value::as_i64);
    options.grace.or(own).unwrap_or(30).max(0)
}

/// Marks the object as being deleted.
fn mark(shared: &Shared, kind: &Kind, object: &mut Object, grace: i64, finalizer: Option<&str>) {
    let fresh = meta(object, "deletionTimestamp").is_empty();
    let next = generation(object) + 1;
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".into(), shared.config.clock.timestamp(grace).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    if fresh && kind.rules.generation != Generation::None {
        metadata.insert("generation".into(), next.into());
    }
    if let Some(finalizer) = finalizer {
        let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut().filter(|list| !list.contains(&json!(finalizer))) {
            list.push(finalizer.into());
        }
    }
}

fn remove(state: &mut State, target: &Target, entry: &Arc<Entry>) -> Deleted {
    let last = state.store.remove(target.served.table, entry.key());
    crate::write::namespaces::removed(state, &target.served, entry);
    match last {
        Some(last) if target.kind().rules.returns_deleted => Deleted::Object(last),
        _ => Deleted::Gone { name: entry.essentials.name.clone(), uid: entry.essentials.uid.clone() },
    }
}

/// Deletes without waiting: the content of a namespace or of a CRD. What has finalizers stays, marked.
pub(crate) fn sweep(state: &mut State, shared: &Shared, target: &Target, entry: &Arc<Entry>) {
    let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
    one(state, shared, target, entry, &options);
}

impl Deleted {
    /// The body of the answer.
    pub(crate) fn bytes(&self, kind: &Kind, view: &View) -> Bytes {
        match self {
            Self::Object(entry) => view.object(entry),
            Self::Gone { name, uid } => crate::status::deleted(kind.named(), name, uid).into(),
        }
    }
}
