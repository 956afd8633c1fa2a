//! `coalesce`: combines a pending change with a newer event of the same key.

use std::sync::Arc;

use kube_object::{Entry, Event, ObjectKey, Removal};

/// The pending events of one key, as the shortest history from the delivered state to the newest
/// state. Before an `Add`, the handler has no object with this key. Before the other variants, the
/// handler has received an object with this key.
pub(super) enum PendingChange<T> {
    Add {
        object: Entry<T>,
        initial: bool,
    },
    Update {
        old: Entry<T>,
        new: Entry<T>,
    },
    Delete(Deletion<T>),
    /// A Delete, then an Add of the same name.
    Replace {
        deletion: Deletion<T>,
        object: Entry<T>,
        initial: bool,
    },
}

/// The Delete that the handler will receive.
pub(super) struct Deletion<T> {
    last: Entry<T>,
    removal: Removal,
}

/// The state of a key after an event. Because the rules use this state, they also cover
/// inconsistent events, for example an Add of an existing object.
enum StateAfter<T> {
    Present { object: Entry<T>, initial: bool },
    Absent(Deletion<T>),
}

/// Combines a pending change with a newer event. Returns `None` if both cancel out, because the
/// handler has never received the object.
///
/// - An Add keeps its own `initial`. The flag describes the first state of the object.
/// - An Update followed by a Delete becomes a Delete, with the `last` and `removal` of
///   the newer event. They describe the last state in the cache.
/// - A Delete followed by an Add remains two events, because the uids can differ. If the second
///   object is also deleted, the first Delete remains unchanged, because only the first object was
///   delivered.
pub(super) fn coalesce<T>(older: PendingChange<T>, newer: Event<T>) -> Option<PendingChange<T>> {
    use PendingChange::{Add, Delete, Replace, Update};
    use StateAfter::{Absent, Present};
    match (older, StateAfter::from(newer)) {
        (Add { initial, .. }, Present { object, .. }) => Some(Add { object, initial }),
        (Add { .. }, Absent(_)) => None,
        (Update { old, .. }, Present { object: new, .. }) => Some(Update { old, new }),
        (Update { .. }, Absent(deletion)) => Some(Delete(deletion)),
        (Delete(deletion), Present { object, initial }) => Some(Replace { deletion, object, initial }),
        (Delete(deletion), Absent(_)) => Some(Delete(deletion)),
        (Replace { deletion, initial, .. }, Present { object, .. }) => {
            Some(Replace { deletion, object, initial })
        }
        (Replace { deletion, .. }, Absent(_)) => Some(Delete(deletion)),
    }
}

impl<T> From<Event<T>> for StateAfter<T> {
    fn from(event: Event<T>) -> Self {
        match event {
            Event::Added { object, initial } => StateAfter::Present { object, initial },
            Event::Updated { new, .. } => StateAfter::Present { object: new, initial: false },
            Event::Deleted { last, removal } => StateAfter::Absent(Deletion { last, removal }),
        }
    }
}

impl<T> From<Event<T>> for PendingChange<T> {
    fn from(event: Event<T>) -> Self {
        match event {
            Event::Added { object, initial } => PendingChange::Add { object, initial },
            Event::Updated { old, new } => PendingChange::Update { old, new },
            Event::Deleted { last, removal } => PendingChange::Delete(Deletion { last, removal }),
        }
    }
}

impl<T> PendingChange<T> {
    pub(super) fn key(&self) -> &ObjectKey {
        match self {
            PendingChange::Add { object, .. } | PendingChange::Replace { object, .. } => object.key(),
            PendingChange::Update { new, .. } => new.key(),
            PendingChange::Delete(deletion) => deletion.last.key(),
        }
    }

    /// Returns whether the change contains an initial Add.
    pub(super) fn is_initial(&self) -> bool {
        matches!(
            self,
            PendingChange::Add { initial: true, .. } | PendingChange::Replace { initial: true, .. }
        )
    }

    /// Returns the events to deliver, in order.
    pub(super) fn into_events(self) -> Arc<[Event<T>]> {
        match self {
            PendingChange::Add { object, initial } => Arc::new([Event::Added { object, initial }]),
            PendingChange::Update { old, new } => Arc::new([Event::Updated { old, new }]),
            PendingChange::Delete(deletion) => Arc::new([deletion.into()]),
            PendingChange::Replace { deletion, object, initial } => {
                Arc::new([deletion.into(), Event::Added { object, initial }])
            }
        }
    }
}

impl<T> Clone for PendingChange<T> {
    fn clone(&self) -> Self {
        match self {
            PendingChange::Add { object, initial } => {
                PendingChange::Add { object: object.clone(), initial: *initial }
            }
            PendingChange::Update { old, new } => {
                PendingChange::Update { old: old.clone(), new: new.clone() }
            }
            PendingChange::Delete(deletion) => PendingChange::Delete(deletion.clone()),
            PendingChange::Replace { deletion, object, initial } => PendingChange::Replace {
                deletion: deletion.clone(),
                object: object.clone(),
                initial: *initial,
            },
        }
    }
}

