//! Custom resources in a version other than the storage version.

use crate::schemas::kinds::kind::Kind;
use crate::storage::entry::{Change, Draft, Entry};
use crate::wire::object::Object;

/// Converts a stored object to the version of `kind`. A conversion webhook must have converted the entry
/// before. Otherwise, the content stays, but the schema of the version may contain fewer fields.
pub(crate) fn from_store(kind: &Kind, entry: &Entry, mut object: Object) -> Object {
    if kind.conversion_webhook().is_some()
        && let Some(converted) = entry.converted(&kind.version)
    {
        object = converted;
    }
    object.insert("apiVersion".into(), kind.api_version().into());
    if let Some(schemas) = kind.schemas.as_ref().filter(|_| is_converted(kind)) {
        // Cannot fail, because writes reject undecodable objects.
        let _ = schemas.own.read(&mut object);
    }
    object
}

fn is_converted(kind: &Kind) -> bool {
    let differs = kind.schemas.as_ref().is_some_and(|schemas| !schemas.is_storage());
    differs || kind.conversion_webhook().is_some()
}

/// Returns the content after kind and apiVersion of an object that is stored in another version.
/// Returns `None` if both versions have the same schema.
pub(crate) fn converted(kind: &Kind, entry: &Entry) -> Option<Vec<u8>> {
    let object = is_converted(kind).then(|| from_store(kind, entry, entry.object()))?;
    Some(Draft::new(kind, &object).seal(Change::Modified, entry.revision).rest().to_vec())
}
