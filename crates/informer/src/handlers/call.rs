//! Calls a handler and catches its panics.

use std::panic::AssertUnwindSafe;

use kube_object::{Escaped, Event};

use super::{EventHandler, Mailbox};

/// Delivers an event to the handler. A panic is caught, counted and logged. Returns false if the
/// mailbox is abandoned. The handler must then not be called again.
pub(super) fn call_unless_abandoned<T>(
    mailbox: &Mailbox<T>,
    handler: &mut impl EventHandler<T>,
    event: &Event<T>,
) -> bool {
    if mailbox.is_abandoned() {
        return false;
    }
    if std::panic::catch_unwind(AssertUnwindSafe(|| call(handler, event))).is_err() {
        mailbox.count_panic();
        let handler = Escaped(mailbox.name());
        tracing::error!(%handler, key = %event.key(), "event handler panicked; the handler remains registered");
    }
    true
}

fn call<T>(handler: &mut impl EventHandler<T>, event: &Event<T>) {
    match event {
        Event::Added { object, initial } => handler.on_add(object, *initial),
        Event::Updated { old, new } => handler.on_update(old, new),
        Event::Deleted { last, removal } => handler.on_delete(last, *removal),
    }
}
