//! The three moments of a write at which CRDs and custom resources need more than other kinds: when the object is
//! read, when it is checked, and when it is stored.

use crate::crd::scale;
use crate::crd::schema::Scope;
use crate::kinds::kind::Kind;
use crate::status::{Cause, Status};
use crate::storage::entry::{Change, Draft, Entry};
use crate::write::decode::meta;
use crate::write::strict::{judge, read_typed, unreadable};
use crate::write::{Object, Part, Via, WriteOptions};

/// Reads an object: unknown fields go or are refused, defaults come.
///
/// # Errors
/// The refusal of what can't be read, or is to be taken strictly.
pub(crate) fn read(kind: &Kind, via: Via, object: &mut Object, options: &WriteOptions) -> Result<(), Status> {
    if let Some(schemas) = &kind.schemas {
        let sent = object.clone();
        let unknown = schemas.own.read(object).map_err(|why| unreadable(kind, via, &sent, &why))?;
        judge(kind, via, &sent, unknown, options)?;
        schemas.own.fill(object);
    } else {
        read_typed(kind, via, object, options)?;
    }
    if kind.is_crd() {
        crate::crd::defaults::fill(object);
    }
    Ok(())
}

/// An object as a read from the store gives it: in the version of `kind`, which may know less of it.
pub(crate) fn from_store(kind: &Kind, object: &mut Object) {
    if let Some(schemas) = kind.schemas.as_ref().filter(|schemas| !schemas.is_storage()) {
        // What can't be read was refused when it was written.
        let _ = schemas.own.read(object);
    }
}

/// An object as it goes into the store, whose version may know less of it, and has defaults of its own.
pub(crate) fn draft(kind: &Kind, object: &Object) -> Draft {
    let Some(schemas) = kind.schemas.as_ref().filter(|schemas| !schemas.is_storage()) else {
        return Draft::new(kind, object);
    };
    let mut object = object.clone();
    let _ = schemas.storage.read(&mut object);
    schemas.storage.fill(&mut object);
    Draft::new(kind, &object)
}

/// What stands after kind and apiVersion in an object that is stored in another version; `None` where both have it
/// the same way.
pub(crate) fn converted(kind: &Kind, entry: &Entry) -> Option<Vec<u8>> {
    kind.schemas.as_ref().filter(|schemas| !schemas.is_storage())?;
    let mut object = entry.object();
    from_store(kind, &mut object);
    Some(Draft::new(kind, &object).seal(Change::Modified, entry.revision).rest().to_vec())
}

/// Checks a new object.
///
/// # Errors
/// 422 with all that is wrong.
pub(crate) fn check_new(kind: &Kind, object: &Object, options: &WriteOptions) -> Result<(), Status> {
    if kind.is_crd() {
        options.warnings.say(crate::crd::check::warnings(object, None));
        return refuse(kind, object, crate::crd::check::new(object));
    }
    let Some(schemas) = &kind.schemas else { return Ok(()) };
    let mut causes = schemas.own.complaints(Scope::Whole, object, None);
    causes.extend(of_scale(kind, Scope::Whole, object));
    refuse(kind, object, causes)
}

/// Checks an update of `part`.
///
/// # Errors
/// 422 with all that is wrong.
pub(crate) fn check_update(
    kind: &Kind,
    part: Part,
    before: &Object,
    after: &mut Object,
    options: &WriteOptions,
) -> Result<(), Status> {
    if kind.is_crd() && part == Part::Main {
        crate::crd::defaults::note_storage_version(after);
        options.warnings.say(crate::crd::check::warnings(after, Some(before)));
        return refuse(kind, after, crate::crd::check::update(before, after));
    }
    let Some(schemas) = &kind.schemas else { return Ok(()) };
    let scope = if part == Part::Status { Scope::Status } else { Scope::Whole };
    let mut causes = schemas.own.complaints(scope, after, Some(before));
    causes.extend(of_scale(kind, scope, after));
    refuse(kind, after, causes)
}

fn of_scale(kind: &Kind, scope: Scope, object: &Object) -> Vec<Cause> {
    let paths = kind.scale.as_ref();
    paths.map(|paths| scale::complaints(object, paths, scope == Scope::Whole)).unwrap_or_default()
}

fn refuse(kind: &Kind, object: &Object, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(kind.named_kind(), meta(object, "name"), causes))
}
