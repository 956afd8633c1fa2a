//! What follows the storing of a CRD: its names are settled, then its versions are served as it says. In a cluster
//! controllers do that by writes of their own; here the same writes follow in one step.

use std::sync::Arc;

use http::Response;
use serde_json::Value;

use crate::apply::track::status_by_the_server;
use crate::crd::definition::{Defined, kinds, text};
use crate::crd::names::{self, Taken};
use crate::crd::status::{self, Condition};
use crate::crd::{GROUP, PLURAL};
use crate::http::body::Body;
use crate::http::route::ResourcePath;
use crate::http::service::page_not_found;
use crate::kinds::kind::Kind;
use crate::read::open_watches::Command;
use crate::state::{Served, Shared, State};
use crate::status::Status;
use crate::storage::entry::{Draft, Entry};
use crate::storage::log::TableId;
use crate::write::Object;
use crate::write::decode::meta;
use crate::write::namespaces::is_being_deleted;

/// After an object was stored: where it is a CRD, serves what it says. `before` is what an update replaced.
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
        crate::crd::removal::finish(state, &entry.essentials.name);
        return;
    }
    let before = before.map(|before| before.object());
    serve(state, before.as_ref(), &entry.object(), shared);
    settle_group(state, text(&Value::Object(entry.object()), "/spec/group"), shared);
}

/// Looks at the names of all CRDs of a group, again after each that got others.
pub(crate) fn settle_group(state: &mut State, group: &str, shared: &Shared) {
    while settle_one(state, group, shared) {}
}

fn settle_one(state: &mut State, group: &str, shared: &Shared) -> bool {
    let Some(crds) = state.registry.find(GROUP, "v1", PLURAL).cloned() else { return false };
    let all = of_group(state, &crds, group);
    let mut taken = Taken::default();
    all.iter().for_each(|crd| taken.add(crd));
    let now = shared.config.clock.timestamp(0);
    for before in all {
        let mut crd = before.clone();
        if names::settle(&mut crd, &taken, &now) {
            status_by_the_server(shared, &crds.kind, &before, &mut crd);
            state.store.put(crds.table, Draft::new(&crds.kind, &crd));
            establish(state, &crds, &mut crd, shared);
            serve(state, Some(&before), &crd, shared);
            return true;
        }
    }
    false
}

fn of_group(state: &State, crds: &Served, group: &str) -> Vec<Object> {
    let all = state.store.table(crds.table).objects().values().map(|entry| entry.object());
    all.filter(|crd| crd.get("spec").is_some_and(|spec| text(spec, "/group") == group)).collect()
}

fn establish(state: &mut State, crds: &Served, crd: &mut Object, shared: &Shared) {
    if status::is(crd, "NamesAccepted") && !status::is(crd, "Established") {
        let message = "the initial names have been accepted";
        let before = crd.clone();
        let now = shared.config.clock.timestamp(0);
        status::set(crd, &Condition::new("Established", true, "InitialNamesAccepted", message), &now);
        status_by_the_server(shared, &crds.kind, &before, crd);
        state.store.put(crds.table, Draft::new(&crds.kind, crd));
    }
}

/// Serves a CRD as it is now. Where its spec or its names changed, the watches end and the objects are read anew.
fn serve(state: &mut State, before: Option<&Object>, crd: &Object, shared: &Shared) {
    let essence = |crd: &Object| (crd.get("spec").cloned(), status::accepted(crd), is_served(crd));
    if before.is_some_and(|before| essence(before) == essence(crd)) {
        return;
    }
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    let (group, plural) = (text(spec, "/group"), text(spec, "/names/plural"));
    state.registry.remove(group, plural);
    if !is_served(crd) {
        return;
    }
    let State { store, registry, .. } = &mut *state;
    let make = |former: Option<TableId>| match former {
        Some(former) => store.add_table_after(former),
        None => store.add_table(),
    };
    let table = registry.custom_table(meta(crd, "uid"), (group, plural), make);
    store.table_mut(table).closed = false;
    let defined = kinds(crd);
    if let Some(Defined { kind, .. }) = defined.iter().find(|defined| defined.storage) {
        store.reread(table, |entry| reread(kind, entry));
    }
    for Defined { kind, served, .. } in defined {
        if served {
            registry.add(Served { kind: Arc::new(kind), table });
        }
    }
    shared.open.send_command(&Command::Close, |request| request.targets(group, plural));
}

/// Serves what the CRDs say that are stored now: time went back.
pub(crate) fn start_again(state: &mut State, shared: &Shared) {
    state.registry.remove_custom();
    for table in state.registry.custom_tables() {
        state.store.table_mut(table).closed = true;
    }
    let Some(crds) = state.registry.find(GROUP, "v1", PLURAL).cloned() else { return };
    let all: Vec<Object> =
        state.store.table(crds.table).objects().values().map(|entry| entry.object()).collect();
    all.iter().for_each(|crd| serve(state, None, crd, shared));
}

fn is_served(crd: &Object) -> bool {
    status::is(crd, "NamesAccepted") || status::is(crd, "Established")
}

/// An object as the (new) schema has it.
fn reread(kind: &Kind, entry: &Entry) -> Draft {
    let mut object = entry.object();
    if let Some(schemas) = &kind.schemas {
        // An object whose metadata can't be read was refused when it was written.
        let _ = schemas.storage.read(&mut object);
        schemas.storage.fill(&mut object);
    }
    Draft::new(kind, &object)
}

/// The answer to who asks for a resource that is not served, in a version that is: where all of it is custom there is
/// no such page, as if the version were not served either.
pub(crate) fn not_served(shared: &Shared, path: &ResourcePath) -> Result<Response<Body>, Status> {
    let custom = shared.read(|state| {
        let all = state.registry.resources(&path.group, &path.version);
        all.is_some_and(|all| all.values().all(|served| served.kind.rules.custom))
    });
    if custom { Ok(page_not_found()) } else { Err(Status::no_such_resource()) }
}
