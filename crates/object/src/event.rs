//! `Event`: what has changed in the cache, said after it has changed.

use std::fmt;

use crate::{Entry, ObjectKey};

/// A change of the cache, as the store reports it and as handlers receive it.
///
/// Entries dereference to the object, so `new.metadata.name` works on a typed object.
pub enum Event<T> {
    /// An object entered the cache.
    Added {
        /// The object.
        object: Entry<T>,
        /// It was there when this observer began to look: part of the first list, or of the
        /// state that a handler found when it joined.
        initial: bool,
    },
    /// An object changed, or is shown again by a resync (then both sides are the same value).
    Updated {
        /// The state before.
        old: Entry<T>,
        /// The state now.
        new: Entry<T>,
    },
    /// An object left the cache.
    Deleted {
        /// The last known state.
        last: Entry<T>,
        /// The deletion happened while no watch was open: later states may have been missed.
        final_state_unknown: bool,
    },
}

impl<T> Event<T> {
    /// The entry that this event is about: the new state, or the last one of a deleted object.
    pub fn entry(&self) -> &Entry<T> {
        match self {
            Event::Added { object, .. } => object,
            Event::Updated { new, .. } => new,
            Event::Deleted { last, .. } => last,
        }
    }

    /// The address of the object that this event is about.
    pub fn key(&self) -> &ObjectKey {
        self.entry().key()
    }
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        match self {
            Event::Added { object, initial } => Event::Added { object: object.clone(), initial: *initial },
            Event::Updated { old, new } => Event::Updated { old: old.clone(), new: new.clone() },
            Event::Deleted { last, final_state_unknown } => {
                Event::Deleted { last: last.clone(), final_state_unknown: *final_state_unknown }
            }
        }
    }
}

impl<T> PartialEq for Event<T> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Event::Added { object: a, initial: x }, Event::Added { object: b, initial: y }) => {
                a == b && x == y
            }
            (Event::Updated { old: a, new: x }, Event::Updated { old: b, new: y }) => a == b && x == y,
            (
                Event::Deleted { last: a, final_state_unknown: x },
                Event::Deleted { last: b, final_state_unknown: y },
            ) => a == b && x == y,
            _ => false,
        }
    }
}

impl<T> fmt::Debug for Event<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Added { object, initial } => {
                f.debug_struct("Added").field("object", object).field("initial", initial).finish()
            }
            Event::Updated { old, new } => {
                f.debug_struct("Updated").field("old", old).field("new", new).finish()
            }
            Event::Deleted { last, final_state_unknown } => f
                .debug_struct("Deleted")
                .field("last", last)
                .field("final_state_unknown", final_state_unknown)
                .finish(),
        }
    }
}
