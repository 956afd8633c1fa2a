//! The state of the garbage collector: the graph of owners and dependents, updated from the changes of
//! the store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::storage::entry::Entry;
use crate::storage::log::{Key, TableId};
use crate::wire::object::{FOREGROUND, ORPHAN};

pub(crate) type Uid = Box<str>;

#[derive(Debug, Default)]
pub(crate) struct Collector {
    pub graph: Graph,
    pub queue: VecDeque<Uid>,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub table: TableId,
    pub key: Key,
    pub owners: Vec<Owner>,
    pub stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: Uid,
    /// True if a foreground deletion of the owner waits for this dependent.
    pub blocks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Alive,
    /// The object is being deleted in the background.
    Ending,
    /// The object is being deleted, and its dependents stay.
    Orphaning,
    /// The object waits for the deletion of its dependents.
    Waiting,
}

#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    /// The removed objects that have dependents. Their kind may no longer be served.
    removed: BTreeSet<Uid>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Uid> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Returns whether the object was removed and still has dependents.
    pub(crate) fn was_removed(&self, uid: &str) -> bool {
        self.removed.contains(uid)
    }

    /// Adds or updates an object. Returns the uids of the objects to check.
    pub(crate) fn put(&mut self, table: TableId, entry: &Arc<Entry>) -> Vec<Uid> {
        let uid = entry.essentials.uid.clone();
        let (owners, stage) = read(entry);
        let node = Node { table, key: entry.key().clone(), owners: owners.clone(), stage };
        let old = self.nodes.insert(uid.clone(), node);
        let (old_owners, old_stage) =
            old.map_or((Vec::new(), Stage::Alive), |node| (node.owners, node.stage));
        if old_owners == owners && old_stage == stage {
            return Vec::new();
        }
        self.disown(&uid, &old_owners);
        for owner in &owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        let mut affected = vec![uid.clone()];
        if stage == Stage::Waiting {
            affected.extend(self.dependents(&uid).cloned());
        }
        affected.extend(old_owners.into_iter().chain(owners).map(|owner| owner.uid));
        affected
    }

    /// Removes an object. Returns the uids of the objects to check.
    pub(crate) fn remove(&mut self, uid: &str) -> Vec<Uid> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        self.disown(uid, &node.owners);
        let mut affected: Vec<Uid> = self.dependents(uid).cloned().collect();
        if !affected.is_empty() {
            self.removed.insert(uid.into());
        }
        affected.extend(node.owners.into_iter().map(|owner| owner.uid));
        affected
    }

    fn disown(&mut self, uid: &str, owners: &[Owner]) {
        for owner in owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                    self.removed.remove(&owner.uid);
                }
            }
        }
    }
}

/// Returns the owners and the stage of an object. Most objects have no owners and are not being
/// deleted. A search in their bytes detects this without parsing.
fn read(entry: &Entry) -> (Vec<Owner>, Stage) {
    let bytes = entry.metadata();
    let trivial = std::str::from_utf8(bytes)
        .is_ok_and(|text| !text.contains("\"ownerReferences\"") && !text.contains("\"deletionTimestamp\""));
    if trivial {
        return (Vec::new(), Stage::Alive);
    }
    // The server wrote these bytes, so they parse.
    let metadata: Map<String, Value> = serde_json::from_slice(bytes).unwrap_or_default();
    let list = |key: &str| metadata.get(key).and_then(Value::as_array).into_iter().flatten();
    let text = |owner: &Value, key: &str| owner.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let owners = list("ownerReferences").map(|owner| Owner {
        api_version: text(owner, "apiVersion"),
        kind: text(owner, "kind"),
        name: text(owner, "name"),
        uid: text(owner, "uid").into(),
        blocks: owner.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or(false),
    });
    let has_finalizer = |finalizer: &str| list("finalizers").any(|other| other == finalizer);
    let stage = if !metadata.contains_key("deletionTimestamp") {
        Stage::Alive
    } else if has_finalizer(ORPHAN) {
        Stage::Orphaning
    } else if has_finalizer(FOREGROUND) {
        Stage::Waiting
    } else {
        Stage::Ending
    };
    (owners.collect(), stage)
}