impl<T> Clone for Deletion<T> {
    fn clone(&self) -> Self {
        Self { last: self.last.clone(), removal: self.removal }
    }
}

impl<T> From<Deletion<T>> for Event<T> {
    fn from(deletion: Deletion<T>) -> Self {
        Event::Deleted { last: deletion.last, removal: deletion.removal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{added, deleted, entry, incarnation, initial, lost, updated};

    /// Returns the events that a handler receives if all of these are coalesced.
    fn coalesced(events: impl IntoIterator<Item = Event<()>>) -> Vec<Event<()>> {
        let step = |older: Option<PendingChange<()>>, event| match older {
            Some(older) => coalesce(older, event),
            None => Some(event.into()),
        };
        events.into_iter().fold(None, step).map_or(vec![], |pending| pending.into_events().to_vec())
    }

    #[test]
    fn add_then_update_is_add_with_original_initial_flag() {
        let [a, b, c] = [1, 2, 3].map(|version| entry("x", version));
        assert_eq!(coalesced([initial(&a), updated(&a, &b), updated(&b, &c)]), [initial(&c)]);
        assert_eq!(coalesced([added(&a), updated(&a, &b)]), [added(&b)]);
    }

    #[test]
    fn add_then_delete_cancels_out() {
        let [a, b] = [1, 2].map(|version| entry("x", version));
        assert_eq!(coalesced([added(&a), deleted(&a)]), []);
        assert_eq!(coalesced([initial(&a), updated(&a, &b), lost(&b)]), []);
    }

    /// Property 12: the second Add is later than the initial list.
    #[test]
    fn object_added_again_after_cancelled_initial_add_is_not_initial() {
        let [a, b] = ["1", "2"].map(|uid| incarnation("x", uid, 1));
        assert_eq!(coalesced([initial(&a), deleted(&a), added(&b)]), [added(&b)]);
    }

    #[test]
    fn updates_become_one_from_first_old_to_last_new() {
        let [a, b, c] = [1, 2, 3].map(|version| entry("x", version));
        assert_eq!(coalesced([updated(&a, &b), updated(&b, &c)]), [updated(&a, &c)]);
    }

    /// Property 18: the last known state is the cached state, which is newer than the delivered
    /// state.
    #[test]
    fn update_then_delete_becomes_delete() {
        let [a, b] = [1, 2].map(|version| entry("x", version));
        assert_eq!(coalesced([updated(&a, &b), deleted(&b)]), [deleted(&b)]);
        assert_eq!(coalesced([updated(&a, &b), lost(&b)]), [lost(&b)]);
    }

    /// Property 3: two objects with different uids stay separate.
    #[test]
    fn delete_and_add_of_new_uid_remain_two_events() {
        let [old, new] = ["1", "2"].map(|uid| incarnation("x", uid, 1));
        let newer = incarnation("x", "2", 2);
        assert_eq!(coalesced([lost(&old), added(&new)]), [lost(&old), added(&new)]);
        assert_eq!(
            coalesced([deleted(&old), added(&new), updated(&new, &newer)]),
            [deleted(&old), added(&newer)]
        );
    }

    /// Property 18: the handler has received the first object, and never receives the second
    /// object.
    #[test]
    fn second_deletion_leaves_first_delete_unchanged() {
        let [first, second, third] = ["1", "2", "3"].map(|uid| incarnation("x", uid, 1));
        let both = [deleted(&first), added(&second), lost(&second)];
        assert_eq!(coalesced(both.clone()), [deleted(&first)]);
        assert_eq!(coalesced(both.into_iter().chain([added(&third)])), [deleted(&first), added(&third)]);
    }

    #[test]
    fn pending_resync_coalesces_into_later_change() {
        let [a, b] = [1, 2].map(|version| entry("x", version));
        assert_eq!(coalesced([updated(&a, &a), updated(&a, &b)]), [updated(&a, &b)]);
        assert_eq!(coalesced([updated(&a, &a), deleted(&a)]), [deleted(&a)]);
    }

    #[test]
    fn inconsistent_events_still_lead_to_newest_state() {
        let [a, b] = [1, 2].map(|version| entry("x", version));
        assert_eq!(coalesced([initial(&a), added(&b)]), [initial(&b)]);
        assert_eq!(coalesced([updated(&a, &a), added(&b)]), [updated(&a, &b)]);
        assert_eq!(coalesced([deleted(&a), updated(&a, &b)]), [deleted(&a), added(&b)]);
        assert_eq!(coalesced([deleted(&a), lost(&b)]), [deleted(&a)]);
    }
}
