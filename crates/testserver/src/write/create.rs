//! CREATE.

use std::sync::Arc;

use kube_managed_fields::Managers;

use crate::read::conversion;
use crate::schemas::kinds::kind::{Generation, Kind};
use crate::state::{Shared, State};
use crate::status::{Named, Status};
use crate::storage::entry::{Parsed, whole};
use crate::wire::names;
use crate::wire::object::{meta, metadata_mut};
use crate::write::admission::{Admission, Operation};
use crate::write::apply::track;
use crate::write::custom::serve::converted;
use crate::write::options::FieldValidation;
use crate::write::{Object, Target, Via, WriteOptions, Written, type_meta};

/// The maximum number of generated names. If a generated name exists, another name is generated.
const DRAWS: usize = 8;

/// Creates an object in the collection of `target`; the name in `target` is ignored.
pub(crate) async fn create(
    shared: &Shared,
    target: &Target,
    mut object: Object,
    options: &WriteOptions,
) -> Result<Written, Status> {
    let kind = target.kind();
    crate::write::bounds::check_depth(&object)?;
    // An invalid version counts as none. The storage rejects a version, and a dry run does not reach the
    // storage.
    if !options.dry_run && crate::write::update::version(&object).is_ok_and(|version| version != 0) {
        return Err(Status::internal("resourceVersion should not be set on objects to be created"));
    }
    place(target, &mut object)?;
    crate::write::custom::admit::read(kind, Via::Put, &mut object, options)?;
    type_meta::check_kept(&object, kind)?;
    options.check(&object, None)?;
    crate::write::unsupported::check(shared, kind, &object)?;
    object = crate::schemas::kinds::events::inside(kind, object);
    let base = meta(&object, "generateName").to_owned();
    let generated = meta(&object, "name").is_empty() && !base.is_empty();
    born(shared, kind, &mut object);
    let mut owners = None;
    let mut admission = Admission::of(shared, target, Operation::Create, "", options.caller.as_deref());
    if let Some(admission) = &mut admission {
        meta(&object, "name").clone_into(&mut admission.name);
        let target = Target { name: admission.name.clone(), ..target.clone() };
        shared.read(|state| check_namespace(state, &target))?;
        if admission.mutates() {
            let mutated = Box::pin(mutated(admission, object, options)).await?;
            (object, owners) = (mutated.object, Some(mutated.managers));
        }
    }
    for draw in 1.. {
        if generated {
            let name = shared.random(|rng| names::generate(&base, rng));
            metadata_mut(&mut object).insert("name".into(), name.into());
        }
        let name = meta(&object, "name").to_owned();
        crate::write::metadata::check_new(kind, &object)?;
        crate::schemas::kinds::workloads::select(kind, &mut object);
        crate::schemas::kinds::defaults::spec(kind, &mut object);
        crate::write::custom::admit::check_new(kind, &object)?;
        let target = Target { name, ..target.clone() };
        let owners = owners.get_or_insert_with(|| track::created(shared, kind, options, &mut object));
        crate::write::pod::complete(shared, kind, &mut object, None)?;
        if kind.is_service() {
            crate::schemas::kinds::services::assign(&shared.service_addresses, None, &mut object);
        }
        crate::write::rules::check(shared, kind, &object, None)?;
        if let Some(admission) = &mut admission {
            admission.name.clone_from(&target.name);
            Box::pin(admission.validate(Some(&whole(&object, owners)), None)).await?;
        }
        let stored = conversion::to_storage(shared, kind, (&object, owners)).await?;
        let stored = (stored.as_ref().unwrap_or(&object), &*owners);
        match insert(shared, &target, stored, options.dry_run) {
            Err(status) if status.reason() == "AlreadyExists" && generated && draw < DRAWS => {}
            Ok(Written::Created(entry)) if !options.dry_run => {
                let managers = std::mem::take(owners);
                shared.recent.keep(kind, &entry, Parsed { object, managers });
                return Ok(Written::Created(entry));
            }
            done => return done,
        }
    }
    unreachable!("the last draw returns")
}

