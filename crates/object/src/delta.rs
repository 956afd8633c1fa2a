//! `Delta`: one step of a type's history on its way from the reflector to the store.

use std::fmt;

use crate::{Entry, ObjectId, ObjectKey, ResourceVersion};

/// What the reflector has learned, in the order in which it learned it.
///
/// A relist is `Begin`, then any number of `Page`, `Put`, `Remove` and `Undecodable`, then `End`:
/// what lies between is collected and becomes visible in one step at the `End`. A `Begin` before
/// the `End` discards what was collected. Outside of a relist each delta stands for itself.
pub enum Delta<T> {
    /// A relist begins.
    Begin {
        /// The server's history may have been restored from an older state, in which versions
        /// are used again: a version alone shows of nothing that it has not changed, and that of the list may be lower.
        history_lost: bool,
    },
    /// A part of the list.
    Page(Vec<Listed<T>>),
    /// The relist is complete: make it the state.
    End {
        /// The version of the list.
        version: ResourceVersion,
        /// Each item's identity was found, so that what was not listed has been deleted. Where
        /// it is false nothing is deleted but what another object has taken the place of, and the list will be repeated.
        complete: bool,
    },
    /// The object was added or modified: the store knows which.
    Put(Entry<T>),
    /// The object was deleted.
    Remove {
        /// Who was deleted; the version is that of the deletion.
        id: ObjectId,
        /// The last state as the server sent it, where it could be decoded.
        last: Option<Entry<T>>,
    },
    /// The object was added or modified, but could not be decoded: what is cached is stale.
    Undecodable(ObjectId),
    /// Everything up to this version has been seen.
    Bookmark(ResourceVersion),
    /// The resource does not exist any more, so that nothing of it does: the cache becomes empty, a relist under way is
    /// discarded, and the position stays.
    Clear,
}

/// One item of a list.
pub enum Listed<T> {
    /// It was decoded, or is known already.
    Object(Entry<T>),
    /// It could not be decoded, but it is there.
    Undecodable(ObjectId),
}

impl<T> Listed<T> {
    /// Who this item is.
    pub fn id(&self) -> &ObjectId {
        match self {
            Listed::Object(entry) => &entry.id,
            Listed::Undecodable(id) => id,
        }
    }
}

impl<T> Delta<T> {
    /// The object that this delta is about; `None` for bookmarks and the parts of a relist.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Delta::Put(entry) => Some(entry.key()),
            Delta::Remove { id, .. } | Delta::Undecodable(id) => Some(&id.key),
            Delta::Begin { .. } | Delta::Page(_) | Delta::End { .. } | Delta::Bookmark(_) | Delta::Clear => {
                None
            }
        }
    }

    /// How many objects this delta holds in memory: what a bound counts.
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
