//! The changes between the state of a file and the first list.

use std::collections::BTreeMap;

use kube_informer::{Entry, ObjectId, ObjectKey, ResourceVersion, Uid, is_sensitive};
use serde_json::Value;

use super::{
    record::{EventRecord, EventType, Origin},
    state_file::{self, StateFile},
};
use crate::{
    changes::{Pattern, changes},
    error::CliError,
    feed::{CachedObject, Target, object_value},
};

/// The objects of the first list of a target.
pub(super) type Listed = BTreeMap<ObjectKey, Entry<CachedObject>>;

/// Calls `print` with an event for each object that was added, updated or deleted since the file was written.
///
/// # Errors
///
/// Fails if the file is damaged, or with an error of `print`.
pub(super) fn missed(
    file: &StateFile,
    target: &Target,
    mut listed: Listed,
    only: &[Pattern],
    mut print: impl FnMut(EventRecord) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let record = |id: &ObjectId, event| EventRecord::new(target, id, event, Origin::Missed);
    file.objects(target, |old| {
        let id = id_of(&old);
        let Some(entry) = listed.remove(&id.key) else { return print(record(&id, EventType::Deleted)) };
        if entry.id.uid.differs_from(&id.uid) {
            print(record(&id, EventType::Deleted))?;
            return print(record(&entry.id, EventType::Added));
        }
        if entry.id.version == id.version {
            return Ok(());
        }
        let changes = state_file::readable(&old).and_then(|old| {
            let mut new = object_value(&entry.object)?;
            file.hashed(target, &mut new);
            Ok(changes(is_sensitive(&target.resource.kind), old, &new, only))
        });
        record(&entry.id, EventType::Updated).with_result(changes).map_or(Ok(()), &mut print)
    })?;
    listed.into_values().try_for_each(|entry| print(record(&entry.id, EventType::Added)))
}

fn id_of(object: &Value) -> ObjectId {
    let text = |name: &str| object["metadata"][name].as_str();
    ObjectId {
        key: ObjectKey::new(text("namespace"), text("name").unwrap_or_default()),
        uid: Uid::new(text("uid").unwrap_or_default()),
        version: ResourceVersion::new(text("resourceVersion").unwrap_or_default()),
    }
}
