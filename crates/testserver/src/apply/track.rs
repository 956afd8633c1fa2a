//! Who owns what after a CREATE, an UPDATE or a PATCH that is no apply.

use serde_json::Value;

use crate::apply::managers::{self, Manager, Managers, Operation};
use crate::apply::{diff, reset};
use crate::kinds::events;
use crate::kinds::kind::Kind;
use crate::state::Shared;
use crate::write::decode::metadata_mut;
use crate::write::{Mode, Object, Part, WriteOptions};

pub(crate) const KEY: &str = "managedFields";

/// A write, as far as ownership goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub kind: &'a Kind,
    pub part: Part,
    /// Who writes; empty if nobody said.
    pub manager: &'a str,
    /// The time of the write.
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

/// Puts the owners into an object that is created. An apply has already done so.
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

/// Puts the owners into an object whose status the server itself writes, as the real one does.
pub(crate) fn status_by_the_server(shared: &Shared, kind: &Kind, before: &Object, after: &mut Object) {
    let now = shared.config.clock.timestamp(0);
    track(Write { kind, part: Part::Status, manager: "kube-apiserver", now: &now }, before, after);
}

/// The owners that an apply has computed, to be given to [`updated`].
pub(crate) fn owners_of_apply(mode: &Mode, after: &Object) -> Option<Value> {
    match mode.options.operation {
        Operation::Apply => managed_fields(after).cloned(),
        Operation::Update => None,
    }
}

/// Puts the owners into `after`, which is stored next.
pub(crate) fn updated(
    shared: &Shared,
    kind: &Kind,
    mode: &Mode,
    before: &Object,
    after: &mut Object,
    applied: Option<Value>,
) {
    match (mode.part, mode.options.operation) {
        // The server itself binds and evicts; nobody comes to own anything by that.
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
    // Nobody owned anything: the object was never tracked, or it was reset.
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

/// The owners so far. A client may send others with the object, but not to a subresource; `None` if it resets them.
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

/// Gives the changed fields to the writer and takes them from all others.
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
    let left_alone = reset::left_alone(write.kind, write.part);
    written.subtract_all_below(&left_alone);
    removed.subtract_all_below(&left_alone);
    if before.is_none() {
        written.subtract_all_below(&reset::made_by_the_server(write.kind));
    }
    written.subtract(&reset::NEVER_OWNED);
    owners.take(&removed);
    if !written.is_empty() {
        owners.take(&written);
        owners.give(write.manager(Operation::Update), written, write.now);
    }
    owners.cap_updaters();
}

/// The `managedFields` of an object.
pub(crate) fn managed_fields(object: &Object) -> Option<&Value> {
    object.get("metadata")?.get(KEY)
}

/// A write that changed nothing but the times of the owners keeps these, too.
pub(crate) fn keep_times(before: &Object, after: &mut Object) {
    let (old, new) = (managed_fields(before), managed_fields(after));
    if old == new || !is_same(before, after) || !managers::same_but_for_times(old, new) {
        return;
    }
    if let Some(old) = old.cloned() {
        metadata_mut(after).insert(KEY.into(), old);
    }
}

/// Whether two states of an object differ in nothing but the owners.
pub(crate) fn is_same(before: &Object, after: &Object) -> bool {
    before.len() == after.len()
        && before.iter().all(|(name, old)| match after.get(name) {
            Some(new) if name == "metadata" => managers::same_but_for(old, new, KEY),
            new => new == Some(old),
        })
}