/// Calls the mutating webhooks, and reads their result. No manager owns the fields that the webhooks set.
async fn mutated(
    admission: &Admission<'_>,
    mut object: Object,
    options: &WriteOptions,
) -> Result<Parsed, Status> {
    let Admission { shared, target, .. } = admission;
    let kind = target.kind();
    crate::schemas::kinds::defaults::spec(kind, &mut object);
    let owners = track::created(shared, kind, options, &mut object);
    crate::write::pod::complete(shared, kind, &mut object, None)?;
    for key in ["uid", "creationTimestamp", "generation"] {
        metadata_mut(&mut object).remove(key);
    }
    object = admission.mutate(Some(whole(&object, &owners)), None).await?.unwrap_or_default();
    place(target, &mut object)?;
    let options = WriteOptions { validation: FieldValidation::Ignore, ..WriteOptions::default() };
    crate::write::custom::admit::read(kind, Via::Put, &mut object, &options)?;
    type_meta::check_kept(&object, kind)?;
    born(shared, kind, &mut object);
    Ok(Parsed::new(object))
}

/// Sets the namespace of the URL on the object, which must not contain a different one.
pub(crate) fn place(target: &Target, object: &mut Object) -> Result<(), Status> {
    let found = meta(object, "namespace").to_owned();
    let metadata = metadata_mut(object);
    match &target.namespace {
        Some(namespace) if found.is_empty() || found == *namespace => {
            metadata.insert("namespace".into(), namespace.as_str().into());
        }
        Some(_) => {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        None => {
            metadata.remove("namespace");
        }
    }
    Ok(())
}

/// Sets the metadata and status of a new object.
fn born(shared: &Shared, kind: &Kind, object: &mut Object) {
    if kind.rules.status {
        crate::schemas::kinds::defaults::status(kind, object);
    }
    let metadata = metadata_mut(object);
    for key in ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(key);
    }
    if metadata.get("generation").is_some_and(|generation| generation == 0) {
        metadata.remove("generation");
    }
    metadata.retain(|_, value| !value.is_null() && value != "" && (kind.rules.custom || !is_empty(value)));
    crate::write::metadata::unique_owners(metadata);
    metadata.insert("uid".into(), shared.random(names::uid).into());
    metadata.insert("creationTimestamp".into(), shared.config.clock.timestamp(0).into());
    if kind.rules.generation != Generation::None {
        metadata.insert("generation".into(), 1.into());
    }
}

fn is_empty(value: &serde_json::Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn insert(
    shared: &Shared,
    target: &Target,
    (object, owners): (&Object, &Managers),
    dry_run: bool,
) -> Result<Written, Status> {
    let draft = crate::write::custom::admit::draft(target.kind(), object, owners);
    crate::write::metadata::check_size(&draft)?;
    shared.write(|state| {
        let current = state.current(&target.served)?;
        // If the CRD has changed, the object is stored like the objects that existed before the change.
        let is_changed = !Arc::ptr_eq(&current.kind, &target.served.kind);
        let draft = if is_changed { converted(&current.kind, whole(object, owners)) } else { draft };
        check_namespace(state, target)?;
        crate::write::custom::removal::check_stays(state, target)?;
        let exists = state.store.table(target.served.table).get(&target.key()).is_some();
        if exists {
            return Err(Status::already_exists(target.kind().named(), &target.name));
        }
        if dry_run {
            return Ok(Written::Created(Arc::new(draft.seal_unversioned())));
        }
        let entry = state.store.put(target.served.table, draft);
        crate::write::custom::serve::stored(state, &target.served, None, &entry, shared);
        Ok(Written::Created(entry))
    })
}

/// Rejects a namespace that does not exist or is being deleted.
fn check_namespace(state: &State, target: &Target) -> Result<(), Status> {
    let Some(namespace) = &target.namespace else { return Ok(()) };
    let what = Named { group: "", resource: "namespaces" };
    let found = state.store.table(state.namespaces.table).get(namespace);
    let found = found.ok_or_else(|| Status::not_found(what, namespace))?;
    if crate::write::namespaces::is_terminating(found) {
        return Err(Status::terminating(target.kind().named(), &target.name, namespace));
    }
    Ok(())
}
