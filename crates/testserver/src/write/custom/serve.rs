//! Serves a CRD after it is stored. First its names are accepted, then its versions are served. In a
//! cluster, controllers do this with separate writes. This module executes the same writes in one step.

use std::sync::Arc;

use serde_json::Value;

use crate::faults::open_watches::Command;
use crate::schemas::crd::definition::{Defined, kinds, text};
use crate::schemas::crd::status::{self, Condition};
use crate::schemas::crd::{GROUP, PLURAL};
use crate::schemas::kinds::kind::Kind;
use crate::state::{Served, Shared, State};
use crate::storage::entry::{Draft, Entry};
use crate::wire::object::Object;
use crate::write::apply::track::status_by_the_server;
use crate::write::namespaces::is_being_deleted;

/// Serves a stored object if it is a CRD. `before` is the previous object of an update.
pub(crate) fn stored(
    state: &mut State,
    served: &Served,
    before: Option<&Arc<Entry>>,
    entry: &Arc<Entry>,
    shared: &Shared,
) {
    if !served.kind.is_crd() {
        return;
    }
    if is_being_deleted(entry) {
        crate::write::custom::removal::finish(state, &entry.essentials.name);
        return;
    }
    let before = before.map(|before| before.object());
    serve(state, before.as_ref(), &entry.object(), shared);
    accept_names(state, served, &entry.object(), shared);
}

/// Accepts changed names of a CRD, even if another CRD of the group has the same names.
fn accept_names(state: &mut State, crds: &Served, before: &Object, shared: &Shared) {
    let mut crd = before.clone();
    if status::accept_names(&mut crd, &shared.config.clock.timestamp(0)) {
        status_by_the_server(shared, &crds.kind, before, &mut crd);
        state.store.put(crds.table, Draft::new(&crds.kind, &crd));
        establish(state, crds, &mut crd, shared);
        serve(state, Some(before), &crd, shared);
    }
}

fn establish(state: &mut State, crds: &Served, crd: &mut Object, shared: &Shared) {
    if !status::is(crd, "Established") {
        let message = "the initial names have been accepted";
        let before = crd.clone();
        let now = shared.config.clock.timestamp(0);
        status::set(crd, &Condition::new("Established", true, "InitialNamesAccepted", message), &now);
        status_by_the_server(shared, &crds.kind, &before, crd);
        state.store.put(crds.table, Draft::new(&crds.kind, crd));
    }
}

/// Serves the current state of a CRD. If its spec or its names have changed, closes its watches and
/// reads its objects again with the new schema.
fn serve(state: &mut State, before: Option<&Object>, crd: &Object, shared: &Shared) {
    let relevant = |crd: &Object| (crd.get("spec").cloned(), status::accepted(crd), is_served(crd));
    if before.is_some_and(|before| relevant(before) == relevant(crd)) {
        return;
    }
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let (group, plural) = (text(spec, "/group"), text(spec, "/names/plural"));
    state.registry.remove(group, plural);
    if !is_served(crd) {
        return;
    }
    let State { store, registry, .. } = &mut *state;
    let table = registry.custom_table(group, plural, || store.add_table());
    let incarnation = store.open(table);
    let defined = kinds(crd);
    if let Some(Defined { kind, .. }) = defined.iter().find(|defined| defined.storage) {
        store.reread(table, |entry| converted(kind, entry.object()));
    }
    for Defined { kind, served, .. } in defined {
        if served {
            registry.add(Served { kind: Arc::new(kind), table, incarnation });
        }
    }
    shared.open.send_command(&Command::Close, |request| request.targets(group, plural));
}

/// Serves the currently stored CRDs, after a restore.
pub(crate) fn serve_restored(state: &mut State, shared: &Shared) {
    state.registry.remove_custom();
    for table in state.registry.custom_tables() {
        state.store.close(table);
    }
    let Some(crds) = state.registry.find(GROUP, "v1", PLURAL).cloned() else { return };
    let all: Vec<Object> =
        state.store.table(crds.table).objects().values().map(|entry| entry.object()).collect();
    all.iter().for_each(|crd| serve(state, None, crd, shared));
}

fn is_served(crd: &Object) -> bool {
    status::is(crd, "Established")
}

/// Converts an object to the current schema, as if it had been stored before the schema changed.
pub(crate) fn converted(kind: &Kind, mut object: Object) -> Draft {
    if let Some(schemas) = &kind.schemas {
        // Cannot fail, because writes reject objects with invalid metadata.
        let _ = schemas.storage.read(&mut object);
        schemas.storage.fill(&mut object);
    }
    Draft::new(kind, &object)
}
