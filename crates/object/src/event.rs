//! `Event`: a change that the cache already contains.

use std::fmt;

use crate::{Entry, ObjectKey};

/// Describes a change of the cache. The store returns events, and the informer delivers them to
/// handlers.
///
/// An [`Entry`] dereferences to its object. For example, `new.metadata.name` works for a typed
/// object.
pub enum Event<T> {
    /// An object was added to the cache.
    Added {
        /// The object.
        object: Entry<T>,
        /// Whether the object is a part of the initial list, or was already in the cache when the
        /// handler was added.
        initial: bool,
    },
    /// An object changed, or a resync delivers it again. In a resync, `old` and `new` are the same
    /// value.
    Updated {
        /// The previous state.
        old: Entry<T>,
        /// The new state.
        new: Entry<T>,
    },
    /// An object was removed from the cache. Usually, it was deleted.
    Deleted {
        /// The last known state.
        last: Entry<T>,
        /// Why the object was removed.
        removal: Removal,
    },
}

/// Tells why an object was removed from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Removal {
    /// The watch reported the deletion. A watch with selectors also reports this if the object exists, but
    /// no longer matches the selectors. The last known state is the last state, unless it could not be
    /// decoded.
    Deleted,
    /// The watch did not report the deletion, for example because it was not open. The object may have
    /// changed after its last known state. If the informer has selectors, the object may also exist, and no
    /// longer match them. Corresponds to `DeletedFinalStateUnknown` in client-go.
    FinalStateUnknown,
    /// The informer no longer contains the object, or the filter of the handler no longer accepts it. The
    /// object may still exist. For example, the program removed its namespace or its slot from the informer.
    Left,
}

impl<T> Event<T> {
    /// Returns the new state of an added or updated object, or the last known state of a deleted
    /// object.
    pub fn entry(&self) -> &Entry<T> {
        match self {
            Event::Added { object, .. } => object,
            Event::Updated { new, .. } => new,
            Event::Deleted { last, .. } => last,
        }
    }

    /// Returns the key of the object.
    pub fn key(&self) -> &ObjectKey {
        self.entry().key()
    }
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        match self {
            Event::Added { object, initial } => Event::Added { object: object.clone(), initial: *initial },
            Event::Updated { old, new } => Event::Updated { old: old.clone(), new: new.clone() },
            Event::Deleted { last, removal } => Event::Deleted { last: last.clone(), removal: *removal },
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
            (Event::Deleted { last: a, removal: x }, Event::Deleted { last: b, removal: y }) => {
                a == b && x == y
            }
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
            Event::Deleted { last, removal } => {
                f.debug_struct("Deleted").field("last", last).field("removal", removal).finish()
            }
        }
    }
}
