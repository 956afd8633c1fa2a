//! The objects of the explorer: their state is a few numbers.

use std::sync::Arc;

use kube_listwatch::Decoded;
use kube_object::{
    Digest, Entry, Event, Object as Cacheable, ObjectId, ObjectIdRef, ObjectKey, ResourceVersion, Uid,
};

use crate::properties::{self, Object};

/// The names of the objects, in the order of their keys.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// An object that contains only the number of its state.
pub struct TestObject(pub Object);

impl Cacheable for TestObject {
    fn id(&self) -> ObjectIdRef<'_> {
        ObjectIdRef::new(None, name(self.0.key), "", "")
    }

    fn label(&self, _: &str) -> Option<&str> {
        None
    }
}

/// The name under this number.
pub(super) fn name(key: properties::Key) -> &'static str {
    NAMES[key as usize % NAMES.len()]
}

/// The number of a name.
pub(super) fn number(key: &ObjectKey) -> properties::Key {
    NAMES.iter().position(|name| *name == key.name()).unwrap_or_default() as properties::Key
}

/// The number of a uid.
pub(super) fn uid_number(uid: &Uid) -> u64 {
    uid.to_string()
        .rsplit('-')
        .next()
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .unwrap_or_default()
}

/// The identity under which the server sends this state.
pub(super) fn id(object: &Object, version: ResourceVersion) -> ObjectId {
    ObjectId {
        key: ObjectKey::new(None, name(object.key)),
        uid: Uid::new(&format!("00000000-0000-0000-0000-{:012x}", object.uid)),
        version,
    }
}

/// No two writes write the same value.
pub(super) fn digest(object: &Object) -> Digest {
    Digest::new(object.value)
}

/// The state, decoded.
pub(super) fn decoded(object: Object, id: ObjectId) -> Entry<TestObject> {
    Entry::new(id, Arc::new(TestObject(object))).with_digest(digest(&object))
}

/// The object without its name.
pub(super) fn without_name(object: &Decoded<TestObject>) -> Decoded<TestObject> {
    let id = ObjectId { key: ObjectKey::new(None, ""), ..object.id().clone() };
    match object {
        Decoded::Object(entry) => Decoded::Object(Entry { id, ..entry.clone() }),
        Decoded::Undecodable { error, .. } => Decoded::Undecodable { id, error: error.clone() },
    }
}

/// A change as the properties see it.
pub(super) fn seen(event: &Event<TestObject>) -> properties::Event {
    match event {
        Event::Added { object, initial } => properties::Event::Added { object: object.0, initial: *initial },
        Event::Updated { old, new } => properties::Event::Updated { old: old.0, new: new.0 },
        Event::Deleted { last, removal } => properties::Event::Deleted { last: last.0, removal: *removal },
    }
}
