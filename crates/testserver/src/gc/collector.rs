//! The decisions of the garbage collector for objects whose owners or dependents have changed.
//!
//! The collector takes objects from a queue until the queue is empty. It terminates, because each step
//! removes an object, marks an object once, or removes references or finalizers. An object returns to
//! the queue only after a change.

use std::sync::Arc;

use serde_json::Value;

use crate::state::graph::{Collector, Node, Owner, Stage, Uid};
use crate::state::{Served, Shared, State};
use crate::storage::entry::Entry;
use crate::storage::log::{StoreChange, TableId, key};
use crate::wire::object::{FOREGROUND, ORPHAN};
use crate::write::delete;
use crate::write::delete_options::{DeleteOptions, Dependents, Propagation};
use crate::write::{Object, Target};

#[derive(Default)]
struct Owners {
    existing: usize,
    /// Owners that do not exist, or whose name belongs to another object.
    missing: Vec<Uid>,
    waiting: Vec<Uid>,
}

impl Collector {
    pub(crate) fn run(&mut self, state: &mut State, shared: &Shared) {
        loop {
            self.observe(state);
            let Some(uid) = self.queue.pop_front() else { return };
            let Some(node) = self.graph.get(&uid).cloned() else { continue };
            let Some((target, entry)) = find(state, &node) else { continue };
            match node.stage {
                Stage::Ending => {}
                Stage::Alive => self.check_owners(state, shared, &uid, &node, &target, &entry),
                Stage::Orphaning => self.orphan(state, &uid, &target, &entry),
                Stage::Waiting => self.wait(state, &uid, &target, &entry),
            }
        }
    }

    /// Updates the graph and the queue from the changes of the store.
    fn observe(&mut self, state: &mut State) {
        for change in state.store.take_changes() {
            match change {
                StoreChange::Put(table, entry) => self.queue.extend(self.graph.put(table, &entry)),
                StoreChange::Removed(entry) => self.queue.extend(self.graph.remove(&entry.essentials.uid)),
                StoreChange::Everything => self.start_again(state),
            }
        }
    }

    fn start_again(&mut self, state: &State) {
        *self = Self::default();
        let tables: Vec<TableId> = state.registry.tables().map(|served| served.table).collect();
        for table in tables {
            for entry in state.store.table(table).objects().values() {
                self.queue.extend(self.graph.put(table, entry));
            }
        }
    }

    /// Checks an object that is not being deleted. The object stays while one of its owners exists.
    fn check_owners(
        &mut self,
        state: &mut State,
        shared: &Shared,
        uid: &str,
        node: &Node,
        target: &Target,
        entry: &Arc<Entry>,
    ) {
        let Some(owners) = self.classify(state, node, target) else { return };
        if owners.existing > 0 {
            let removed: Vec<Uid> = owners.missing.into_iter().chain(owners.waiting).collect();
            if !removed.is_empty() {
                let object = without_owners(entry.object(), &removed);
                delete::release(state, target, entry, &object);
            }
            return;
        }
        let mut dependents = self.graph.dependents(uid).peekable();
        if owners.waiting.is_empty() || dependents.peek().is_none() {
            collect(state, shared, target, entry, Dependents::Unspecified);
            return;
        }
        // Owners in a cycle would wait for each other indefinitely.
        let circular = dependents
            .any(|dependent| self.graph.get(dependent).is_some_and(|node| node.stage == Stage::Waiting));
        if circular && node.owners.iter().any(|owner| owner.blocks) {
            delete::release(state, target, entry, &unblocked(entry.object()));
            self.queue.push_back(uid.into());
            return;
        }
        collect(state, shared, target, entry, Dependents::Policy(Propagation::Foreground));
    }

    /// Returns the owners of an object by their state. Returns `None` if the object has no owners, or
    /// if the collector cannot find an owner. The kind of such an owner is unknown and its deletion was not
    /// observed, or the owner is namespaced and the object is not.
    fn classify(&self, state: &State, node: &Node, target: &Target) -> Option<Owners> {
        let mut owners = Owners::default();
        for owner in &node.owners {
            match self.owner_state(state, owner, target)? {
                OwnerState::Existing => owners.existing += 1,
                OwnerState::Missing => owners.missing.push(owner.uid.clone()),
                OwnerState::Waiting => owners.waiting.push(owner.uid.clone()),
            }
        }
        (!node.owners.is_empty()).then_some(owners)
    }

