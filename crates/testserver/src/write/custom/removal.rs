//! The deletion of a CRD. The CRD is marked, its objects are deleted, and then the CRD is removed.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::schemas::crd::definition::{kinds, text};
use crate::schemas::crd::status::{self, Condition};
use crate::schemas::crd::{GROUP, PLURAL};
use crate::state::{Served, Shared, State};
use crate::status::Status;
use crate::storage::entry::{Draft, Entry};
use crate::wire::object::{finalizers, metadata_mut};
use crate::write::Target;
use crate::write::namespaces::is_being_deleted;

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Deletes a CRD. Finalizers of its objects can block the deletion.
pub(crate) fn terminate(
    state: &mut State,
    served: &Served,
    entry: &Arc<Entry>,
    shared: &Shared,
) -> Arc<Entry> {
    if is_being_deleted(entry) {
        return entry.clone();
    }
    let mut crd = entry.object();
    let now = shared.config.clock.timestamp(0);
    let metadata = metadata_mut(&mut crd);
    metadata.insert("deletionTimestamp".into(), now.as_str().into());
    let held = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = held.as_array_mut().filter(|list| !list.contains(&json!(FINALIZER))) {
        list.push(FINALIZER.into());
    }
    let pending = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    status::set(&mut crd, &Condition::new("Terminating", true, "InstanceDeletionPending", pending), &now);
    let marked = state.store.put(served.table, Draft::new(&served.kind, &crd));
    let message = "CustomResource deletion is in progress";
    status::set(&mut crd, &Condition::new("Terminating", true, "InstanceDeletionInProgress", message), &now);
    state.store.put(served.table, Draft::new(&served.kind, &crd));
    let name = marked.essentials.name.clone();
    // The rules of the storage version apply to the deletion of objects, even if it is not served.
    let storage = kinds(&crd).into_iter().find(|defined| defined.storage);
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let table = state.registry.find_custom_table(text(spec, "/group"), text(spec, "/names/plural"));
    if let Some((table, storage)) = table.zip(storage) {
        let incarnation = state.store.table(table).incarnation;
        sweep(state, &Served { kind: Arc::new(storage.kind), table, incarnation }, shared);
    }
    finish(state, &name);
    marked
}

fn sweep(state: &mut State, custom: &Served, shared: &Shared) {
    let all: Vec<Arc<Entry>> = state.store.table(custom.table).objects().values().cloned().collect();
    for entry in all {
        let target = Target {
            served: custom.clone(),
            namespace: entry.essentials.namespace.as_deref().map(Into::into),
            name: entry.essentials.name.to_string(),
        };
        crate::write::delete::sweep(state, shared, &target, &entry);
    }
}

/// Removes a CRD that is being deleted, if it has no objects and no other finalizers.
pub(crate) fn finish(state: &mut State, name: &str) {
    let Some(crds) = state.registry.find(GROUP, "v1", PLURAL).cloned() else { return };
    let Some(entry) = state.store.table(crds.table).get(name).cloned() else { return };
    let crd = entry.object();
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let (group, plural) = (text(spec, "/group"), text(spec, "/names/plural"));
    let table = state.registry.find_custom_table(group, plural);
    let empty = table.is_none_or(|table| state.store.table(table).objects().is_empty());
    let blocked = finalizers(&crd).iter().any(|finalizer| *finalizer != FINALIZER);
    if !is_being_deleted(&entry) || !empty || blocked {
        return;
    }
    state.store.remove(crds.table, name);
    state.registry.remove(group, plural);
    if let Some(table) = table {
        state.store.close(table);
        state.store.forget_closed();
    }
}

/// Rejects new objects of a CRD that is being deleted.
///
/// # Errors
/// Returns 403 Forbidden.
pub(crate) fn check_stays(state: &State, target: &Target) -> Result<(), Status> {
    let kind = target.kind();
    if !kind.rules.custom {
        return Ok(());
    }
    let name = format!("{}.{}", kind.plural, kind.group);
    let crds = state.registry.find(GROUP, "v1", PLURAL);
    let crd = crds.and_then(|crds| state.store.table(crds.table).get(&name));
    if crd.is_some_and(|crd| is_being_deleted(crd)) {
        let cause = "create not allowed while custom resource definition is terminating";
        return Err(Status::forbidden(kind.named(), &target.name, cause));
    }
    Ok(())
}
