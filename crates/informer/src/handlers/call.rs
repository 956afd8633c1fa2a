//! Calls a handler and catches its panics.

use std::{fmt::Display, panic::AssertUnwindSafe};

use kube_object::{Escaped, Event};

use super::{EventHandler, Mailbox};

/// Delivers an event to the handler. A panic is caught, counted and logged. Returns false if the
/// mailbox is abandoned. The handler must then not be called again.
pub(super) fn call_unless_abandoned<T>(
    mailbox: &Mailbox<T>,
    handler: &mut impl EventHandler<T>,
    event: &Event<T>,
) -> bool {
    call_unless_abandoned_with(mailbox, event.key(), || call(handler, event)) != CallOutcome::Abandoned
}

/// The result of a call of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Finished,
    Panicked,
    /// The mailbox is abandoned. The handler was not called, and must not be called again.
    Abandoned,
}

/// Runs a call of a handler. `key` is the key of its object in the log. A panic is caught, counted and
/// logged.
pub(crate) fn call_unless_abandoned_with<T>(
    mailbox: &Mailbox<T>,
    key: &(impl Display + ?Sized),
    call: impl FnOnce(),
) -> CallOutcome {
    if mailbox.is_abandoned() {
        return CallOutcome::Abandoned;
    }
    if std::panic::catch_unwind(AssertUnwindSafe(call)).is_ok() {
        return CallOutcome::Finished;
    }
    mailbox.count_panic();
    let handler = Escaped(mailbox.name());
    tracing::error!(%handler, %key, "event handler panicked; the handler remains registered");
    CallOutcome::Panicked
}

pub(crate) fn call<T>(handler: &mut impl EventHandler<T>, event: &Event<T>) {
    match event {
        Event::Added { object, initial } => handler.on_add(object, *initial),
        Event::Updated { old, new } => handler.on_update(old, new),
        Event::Deleted { last, removal } => handler.on_delete(last, *removal),
    }
}
