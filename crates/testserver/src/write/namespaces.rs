//! Namespaces: the four that every cluster has, and the deletion of a namespace.
//!
//! In a cluster, a controller empties a namespace that is being deleted and removes its finalizer. This
//! server does both in the same step: the namespace is Terminating, then its objects are deleted, then the
//! namespace. Objects with finalizers delay this until the last such object is removed.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::schemas::kinds::kind::Kind;
use crate::state::{Served, Shared, State};
use crate::status::{Named, Status};
use crate::storage::entry::{Change, Draft, Entry};
use crate::wire::object::{meta, metadata_mut, section_mut};
use crate::write::delete_options::DeleteOptions;
use crate::write::{Object, Target, WriteOptions};

pub(crate) const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];
const FINALIZER: &str = "kubernetes";

/// The index of `status.phase` among the selectable fields of a namespace.
const PHASE: usize = 1;

pub(crate) fn is_terminating(namespace: &Entry) -> bool {
    namespace.essentials.fields.get(PHASE).is_some_and(|phase| &**phase == "Terminating")
}

/// Starts the deletion of a namespace and continues it as far as possible.
pub(crate) fn terminate(
    state: &mut State,
    entry: &Arc<Entry>,
    options: &DeleteOptions,
    shared: &Shared,
) -> Result<Arc<Entry>, Status> {
    let name = entry.essentials.name.clone();
    if IMMORTAL.contains(&&*name) {
        let what = Named { group: "", resource: "namespaces" };
        return Err(Status::forbidden(what, &name, "this namespace may not be deleted"));
    }
    if is_terminating(entry) {
        return Ok(entry.clone());
    }
    let served = state.namespaces.clone();
    let draft = Draft::new(&served.kind, &marked(entry, &served.kind, options, shared));
    if options.dry_run {
        return Ok(Arc::new(draft.seal(Change::Modified, entry.revision)));
    }
    let marked = state.store.put(served.table, draft);
    empty(state, &name, shared);
    finish(state, &name);
    Ok(marked)
}

fn marked(entry: &Entry, kind: &Kind, options: &DeleteOptions, shared: &Shared) -> Object {
    let mut object = entry.object();
    let now = shared.config.clock.timestamp(0);
    metadata_mut(&mut object).insert("deletionTimestamp".into(), now.into());
    crate::write::delete::settle_dependents(kind, &mut object, options.dependents);
    section_mut(&mut object, "status").insert("phase".into(), "Terminating".into());
    object
}

fn empty(state: &mut State, namespace: &str, shared: &Shared) {
    let prefix = format!("{namespace}/");
    let tables: Vec<Served> = state.registry.tables().filter(|s| s.kind.rules.namespaced).cloned().collect();
    for served in tables {
        let inside: Vec<Arc<Entry>> =
            state.store.table(served.table).under(&prefix).map(|(_, entry)| entry.clone()).collect();
        for entry in inside {
            let target = Target {
                served: served.clone(),
                namespace: Some(namespace.into()),
                name: entry.essentials.name.to_string(),
            };
            crate::write::delete::sweep(state, shared, &target, &entry);
        }
    }
}

/// Continues the deletion of a namespace or CRD that waited for the removal of an object.
pub(crate) fn removed(state: &mut State, served: &Served, entry: &Entry) {
    if let Some(namespace) = &entry.essentials.namespace {
        finish(state, namespace);
    }
    if served.kind.rules.custom {
        let kind = &served.kind;
        crate::write::custom::removal::finish(state, &format!("{}.{}", kind.plural, kind.group));
    }
}

/// Continues the deletion of a namespace that waited for the removal of a finalizer.
pub(crate) fn stored(state: &mut State, served: &Served, entry: &Entry) {
    if served.kind.is_namespace() {
        finish(state, &entry.essentials.name);
    }
}

/// Removes a terminating namespace that is empty and has only the controller's finalizer.
fn finish(state: &mut State, namespace: &str) {
    let table = state.namespaces.table;
    let Some(entry) = state.store.table(table).get(namespace).cloned() else { return };
    if !is_terminating(&entry) {
        return;
    }
    let prefix = format!("{namespace}/");
    let occupied = |served: &Served| {
        served.kind.rules.namespaced && state.store.table(served.table).under(&prefix).next().is_some()
    };
    if state.registry.tables().any(occupied) || held_by_others(&entry) {
        return;
    }
    state.store.remove(table, entry.key());
}

fn held_by_others(namespace: &Entry) -> bool {
    let object = namespace.object();
    let spec = object.get("spec").and_then(|spec| spec.get("finalizers")).and_then(Value::as_array);
    let own = spec.into_iter().flatten().any(|finalizer| finalizer != FINALIZER);
    own || !crate::wire::object::finalizers(&object).is_empty()
}

pub(crate) fn populate(shared: &Shared) {
    let served = shared.read(|state| state.namespaces.clone());
    let options = WriteOptions { manager: "kube-apiserver".into(), ..WriteOptions::default() };
    for name in INITIAL {
        let object = json!({"metadata": {"name": name}});
        let target = Target { served: served.clone(), namespace: None, name: name.into() };
        let object = object.as_object().cloned().unwrap_or_default();
        if let Err(status) = crate::write::now(crate::write::create(shared, &target, object, &options)) {
            tracing::error!(name, %status, "cannot create an initial namespace");
        }
    }
}

pub(crate) fn is_being_deleted(entry: &Entry) -> bool {
    !meta(&entry.object(), "deletionTimestamp").is_empty()
}
