//! CustomResourceDefinitions: served as soon as they are created, gone with all their objects when deleted.
//!
//! Objects are not validated against the schema. Several versions share their objects and differ in apiVersion only.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::kinds::kind::{Field, Generation, Kind, NAMES, Rules, ScalePaths};
use crate::kinds::names::NameRule;
use crate::read::open_watches::Command;
use crate::state::{Served, Shared, State};
use crate::status::{Cause, Status};
use crate::storage::entry::{Draft, Entry};
use crate::write::decode::{meta, metadata_mut};
use crate::write::namespaces::is_being_deleted;
use crate::write::{Object, Target};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// Checks a new CRD and fills in the names that have defaults. Other kinds pass.
pub(crate) fn complete(kind: &Kind, object: &mut Object) -> Result<(), Status> {
    if !kind.is_crd() {
        return Ok(());
    }
    let name = meta(object, "name").to_owned();
    let spec = object.get("spec").cloned().unwrap_or(Value::Null);
    let (group, plural) = (text(&spec, "/group"), text(&spec, "/names/plural"));
    let mut causes = Vec::new();
    for (field, pointer) in [
        ("spec.group", "/group"),
        ("spec.scope", "/scope"),
        ("spec.names.plural", "/names/plural"),
        ("spec.names.kind", "/names/kind"),
    ] {
        if text(&spec, pointer).is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    if spec.pointer("/versions/0/name").is_none() {
        causes.push(Cause::required(
            "spec.versions",
            "must have exactly one version marked as storage version",
        ));
    }
    if causes.is_empty() && name != format!("{plural}.{group}") {
        let text = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &format!("{name:?}"), text));
    }
    if !causes.is_empty() {
        return Err(Status::invalid(kind.named_kind(), &name, causes));
    }
    let kind_name = text(&spec, "/names/kind").to_owned();
    let names = object.get_mut("spec").and_then(|spec| spec.get_mut("names")).and_then(Value::as_object_mut);
    if let Some(names) = names {
        names.entry("singular").or_insert_with(|| kind_name.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind_name}List").into());
    }
    Ok(())
}

/// After a CRD was stored: serves what it says. Its status follows in a second write, as from a controller.
pub(crate) fn stored(state: &mut State, served: &Served, entry: &Arc<Entry>, shared: &Shared) {
    if !served.kind.is_crd() || is_being_deleted(entry) {
        return;
    }
    let object = entry.object();
    let crd = Value::Object(object);
    let (group, plural) = (text(&crd, "/spec/group").to_owned(), text(&crd, "/spec/names/plural").to_owned());
    let State { store, registry, .. } = &mut *state;
    let table = registry.custom_table(&entry.essentials.name, || store.add_table());
    let established = crd.pointer("/status/acceptedNames/plural").is_some();
    state.registry.remove(&group, &plural);
    for kind in kinds(&crd) {
        state.registry.add(Served { kind: Arc::new(kind), table });
    }
    if !established {
        establish(state, served, crd, shared);
        return;
    }
    // As in the real server a changed definition ends the watches of its resource.
    shared.open.tell(&Command::Close, |about| about.group == group && about.resource == plural);
}

fn establish(state: &mut State, served: &Served, mut crd: Value, shared: &Shared) {
    let now = shared.config.clock.timestamp(0);
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let stored: Vec<&str> = versions
        .into_iter()
        .flatten()
        .filter(|v| v.get("storage").and_then(Value::as_bool).unwrap_or(false))
        .filter_map(|v| v.get("name").and_then(Value::as_str))
        .collect();
    let status = json!({
        "acceptedNames": crd.pointer("/spec/names").cloned().unwrap_or(Value::Null),
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "storedVersions": stored,
    });
    if let Some(object) = crd.as_object_mut() {
        object.insert("status".into(), status);
        state.store.put(served.table, Draft::new(&served.kind, object));
    }
}

/// The kinds that a CRD serves: one for each served version.
fn kinds(crd: &Value) -> Vec<Kind> {
    let empty = Vec::new();
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array).unwrap_or(&empty);
    let flag = |version: &Value, key: &str| version.get(key).and_then(Value::as_bool).unwrap_or(false);
    let storage = versions.iter().find(|v| flag(v, "storage")).or(versions.first());
    let storage = storage.map(|v| text(v, "/name")).unwrap_or("").to_owned();
    versions.iter().filter(|v| flag(v, "served")).map(|version| kind(crd, version, &storage)).collect()
}

