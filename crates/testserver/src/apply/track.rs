//! The owners of fields after a CREATE, an UPDATE, or a PATCH other than an apply.

use serde_json::Value;

use crate::apply::managers::{self, Manager, Managers, Operation};
use crate::apply::{diff, reset};
use crate::kinds::events;
use crate::kinds::kind::Kind;
use crate::state::Shared;
use crate::write::decode::metadata_mut;
use crate::write::{Mode, Object, Part, WriteOptions};

pub(crate) const KEY: &str = "managedFields";

/// The properties of a write that determine ownership.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub kind: &'a Kind,
    pub part: Part,
    /// The field manager. Empty if the request does not set it.
    pub manager: &'a str,
    /// The time of the write, for the entry of the manager.
    pub now: &'a str,
}

impl Write<'_> {
    pub(crate) fn manager(&self, operation: Operation) -> Manager {
        Manager {
            name: if self.manager.is_empty() { "unknown".into() } else { self.manager.into() },
            operation,
            api_version: self.kind.api_version(),
            subresource: reset::subresource(self.part).into(),
        }
    }
}

/// Sets the owners of a new object. An apply has already set them.
pub(crate) fn created(shared: &Shared, kind: &Kind, options: &WriteOptions, object: &mut Object) {
    if options.operation == Operation::Apply {
        return;
    }
    let sent = metadata_mut(object).remove(KEY);
    let Some(mut owners) = owners(Part::Main, None, sent) else { return };
    if owners.is_empty() && !shared.config.field_ownership {
        return;
    }
    let now = shared.config.clock.timestamp(0);
    let write = Write { kind, part: Part::Main, manager: &options.manager, now: &now };
    update(write, None, object, &mut owners);
    put(object, owners);
}

/// Sets the owners after the server itself wrote the status, like the real server.
pub(crate) fn status_by_the_server(shared: &Shared, kind: &Kind, before: &Object, after: &mut Object) {
    let now = shared.config.clock.timestamp(0);
    track(Write { kind, part: Part::Status, manager: "kube-apiserver", now: &now }, before, after);
}

/// Returns the owners that an apply has computed, for [`updated`].
pub(crate) fn owners_of_apply(mode: &Mode, after: &Object) -> Option<Value> {
    match mode.options.operation {
        Operation::Apply => managed_fields(after).cloned(),
        Operation::Update => None,
    }
}

/// Sets the owners of `after` before it is stored.
pub(crate) fn updated(
    shared: &Shared,
    kind: &Kind,
    mode: &Mode,
    before: &Object,
    after: &mut Object,
    applied: Option<Value>,
) {
    match (mode.part, mode.options.operation) {
        // The server itself executes bindings and evictions, so no manager owns these changes.
        (Part::Binding | Part::Eviction, _) => return,
        (_, Operation::Apply) => {
            let metadata = metadata_mut(after);
            metadata.remove(KEY);
            if let Some(applied) = applied {
                metadata.insert(KEY.into(), applied);
            }
        }
        (_, Operation::Update) => {
            let now = shared.config.clock.timestamp(0);
            track(Write { kind, part: mode.part, manager: &mode.options.manager, now: &now }, before, after);
        }
    }
    keep_times(before, after);
}

fn track(write: Write<'_>, before: &Object, after: &mut Object) {
    let sent = metadata_mut(after).remove(KEY);
    let Some(mut owners) = owners(write.part, managed_fields(before), sent) else { return };
    // Without owners, the object was never tracked, or its managers were reset.
    if !owners.is_empty() {
        update(write, Some(before), after, &mut owners);
        put(after, owners);
    }
}

fn put(object: &mut Object, owners: Managers) {
    if let Some(value) = owners.into_value() {
        metadata_mut(object).insert(KEY.into(), value);
    }
}

/// Returns the current owners. A client may replace them with the object, but not through a
/// subresource. Returns `None` if the client resets them.
fn owners(part: Part, live: Option<&Value>, sent: Option<Value>) -> Option<Managers> {
    if part == Part::Main
        && let Some(sent) = sent
    {
        if managers::is_reset(&sent) {
            return None;
        }
        if Some(&sent) == live {
            return Managers::stored(sent).or_else(|| Some(Managers::default()));
        }
        if let Some(owners) = Managers::read(sent).filter(|owners| !owners.is_empty()) {
            return Some(owners);
        }
    }
    Some(live.cloned().and_then(Managers::stored).unwrap_or_default())
}

/// Adds the changed fields to the writer, and removes them from all other managers.
pub(crate) fn update(write: Write<'_>, before: Option<&Object>, after: &Object, owners: &mut Managers) {
    let schema = &write.kind.merging;
    let changes = match before {
        Some(before) => diff::changes(schema, before, after),
        None => {
            let nothing = events::inside(write.kind, crate::types::nothing(write.kind));
            diff::changes(schema, &nothing, after)
        }
    };
    let (mut written, mut removed) = (changes.written, changes.removed);
    let unchanged_fields = reset::unchanged_fields(write.kind, write.part);
    written.subtract_all_below(&unchanged_fields);
    removed.subtract_all_below(&unchanged_fields);
    if before.is_none() {
        written.subtract_all_below(&reset::made_by_the_server(write.kind));
    }
    written.subtract(&reset::NEVER_OWNED);
    owners.remove_fields(&removed);
    if !written.is_empty() {
        owners.remove_fields(&written);
        owners.add_fields(write.manager(Operation::Update), written, write.now);
    }
    owners.cap_updaters();
}

/// Returns the `managedFields` of an object.
pub(crate) fn managed_fields(object: &Object) -> Option<&Value> {
    object.get("metadata")?.get(KEY)
}

/// Keeps the previous times if a write changed only the times of the owners.
pub(crate) fn keep_times(before: &Object, after: &mut Object) {
    let (old, new) = (managed_fields(before), managed_fields(after));
    if old == new || !is_same(before, after) || !managers::same_but_for_times(old, new) {
        return;
    }
    if let Some(old) = old.cloned() {
        metadata_mut(after).insert(KEY.into(), old);
    }
}

/// Returns whether two states of an object are equal except for the owners.
pub(crate) fn is_same(before: &Object, after: &Object) -> bool {
    before.len() == after.len()
        && before.iter().all(|(name, old)| match after.get(name) {
            Some(new) if name == "metadata" => managers::same_but_for(old, new, KEY),
            new => new == Some(old),
        })
}
