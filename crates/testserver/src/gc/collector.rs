//! What becomes of each object whose owners or dependents have changed: the decisions of Kubernetes' garbage collector.
//!
//! One object after the other is looked at, from a queue, until nothing is left to look at. That ends: every step removes
//! an object, marks it once, or takes references or finalizers away, and nothing is looked at again before it changed.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::graph::{Graph, Node, Owner, Stage, Uid};
use crate::state::{Served, Shared, State};
use crate::storage::entry::Entry;
use crate::storage::log::{StoreChange, TableId, key};
use crate::write::delete::{self, FOREGROUND, ORPHAN};
use crate::write::delete_options::{DeleteOptions, Dependents, Propagation};
use crate::write::{Object, Target};

/// The graph of owners and what is still to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    graph: Graph,
    queue: VecDeque<Uid>,
}

/// An object's owners, by what is left of them.
#[derive(Default)]
struct Owners {
    solid: usize,
    /// Absent, or another object under the same name.
    dangling: Vec<Uid>,
    /// Being deleted in the foreground.
    waiting: Vec<Uid>,
}

impl Collector {
    pub(super) fn run(&mut self, state: &mut State, shared: &Shared) {
        loop {
            self.observe(state);
            let Some(uid) = self.queue.pop_front() else { return };
            let Some(node) = self.graph.get(&uid).cloned() else { continue };
            let Some((target, entry)) = find(state, &node) else { continue };
            match node.stage {
                Stage::Ending => {}
                Stage::Alive => self.judge(state, shared, &uid, &node, &target, &entry),
                Stage::Orphaning => self.orphan(state, &uid, &target, &entry),
                Stage::Waiting => self.wait(state, &uid, &target, &entry),
            }
        }
    }

    /// Takes up what has changed.
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

    /// Decides about an object that nobody deletes: it stays while one of its owners does.
    fn judge(
        &mut self,
        state: &mut State,
        shared: &Shared,
        uid: &str,
        node: &Node,
        target: &Target,
        entry: &Arc<Entry>,
    ) {
        let Some(owners) = self.classify(state, node, target) else { return };
        if owners.solid > 0 {
            let gone: Vec<Uid> = owners.dangling.into_iter().chain(owners.waiting).collect();
            if !gone.is_empty() {
                let object = without_owners(entry.object(), &gone);
                delete::release(state, target, entry, &object);
            }
            return;
        }
        let mut dependents = self.graph.dependents(uid).peekable();
        if owners.waiting.is_empty() || dependents.peek().is_none() {
            collect(state, shared, target, entry, Dependents::Unsaid);
            return;
        }
        // Owners in a circle would wait for each other for ever.
        let circular = dependents
            .any(|dependent| self.graph.get(dependent).is_some_and(|node| node.stage == Stage::Waiting));
        if circular && node.owners.iter().any(|owner| owner.blocks) {
            delete::release(state, target, entry, &unblocked(entry.object()));
            self.queue.push_back(uid.into());
            return;
        }
        collect(state, shared, target, entry, Dependents::Policy(Propagation::Foreground));
    }

    /// What is left of an object's owners. `None` where it has none, or where one can't be asked for: of an unknown kind,
    /// or within a namespace while the object is in none.
    fn classify(&self, state: &State, node: &Node, target: &Target) -> Option<Owners> {
        let mut owners = Owners::default();
        for owner in &node.owners {
            match self.standing(state, owner, target)? {
                Standing::Solid => owners.solid += 1,
                Standing::Dangling => owners.dangling.push(owner.uid.clone()),
                Standing::Waiting => owners.waiting.push(owner.uid.clone()),
            }
        }
        (!node.owners.is_empty()).then_some(owners)
    }