    fn owner_state(&self, state: &State, owner: &Owner, target: &Target) -> Option<OwnerState> {
        let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
        let mut resources = state.registry.resources(group, version).into_iter().flat_map(|all| all.values());
        let Some(served) = resources.find(|served| served.kind.kind == owner.kind) else {
            // The objects of a deleted CRD are removed before their dependents are checked.
            return self.graph.was_removed(&owner.uid).then_some(OwnerState::Missing);
        };
        let namespace = match (served.kind.rules.namespaced, &target.namespace) {
            (true, None) => return None,
            (true, Some(namespace)) => Some(namespace.as_str()),
            (false, _) => None,
        };
        let found = state.store.table(served.table).get(&key(namespace, &owner.name));
        if found.is_none_or(|entry| entry.essentials.uid != owner.uid) {
            return Some(OwnerState::Missing);
        }
        let waiting = self.graph.get(&owner.uid).is_some_and(|node| node.stage == Stage::Waiting);
        Some(if waiting { OwnerState::Waiting } else { OwnerState::Existing })
    }

    /// Removes the owner reference from all dependents, and then the finalizer of the object.
    fn orphan(&mut self, state: &mut State, uid: &str, target: &Target, entry: &Arc<Entry>) {
        let removed = [Uid::from(uid)];
        let dependents: Vec<Node> =
            self.graph.dependents(uid).filter_map(|dependent| self.graph.get(dependent)).cloned().collect();
        for dependent in dependents {
            if let Some((target, entry)) = find(state, &dependent) {
                let object = without_owners(entry.object(), &removed);
                delete::release(state, &target, &entry, &object);
            }
        }
        delete::release(state, target, entry, &without_finalizer(entry.object(), ORPHAN));
    }

    /// Removes the finalizer of the object if no dependent blocks its deletion.
    fn wait(&mut self, state: &mut State, uid: &str, target: &Target, entry: &Arc<Entry>) {
        let blocks = |node: &&Node| node.owners.iter().any(|owner| owner.blocks && *owner.uid == *uid);
        let blocked =
            self.graph.dependents(uid).filter_map(|dependent| self.graph.get(dependent)).any(|n| blocks(&n));
        if !blocked {
            delete::release(state, target, entry, &without_finalizer(entry.object(), FOREGROUND));
        }
    }
}

enum OwnerState {
    Existing,
    Missing,
    Waiting,
}

/// Returns the current object of a node. Returns `None` if its kind is not served.
fn find(state: &State, node: &Node) -> Option<(Target, Arc<Entry>)> {
    let served: Served = state.registry.tables().find(|served| served.table == node.table)?.clone();
    let entry = state.store.table(node.table).get(&node.key)?.clone();
    let namespace = entry.essentials.namespace.as_deref().map(Into::into);
    let name = entry.essentials.name.to_string();
    Some((Target { served, namespace, name }, entry))
}

/// Deletes an object without remaining owners. An object that must not be deleted stays.
fn collect(state: &mut State, shared: &Shared, target: &Target, entry: &Arc<Entry>, dependents: Dependents) {
    let dependents = match dependents {
        Dependents::Unspecified => Dependents::Policy(policy_of_finalizers(&entry.object())),
        policy => policy,
    };
    let options = DeleteOptions { dependents, ..DeleteOptions::default() };
    if let Err(status) = delete::within(state, shared, target, entry, &options) {
        tracing::debug!(name = %target.name, %status, "cannot delete an object whose owners no longer exist; the object stays");
    }
}

fn policy_of_finalizers(object: &Object) -> Propagation {
    let finalizers = crate::wire::object::finalizers(object);
    if finalizers.contains(&ORPHAN) {
        Propagation::Orphan
    } else if finalizers.contains(&FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

fn retain_in_metadata_list(object: &mut Object, list: &str, keep: impl Fn(&Value) -> bool) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if let Some(values) = metadata.get_mut(list).and_then(Value::as_array_mut) {
        values.retain(keep);
        if values.is_empty() {
            metadata.remove(list);
        }
    }
}

fn without_owners(mut object: Object, removed: &[Uid]) -> Object {
    let is_removed = |owner: &Value| removed.iter().any(|uid| owner["uid"].as_str() == Some(&**uid));
    retain_in_metadata_list(&mut object, "ownerReferences", |owner| !is_removed(owner));
    object
}

fn without_finalizer(mut object: Object, finalizer: &str) -> Object {
    retain_in_metadata_list(&mut object, "finalizers", |other| other != finalizer);
    object
}

fn unblocked(mut object: Object) -> Object {
    let owners = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("ownerReferences"));
    for owner in owners.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        if owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true) {
            owner.insert("blockOwnerDeletion".into(), false.into());
        }
    }
    object
}