fn kind(crd: &Value, version: &Value, storage: &str) -> Kind {
    let list = |pointer: &str| {
        let list = crd.pointer(pointer).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
    };
    let status = version.pointer("/subresources/status").is_some();
    let selectable = version.get("selectableFields").and_then(Value::as_array);
    let paths =
        selectable.into_iter().flatten().map(|field| text(field, "/jsonPath").trim_start_matches('.'));
    let namespaced = text(crd, "/spec/scope") == "Namespaced";
    let names = if namespaced { &NAMES[..] } else { &NAMES[..1] };
    Kind {
        group: text(crd, "/spec/group").into(),
        version: text(version, "/name").into(),
        storage_version: storage.into(),
        plural: text(crd, "/spec/names/plural").into(),
        singular: text(crd, "/spec/names/singular").into(),
        kind: text(crd, "/spec/names/kind").into(),
        list_kind: text(crd, "/spec/names/listKind").into(),
        short_names: list("/spec/names/shortNames"),
        categories: list("/spec/names/categories"),
        rules: Rules {
            namespaced,
            custom: true,
            status,
            generation: if status { Generation::Content } else { Generation::Everything },
            names: NameRule::Subdomain,
            unconditional_update: false,
            create_on_update: false,
            returns_deleted: false,
        },
        fields: names.iter().copied().chain(paths).map(Field::at_path).collect(),
        scale: version.pointer("/subresources/scale").map(scale),
    }
}

fn scale(scale: &Value) -> ScalePaths {
    let selector = scale.get("labelSelectorPath").and_then(Value::as_str).filter(|path| !path.is_empty());
    ScalePaths {
        spec_replicas: text(scale, "/specReplicasPath").into(),
        status_replicas: text(scale, "/statusReplicasPath").into(),
        label_selector: selector.map(Into::into),
    }
}

/// Deletes a CRD: marked first, then its objects go, then it is no longer served and its watches end.
pub(crate) fn terminate(
    state: &mut State,
    served: &Served,
    entry: &Arc<Entry>,
    shared: &Shared,
) -> Arc<Entry> {
    if is_being_deleted(entry) {
        return entry.clone();
    }
    let mut object = entry.object();
    let now = shared.config.clock.timestamp(0);
    let metadata = metadata_mut(&mut object);
    metadata.insert("deletionTimestamp".into(), now.as_str().into());
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut() {
        list.push(FINALIZER.into());
    }
    let conditions = object.get_mut("status").and_then(|status| status.get_mut("conditions"));
    if let Some(conditions) = conditions.and_then(Value::as_array_mut) {
        conditions.push(json!({
            "type": "Terminating", "status": "True", "lastTransitionTime": now,
            "reason": "InstanceDeletionPending", "message": "CustomResourceDefinition marked for deletion; \
            CustomResource deletion will begin soon"
        }));
    }
    let marked = state.store.put(served.table, Draft::new(&served.kind, &object));
    let crd = Value::Object(object);
    let table = state.registry.find_custom_table(&marked.essentials.name);
    // Objects are deleted by the storage version's rules, whether it is served or not.
    let version = crd.pointer("/spec/versions/0").cloned().unwrap_or(Value::Null);
    if let Some(table) = table {
        let kind = Arc::new(kind(&crd, &version, text(&version, "/name")));
        sweep(state, &Served { kind: kind.clone(), table }, shared);
        finish(state, &kind);
    }
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

/// Ends a CRD that is being deleted once none of its objects is left.
pub(crate) fn finish(state: &mut State, kind: &Kind) {
    let Some(crds) = state.registry.find(GROUP, "v1", PLURAL).cloned() else { return };
    let name = format!("{}.{}", kind.plural, kind.group);
    let Some(crd) = state.store.table(crds.table).get(&name).cloned() else { return };
    let Some(table) = state.registry.find_custom_table(&name) else { return };
    if !is_being_deleted(&crd) || !state.store.table(table).objects().is_empty() {
        return;
    }
    state.store.remove(crds.table, &name);
    state.registry.remove(&kind.group, &kind.plural);
    state.registry.drop_custom_table(&name);
    let table = state.store.table_mut(table);
    table.closed = true;
    table.signal.send_replace(());
}
