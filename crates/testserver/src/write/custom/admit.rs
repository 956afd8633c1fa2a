//! The additional steps for CRDs and custom resources when an object is decoded, validated and stored.

use kube_managed_fields::Managers;

use crate::schemas::crd::scale;
use crate::schemas::crd::schema::Scope;
use crate::schemas::kinds::kind::Kind;
use crate::status::{Cause, Status};
use crate::storage::entry::Draft;
use crate::wire::object::meta;
use crate::write::strict::{judge, read_typed, unreadable};
use crate::write::{Object, Part, Via, WriteOptions};

/// Decodes an object: drops or rejects unknown fields, and adds defaults.
///
/// # Errors
/// Returns the rejection of an undecodable object, or of unknown fields with strict field validation.
pub(crate) fn read(kind: &Kind, via: Via, object: &mut Object, options: &WriteOptions) -> Result<(), Status> {
    if let Some(schemas) = &kind.schemas {
        let sent = object.clone();
        let unknown = schemas.own.read(object).map_err(|cause| unreadable(kind, via, &sent, &cause))?;
        judge(kind, via, &sent, unknown, options)?;
        schemas.own.fill(object);
    } else {
        read_typed(kind, via, object, options)?;
    }
    if kind.is_crd() {
        crate::schemas::crd::defaults::fill(object);
    }
    Ok(())
}

/// Converts an object to the storage version. Its schema may contain fewer fields and other defaults.
pub(crate) fn draft(kind: &Kind, object: &Object, owners: &Managers) -> Draft {
    let Some(schemas) = kind.schemas.as_ref().filter(|schemas| !schemas.is_storage()) else {
        return Draft::with_managers(kind, object, owners);
    };
    let mut object = object.clone();
    let _ = schemas.storage.read(&mut object);
    schemas.storage.fill(&mut object);
    Draft::with_managers(kind, &object, owners)
}

/// Validates a new object.
///
/// # Errors
/// Returns 422 with all causes.
pub(crate) fn check_new(kind: &Kind, object: &Object) -> Result<(), Status> {
    if kind.is_crd() {
        return reject(kind, object, crate::schemas::crd::check::new(object));
    }
    let Some(schemas) = &kind.schemas else { return Ok(()) };
    let mut causes = schemas.own.validate(Scope::Object, object, None, &mut Vec::new());
    causes.extend(check_scale(kind, Scope::Object, object));
    reject(kind, object, causes)
}

/// Validates an update of `part`.
///
/// # Errors
/// Returns 422 with all causes.
pub(crate) fn check_update(
    kind: &Kind,
    part: Part,
    before: &Object,
    after: &mut Object,
    options: &WriteOptions,
) -> Result<(), Status> {
    if kind.is_crd() && part == Part::Main {
        crate::schemas::crd::defaults::add_stored_version(after);
        return reject(kind, after, crate::schemas::crd::check::update(before, after));
    }
    let Some(schemas) = &kind.schemas else { return Ok(()) };
    let scope = if part == Part::Status { Scope::Status } else { Scope::Object };
    let mut warnings = Vec::new();
    let mut causes = schemas.own.validate(scope, after, Some(before), &mut warnings);
    options.warnings.add(warnings);
    causes.extend(check_scale(kind, scope, after));
    reject(kind, after, causes)
}

fn check_scale(kind: &Kind, scope: Scope, object: &Object) -> Vec<Cause> {
    let paths = kind.scale.as_ref();
    paths.map(|paths| scale::check(object, paths, scope == Scope::Object)).unwrap_or_default()
}

fn reject(kind: &Kind, object: &Object, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(kind.named_kind(), meta(object, "name"), causes))
}
