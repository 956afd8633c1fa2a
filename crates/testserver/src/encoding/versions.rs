//! Custom resources in a version other than the storage version.

use crate::schemas::kinds::kind::Kind;
use crate::storage::entry::{Change, Draft, Entry};
use crate::wire::object::Object;

/// Converts a stored object to the version of `kind`. The schema of this version may contain fewer
/// fields.
pub(crate) fn from_store(kind: &Kind, object: &mut Object) {
    if let Some(schemas) = kind.schemas.as_ref().filter(|schemas| !schemas.is_storage()) {
        // Cannot fail, because writes reject undecodable objects.
        let _ = schemas.own.read(object);
    }
}

/// Returns the content after kind and apiVersion of an object that is stored in another version.
/// Returns `None` if both versions have the same schema.
pub(crate) fn converted(kind: &Kind, entry: &Entry) -> Option<Vec<u8>> {
    kind.schemas.as_ref().filter(|schemas| !schemas.is_storage())?;
    let mut object = entry.object();
    from_store(kind, &mut object);
    Some(Draft::new(kind, &object).seal(Change::Modified, entry.revision).rest().to_vec())
}
