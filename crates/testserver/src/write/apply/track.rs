//! The owners of fields after a CREATE, an UPDATE, or a PATCH other than an apply.

use kube_managed_fields::{Manager, Managers, Operation, is_reset};
use serde_json::Value;

use crate::schemas::kinds::events;
use crate::schemas::kinds::kind::Kind;
use crate::state::Shared;
use crate::storage::entry::Parsed;
use crate::wire::object::metadata_mut;
use crate::write::apply::reset;
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

impl<'a> Write<'a> {
    pub(crate) fn new(kind: &'a Kind, mode: &'a Mode, now: &'a str) -> Self {
        Self { kind, part: mode.part, manager: &mode.options.manager, now }
    }

    pub(crate) fn described(&self, operation: Operation) -> kube_managed_fields::Write<'_> {
        let manager = Manager {
            name: if self.manager.is_empty() { "unknown".into() } else { self.manager.into() },
            operation,
            api_version: self.kind.api_version(),
            subresource: reset::subresource(self.part).into(),
        };
        kube_managed_fields::Write {
            schema: &self.kind.merging,
            manager,
            time: self.now.into(),
            excluded: reset::unchanged_fields(self.kind, self.part),
            keeps_nulls: self.kind.rules.custom,
        }
    }
}

/// Returns the owners of a new object, and removes the owners that it contains. An apply has already set
/// them.
pub(crate) fn created(shared: &Shared, kind: &Kind, options: &WriteOptions, object: &mut Object) -> Managers {
    let sent = metadata_mut(object).remove(KEY);
    if options.operation == Operation::Apply {
        return sent.and_then(|sent| Managers::from_json(&sent)).unwrap_or_default();
    }
    let live = Managers::default();
    let Some(mut owners) = owners(Part::Main, &live, sent) else { return live };
    if owners.is_empty() && !shared.config.field_ownership {
        return live;
    }
    let now = shared.config.clock.timestamp(0);
    let write = Write { kind, part: Part::Main, manager: &options.manager, now: &now };
    update(write, None, object, &mut owners);
    owners
}

/// Sets the owners after the server itself wrote the status, like the real server.
pub(crate) fn status_by_the_server(shared: &Shared, kind: &Kind, before: &Object, after: &mut Object) {
    let now = shared.config.clock.timestamp(0);
    let live = managed_fields(before).and_then(Managers::from_json).unwrap_or_default();
    let write = Write { kind, part: Part::Status, manager: "kube-apiserver", now: &now };
    if let Some(owners) = track(write, before, after, &live).to_json() {
        metadata_mut(after).insert(KEY.into(), owners);
    }
}

pub(crate) fn owners_of_apply(mode: &Mode, after: &Object) -> Option<Value> {
    match mode.options.operation {
        Operation::Apply => managed_fields(after).cloned(),
        Operation::Update => None,
    }
}

/// Returns the owners after an update of `live`, and removes the owners that `after` contains.
pub(crate) fn updated(
    shared: &Shared,
    kind: &Kind,
    mode: &Mode,
    live: &Parsed,
    after: &mut Object,
    applied: Option<Value>,
) -> Managers {
    match (mode.part, mode.options.operation) {
        // The server itself executes bindings and evictions, so no manager owns these changes.
        (Part::Binding | Part::Eviction, _) => {
            metadata_mut(after).remove(KEY);
            live.managers.clone()
        }
        (_, Operation::Apply) => {
            metadata_mut(after).remove(KEY);
            applied.and_then(|applied| Managers::from_json(&applied)).unwrap_or_default()
        }
        (_, Operation::Update) => {
            let now = shared.config.clock.timestamp(0);
            track(Write::new(kind, mode, &now), &live.object, after, &live.managers)
        }
    }
}

fn track(write: Write<'_>, before: &Object, after: &mut Object, live: &Managers) -> Managers {
    let sent = metadata_mut(after).remove(KEY);
    let Some(mut owners) = owners(write.part, live, sent) else { return Managers::default() };
    // Without owners, the object was never tracked, or its managers were reset.
    if !owners.is_empty() {
        update(write, Some(before), after, &mut owners);
    }
    owners
}

/// Returns the current owners. A client may replace them with the object, but not through a
/// subresource. Returns `None` if the client resets them.
fn owners(part: Part, live: &Managers, sent: Option<Value>) -> Option<Managers> {
    if part == Part::Main
        && let Some(sent) = sent
    {
        if is_reset(&sent) {
            return None;
        }
        if let Some(owners) = Managers::from_json(&sent).filter(|owners| !owners.is_empty()) {
            return Some(owners);
        }
    }
    Some(live.clone())
}

/// Adds the changed fields to the writer, and removes them from all other managers.
pub(crate) fn update(write: Write<'_>, before: Option<&Object>, after: &Object, owners: &mut Managers) {
    let mut described = write.described(Operation::Update);
    match before {
        Some(before) => owners.update(&described, before, after),
        None => {
            described.excluded.add(reset::made_by_the_server(write.kind));
            let nothing = events::inside(write.kind, crate::schemas::types::nothing(write.kind));
            owners.update(&described, &nothing, after);
        }
    }
}

pub(crate) fn managed_fields(object: &Object) -> Option<&Value> {
    object.get("metadata")?.get(KEY)
}
