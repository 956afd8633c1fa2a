//! `merge`: what is left of a pending change when a newer event of the same key arrives.

use std::sync::Arc;

use kube_object::{Entry, Event, ObjectKey};

/// All that a handler still has to be told about one key: the shortest history that leads from
/// the state it has seen to the newest one. The handler knows the key before an `Update`, a
/// `Delete` or a `Replace`, and does not know it before an `Add`.
pub(crate) enum Pending<T> {
    Add {
        object: Entry<T>,
        initial: bool,
    },
    Update {
        old: Entry<T>,
        new: Entry<T>,
    },
    Delete(Gone<T>),
    /// A Delete, then an Add under the same name.
    Replace {
        gone: Gone<T>,
        object: Entry<T>,
        initial: bool,
    },
}

/// The Delete that the handler will be given.
pub(crate) struct Gone<T> {
    last: Entry<T>,
    final_state_unknown: bool,
}

/// Where an event leaves its key. Reading an event as its outcome makes the rules total: an
/// event that can't follow (an Add of what is there) still leads to the newest state.
enum Outcome<T> {
    Present { object: Entry<T>, initial: bool },
    Absent(Gone<T>),
}

/// The rules. `None`: the handler never saw the object and never will.
///
/// - An Add keeps its own `initial`: whether the object was there when the handler began to look
///   does not change with its state.
/// - Update, then Delete: the `last` and `final_state_unknown` of the Delete, which are about the
///   last state that the cache had, newer than what the handler saw.
/// - Delete and Add stay two events: they may be two incarnations, with a uid each. When the
///   second one goes too, the first Delete is left as it was: it is about the incarnation that
///   the handler knows.
pub(crate) fn merge<T>(older: Pending<T>, newer: Event<T>) -> Option<Pending<T>> {
    use Outcome::{Absent, Present};
    use Pending::{Add, Delete, Replace, Update};
    match (older, Outcome::from(newer)) {
        (Add { initial, .. }, Present { object, .. }) => Some(Add { object, initial }),
        (Add { .. }, Absent(_)) => None,
        (Update { old, .. }, Present { object: new, .. }) => Some(Update { old, new }),
        (Update { .. }, Absent(gone)) => Some(Delete(gone)),
        (Delete(gone), Present { object, initial }) => Some(Replace { gone, object, initial }),
        (Delete(gone), Absent(_)) => Some(Delete(gone)),
        (Replace { gone, initial, .. }, Present { object, .. }) => Some(Replace { gone, object, initial }),
        (Replace { gone, .. }, Absent(_)) => Some(Delete(gone)),
    }
}

impl<T> From<Event<T>> for Outcome<T> {
    fn from(event: Event<T>) -> Self {
        match event {
            Event::Added { object, initial } => Outcome::Present { object, initial },
            Event::Updated { new, .. } => Outcome::Present { object: new, initial: false },
            Event::Deleted { last, final_state_unknown } => {
                Outcome::Absent(Gone { last, final_state_unknown })
            }
        }
    }
}

impl<T> From<Event<T>> for Pending<T> {
    fn from(event: Event<T>) -> Self {
        match event {
            Event::Added { object, initial } => Pending::Add { object, initial },
            Event::Updated { old, new } => Pending::Update { old, new },
            Event::Deleted { last, final_state_unknown } => {
                Pending::Delete(Gone { last, final_state_unknown })
            }
        }
    }
}

impl<T> Pending<T> {
    pub(crate) fn key(&self) -> &ObjectKey {
        match self {
            Pending::Add { object, .. } | Pending::Replace { object, .. } => object.key(),
            Pending::Update { new, .. } => new.key(),
            Pending::Delete(gone) => gone.last.key(),
        }
    }

    /// Whether an initial Add is in it.
    pub(crate) fn is_initial(&self) -> bool {
        matches!(self, Pending::Add { initial: true, .. } | Pending::Replace { initial: true, .. })
    }

    /// The events to hand out, in order.
    pub(crate) fn into_events(self) -> Arc<[Event<T>]> {
        match self {
            Pending::Add { object, initial } => Arc::new([Event::Added { object, initial }]),
            Pending::Update { old, new } => Arc::new([Event::Updated { old, new }]),
            Pending::Delete(gone) => Arc::new([gone.into()]),
            Pending::Replace { gone, object, initial } => {
                Arc::new([gone.into(), Event::Added { object, initial }])
            }
        }
    }
}

impl<T> From<Gone<T>> for Event<T> {
    fn from(gone: Gone<T>) -> Self {
        Event::Deleted { last: gone.last, final_state_unknown: gone.final_state_unknown }
    }
}
