//! `Delta`: a change that the reflector sends to the store.

use std::fmt;

use crate::{Entry, ObjectId, ObjectKey, ResourceVersion};

/// A change that the reflector received, in the order of receipt.
///
/// A relist is `Begin`, then any number of `Page`, `Put`, `Remove` and `Undecodable`, then `End`. The
/// deltas between are collected and applied atomically at `End`. A `Begin` before the `End` discards
/// the collected deltas. Outside of a relist, each delta is applied separately.
pub enum Delta<T> {
    /// A relist starts.
    Begin {
        /// The history of the server may have been restored from an older state, in which versions are
        /// used again. An equal version does not prove that an object is unchanged, and the version of
        /// the list may be lower.
        history_lost: bool,
    },
    /// A page of the list.
    Page(Vec<Listed<T>>),
    /// The relist ends: apply the collected deltas.
    End {
        /// The resourceVersion of the list.
        version: ResourceVersion,
        /// The identity of each item is known, so objects that were not listed are deleted. If false,
        /// only objects that were replaced by an object with another uid are deleted, and the list will
        /// be repeated.
        complete: bool,
    },
    /// The object was added or modified. The store determines which.
    Put(Entry<T>),
    /// The object was deleted.
    Remove {
        /// The identity of the object; its version is the version of the deletion.
        id: ObjectId,
        /// The last state that the server sent, if it could be decoded.
        last: Option<Entry<T>>,
    },
    /// The object was added or modified, but could not be decoded. The cached state is stale.
    Undecodable(ObjectId),
    /// All changes up to this resourceVersion were received.
    Bookmark(ResourceVersion),
    /// The resource no longer exists: delete all objects and discard a relist in progress. The
    /// watermark is kept.
    Clear,
}

/// An item of a list.
pub enum Listed<T> {
    /// The object was decoded, or an unchanged object of the cache.
    Object(Entry<T>),
    /// The object exists, but could not be decoded.
    Undecodable(ObjectId),
}

impl<T> Listed<T> {
    /// Returns the identity of this item.
    pub fn id(&self) -> &ObjectId {
        match self {
            Listed::Object(entry) => &entry.id,
            Listed::Undecodable(id) => id,
        }
    }
}

impl<T> Delta<T> {
    /// Returns the key of the object; `None` for bookmarks and the parts of a relist.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Delta::Put(entry) => Some(entry.key()),
            Delta::Remove { id, .. } | Delta::Undecodable(id) => Some(&id.key),
            Delta::Begin { .. } | Delta::Page(_) | Delta::End { .. } | Delta::Bookmark(_) | Delta::Clear => {
                None
            }
        }
    }

    /// Returns the number of objects that this delta holds in memory, for limits.
    pub fn weight(&self) -> usize {
        match self {
            Delta::Page(items) => items.len().max(1),
            _ => 1,
        }
    }
}

impl<T> fmt::Debug for Listed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listed::Object(entry) => entry.fmt(f),
            Listed::Undecodable(id) => write!(f, "undecodable {id:?}"),
        }
    }
}

impl<T> fmt::Debug for Delta<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delta::Begin { history_lost } => {
                f.debug_struct("Begin").field("history_lost", history_lost).finish()
            }
            Delta::Page(items) => f.debug_tuple("Page").field(items).finish(),
            Delta::End { version, complete } => {
                f.debug_struct("End").field("version", version).field("complete", complete).finish()
            }
            Delta::Put(entry) => f.debug_tuple("Put").field(entry).finish(),
            Delta::Remove { id, .. } => f.debug_tuple("Remove").field(id).finish(),
            Delta::Undecodable(id) => f.debug_tuple("Undecodable").field(id).finish(),
            Delta::Bookmark(version) => f.debug_tuple("Bookmark").field(version).finish(),
            Delta::Clear => f.write_str("Clear"),
        }
    }
}

impl<T> Clone for Listed<T> {
    fn clone(&self) -> Self {
        match self {
            Listed::Object(entry) => Listed::Object(entry.clone()),
            Listed::Undecodable(id) => Listed::Undecodable(id.clone()),
        }
    }
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Delta::Begin { history_lost } => Delta::Begin { history_lost: *history_lost },
            Delta::Page(items) => Delta::Page(items.clone()),
            Delta::End { version, complete } => Delta::End { version: version.clone(), complete: *complete },
            Delta::Put(entry) => Delta::Put(entry.clone()),
            Delta::Remove { id, last } => Delta::Remove { id: id.clone(), last: last.clone() },
            Delta::Undecodable(id) => Delta::Undecodable(id.clone()),
            Delta::Bookmark(version) => Delta::Bookmark(version.clone()),
            Delta::Clear => Delta::Clear,
        }
    }
}
