//! A small object for tests, and constructors of deltas.

use std::sync::Arc;

use kube_object::{Delta, Entry, Object, ObjectId, ObjectIdRef, ObjectKey, ResourceVersion};

/// An object with a label and any number of index values.
#[derive(Debug)]
pub(crate) struct Thing {
    pub(crate) id: ObjectId,
    pub(crate) values: Vec<u8>,
}

impl Object for Thing {
    fn id(&self) -> ObjectIdRef<'_> {
        self.id.as_id()
    }

    fn label(&self, name: &str) -> Option<&str> {
        (name == "name").then(|| self.id.key.name())
    }
}

pub(crate) fn key(text: &str) -> ObjectKey {
    text.parse().expect("a test uses valid keys")
}

pub(crate) fn id(key_text: &str, uid: &str, version: &str) -> ObjectId {
    ObjectId { key: key(key_text), uid: uid.into(), version: ResourceVersion::new(version) }
}

pub(crate) fn thing(id: ObjectId, values: Vec<u8>) -> Entry<Thing> {
    let object = Thing { id: id.clone(), values };
    Entry::new(id, Arc::new(object))
}

pub(crate) fn begin(without_reuse: bool) -> Delta<Thing> {
    Delta::Begin { without_reuse }
}

pub(crate) fn end(version: &str, complete: bool) -> Delta<Thing> {
    Delta::End { version: version.into(), complete }
}