    fn standing(&self, state: &State, owner: &Owner, target: &Target) -> Option<Standing> {
        let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
        let mut resources = state.registry.resources(group, version)?.values();
        let served = resources.find(|served| served.kind.kind == owner.kind)?;
        let namespace = match (served.kind.rules.namespaced, &target.namespace) {
            (true, None) => return None,
            (true, Some(namespace)) => Some(namespace.as_str()),
            (false, _) => None,
        };
        let found = state.store.table(served.table).get(&key(namespace, &owner.name));
        if found.is_none_or(|entry| entry.essentials.uid != owner.uid) {
            return Some(Standing::Dangling);
        }
        let waiting = self.graph.get(&owner.uid).is_some_and(|node| node.stage == Stage::Waiting);
        Some(if waiting { Standing::Waiting } else { Standing::Solid })
    }

    /// Takes the object off its dependents' owners, then lets it go.
    fn orphan(&mut self, state: &mut State, uid: &str, target: &Target, entry: &Arc<Entry>) {
        let gone = [Uid::from(uid)];
        let dependents: Vec<Node> =
            self.graph.dependents(uid).filter_map(|dependent| self.graph.get(dependent)).cloned().collect();
        for dependent in dependents {
            if let Some((target, entry)) = find(state, &dependent) {
                let object = without_owners(entry.object(), &gone);
                delete::release(state, &target, &entry, &object);
            }
        }
        delete::release(state, target, entry, &without_finalizer(entry.object(), ORPHAN));
    }

    /// Lets the object go once no dependent is left that it waits for.
    fn wait(&mut self, state: &mut State, uid: &str, target: &Target, entry: &Arc<Entry>) {
        let blocks = |node: &&Node| node.owners.iter().any(|owner| owner.blocks && *owner.uid == *uid);
        let blocked =
            self.graph.dependents(uid).filter_map(|dependent| self.graph.get(dependent)).any(|n| blocks(&n));
        if !blocked {
            delete::release(state, target, entry, &without_finalizer(entry.object(), FOREGROUND));
        }
    }
}

enum Standing {
    Solid,
    Dangling,
    Waiting,
}

/// The object of a node as it is now, and where it is. `None` where its kind is not served.
fn find(state: &State, node: &Node) -> Option<(Target, Arc<Entry>)> {
    let served: Served = state.registry.tables().find(|served| served.table == node.table)?.clone();
    let entry = state.store.table(node.table).get(&node.key)?.clone();
    let namespace = entry.essentials.namespace.as_deref().map(Into::into);
    let name = entry.essentials.name.to_string();
    Some((Target { served, namespace, name }, entry))
}

/// Deletes an object that has lost its owners. What may not be deleted stays.
fn collect(state: &mut State, shared: &Shared, target: &Target, entry: &Arc<Entry>, dependents: Dependents) {
    let dependents = match dependents {
        Dependents::Unsaid => Dependents::Policy(kept_policy(&entry.object())),
        said => said,
    };
    let options = DeleteOptions { dependents, ..DeleteOptions::default() };
    if let Err(status) = delete::within(state, shared, target, entry, &options) {
        tracing::debug!(name = %target.name, %status, "an object without owners was kept");
    }
}

/// The policy that an object's finalizers already say.
fn kept_policy(object: &Object) -> Propagation {
    let finalizers = crate::write::decode::finalizers(object);
    match () {
        () if finalizers.contains(&ORPHAN) => Propagation::Orphan,
        () if finalizers.contains(&FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    }
}

fn metadata_list(object: &mut Object, list: &str, keep: impl Fn(&Value) -> bool) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if let Some(values) = metadata.get_mut(list).and_then(Value::as_array_mut) {
        values.retain(keep);
        if values.is_empty() {
            metadata.remove(list);
        }
    }
}

fn without_owners(mut object: Object, gone: &[Uid]) -> Object {
    let is_gone = |owner: &Value| gone.iter().any(|uid| owner["uid"].as_str() == Some(&**uid));
    metadata_list(&mut object, "ownerReferences", |owner| !is_gone(owner));
    object
}

fn without_finalizer(mut object: Object, finalizer: &str) -> Object {
    metadata_list(&mut object, "finalizers", |held| held != finalizer);
    object
}

/// The object, holding up none of its owners.
fn unblocked(mut object: Object) -> Object {
    let owners = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("ownerReferences"));
    for owner in owners.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        if owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true) {
            owner.insert("blockOwnerDeletion".into(), false.into());
        }
    }
    object
}
