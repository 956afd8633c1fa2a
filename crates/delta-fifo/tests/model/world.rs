//! Models a cache without a queue. Each write returns its events.

use std::{collections::BTreeMap, sync::Arc};

use kube_object::{Entry, Event, ObjectId, ObjectKey, Removal, ResourceVersion, Uid};

/// Creates an entry with a new object. Two entries are equal only if they share the object.
pub(crate) fn entry(key: usize, uid: u64, version: u64) -> Entry<()> {
    let id = ObjectId {
        key: ObjectKey::new(Some("test"), &format!("object-{key}")),
        uid: Uid::new(&format!("uid-{uid}")),
        version: ResourceVersion::from(version),
    };
    Entry::new(id, Arc::new(()))
}

/// The effect of one write on one key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Change {
    /// An Add or an Update.
    Put,
    Delete {
        removal: Removal,
    },
    /// The same name with another uid: a Delete and an Add in one write.
    Recreate,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) alive: BTreeMap<ObjectKey, Entry<()>>,
    /// The version of the last write.
    pub(crate) clock: u64,
    /// The last uid of each key.
    uids: BTreeMap<usize, u64>,
}

impl World {
    pub(crate) fn apply(&mut self, key: usize, change: Change, initial: bool) -> Vec<Event<()>> {
        match change {
            Change::Put => vec![self.put(key, initial)],
            Change::Delete { removal } => self.delete(key, removal).into_iter().collect(),
            Change::Recreate => {
                self.delete(key, Removal::Deleted).into_iter().chain([self.put(key, initial)]).collect()
            }
        }
    }

    fn put(&mut self, key: usize, initial: bool) -> Event<()> {
        self.clock += 1;
        let new = entry(key, *self.uids.entry(key).or_default(), self.clock);
        match self.alive.insert(new.key().clone(), new.clone()) {
            Some(old) => Event::Updated { old, new },
            None => Event::Added { object: new, initial },
        }
    }

    fn delete(&mut self, key: usize, removal: Removal) -> Option<Event<()>> {
        let last = self.alive.remove(entry(key, 0, 1).key())?;
        *self.uids.entry(key).or_default() += 1;
        Some(Event::Deleted { last, removal })
    }
}
