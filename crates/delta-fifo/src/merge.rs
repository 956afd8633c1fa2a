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

impl<T> Clone for Pending<T> {
    fn clone(&self) -> Self {
        match self {
            Pending::Add { object, initial } => Pending::Add { object: object.clone(), initial: *initial },
            Pending::Update { old, new } => Pending::Update { old: old.clone(), new: new.clone() },
            Pending::Delete(gone) => Pending::Delete(gone.clone()),
            Pending::Replace { gone, object, initial } => {
                Pending::Replace { gone: gone.clone(), object: object.clone(), initial: *initial }
            }
        }
    }
}

impl<T> Clone for Gone<T> {
    fn clone(&self) -> Self {
        Self { last: self.last.clone(), final_state_unknown: self.final_state_unknown }
    }
}

impl<T> From<Gone<T>> for Event<T> {
    fn from(gone: Gone<T>) -> Self {
        Event::Deleted { last: gone.last, final_state_unknown: gone.final_state_unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{added, deleted, entry, incarnation, initial, lost, updated};

    /// What a handler is given for these events when all of them waited past the mark.
    fn kept(events: impl IntoIterator<Item = Event<()>>) -> Vec<Event<()>> {
        let step = |older: Option<Pending<()>>, event| match older {
            Some(older) => merge(older, event),
            None => Some(event.into()),
        };
        events.into_iter().fold(None, step).map_or(vec![], |pending| pending.into_events().to_vec())
    }

    #[test]
    fn an_updated_add_shows_the_newest_state_and_stays_as_initial_as_it_was() {
        let [a, b, c] = [1, 2, 3].map(|version| entry("x", version));
        assert_eq!(kept([initial(&a), updated(&a, &b), updated(&b, &c)]), [initial(&c)]);
        assert_eq!(kept([added(&a), updated(&a, &b)]), [added(&b)]);
    }

    #[test]
    fn what_came_and_went_unseen_is_nothing() {
        let [a, b] = [1, 2].map(|version| entry("x", version));
        assert_eq!(kept([added(&a), deleted(&a)]), []);
        assert_eq!(kept([initial(&a), updated(&a, &b), lost(&b)]), []);
    }

    /// Property 12: it came back after the handler began to look.
    #[test]
    fn an_object_that_comes_back_after_its_initial_add_was_merged_away_is_not_initial() {
        let [a, b] = ["1", "2"].map(|uid| incarnation("x", uid, 1));
        assert_eq!(kept([initial(&a), deleted(&a), added(&b)]), [added(&b)]);
    }

    #[test]
    fn updates_become_one_from_the_first_old_state_to_the_last_new_one() {
        let [a, b, c] = [1, 2, 3].map(|version| entry("x", version));
        assert_eq!(kept([updated(&a, &b), updated(&b, &c)]), [updated(&a, &c)]);
    }

    /// Property 18: the last known state is that of the cache, newer than what the handler saw.
    #[test]
    fn an_update_before_a_delete_leaves_the_delete_as_it_came() {
        let [a, b] = [1, 2].map(|version| entry("x", version));
        assert_eq!(kept([updated(&a, &b), deleted(&b)]), [deleted(&b)]);
        assert_eq!(kept([updated(&a, &b), lost(&b)]), [lost(&b)]);
    }

    /// Property 3: the incarnations are told apart.
    #[test]
    fn a_delete_and_the_add_of_the_next_incarnation_stay_two_events() {
        let [old, new] = ["1", "2"].map(|uid| incarnation("x", uid, 1));
        let newer = incarnation("x", "2", 2);
        assert_eq!(kept([lost(&old), added(&new)]), [lost(&old), added(&new)]);
        assert_eq!(kept([deleted(&old), added(&new), updated(&new, &newer)]), [deleted(&old), added(&newer)]);
    }

    /// Property 18: the handler knows the first incarnation and never hears of the second.
    #[test]
    fn when_the_next_incarnation_goes_too_the_first_delete_is_left_as_it_was() {
        let [first, second, third] = ["1", "2", "3"].map(|uid| incarnation("x", uid, 1));
        let both = [deleted(&first), added(&second), lost(&second)];
        assert_eq!(kept(both.clone()), [deleted(&first)]);
        assert_eq!(kept(both.into_iter().chain([added(&third)])), [deleted(&first), added(&third)]);
    }

    #[test]
    fn a_resync_in_front_of_a_change_is_absorbed_by_it() {
        let [a, b] = [1, 2].map(|version| entry("x", version));
        assert_eq!(kept([updated(&a, &a), updated(&a, &b)]), [updated(&a, &b)]);
        assert_eq!(kept([updated(&a, &a), deleted(&a)]), [deleted(&a)]);
    }

    #[test]
    fn events_that_can_not_follow_each_other_still_lead_to_the_newest_state() {
        let [a, b] = [1, 2].map(|version| entry("x", version));
        assert_eq!(kept([initial(&a), added(&b)]), [initial(&b)]);
        assert_eq!(kept([updated(&a, &a), added(&b)]), [updated(&a, &b)]);
        assert_eq!(kept([deleted(&a), updated(&a, &b)]), [deleted(&a), added(&b)]);
        assert_eq!(kept([deleted(&a), lost(&b)]), [deleted(&a)]);
    }
}
