//! `Delta`: a change on the way from the reflector to the store.

use std::fmt;

use crate::{Entry, ObjectId, ObjectKey, ResourceVersion, Shard};

/// Describes a change that the reflector has received and that the store has not applied yet.
///
/// A relist consists of a `Begin`, any number of `Page`, `Put`, `Remove` and `Undecodable`, and an
/// `End`. The store collects these deltas and applies them atomically at `End`. A second `Begin`
/// before the `End` discards the collected deltas. Outside of a relist, each delta is applied
/// separately.
pub enum Delta<T> {
    /// A relist starts.
    Begin {
        /// Whether the server may have been restored from an older state, so that it can assign the
        /// same versions again. In this case, an equal version does not prove that an object is
        /// unchanged. The version of the list may be lower than the watermark.
        without_reuse: bool,
    },
    /// A page of the list.
    Page(Vec<Listed<T>>),
    /// All pages of the list were received. The store applies the collected deltas.
    End {
        /// The resourceVersion of the list.
        version: ResourceVersion,
        /// Whether the identity of each item was readable. If true, the store deletes the objects
        /// that are not in the list. If false, it deletes an object only if its deletion was
        /// received, or if an object with another uid replaced it. The reflector then repeats the
        /// list.
        complete: bool,
    },
    /// The object was added or modified. The store determines whether the object is new.
    Put(Entry<T>),
    /// The object was deleted.
    Remove {
        /// The identity of the object. The version is the resourceVersion of the deletion.
        id: ObjectId,
        /// The last state that the server sent, if it could be decoded.
        last: Option<Entry<T>>,
    },
    /// The object was added or modified, but could not be decoded. The cached object, if any,
    /// becomes stale.
    Undecodable(ObjectId),
    /// The reflector has received all changes up to the resourceVersion of this bookmark.
    Bookmark(ResourceVersion),
    /// The set of slots changed whose objects the store holds.
    ///
    /// The store removes the objects of all other slots. If the set is empty, the store also discards a
    /// relist in progress, and is synced.
    Hold {
        /// The slots that the store holds from now on. Between a `Begin` and its `End`, the store holds
        /// added slots only after the `End`.
        shard: Shard,
        /// The complete state of the added slots. It can be newer than the watermark, but is never older.
        /// Empty between a `Begin` and its `End`.
        gained: Vec<Listed<T>>,
    },
    /// The resource no longer exists. The store deletes all objects, discards a relist in progress,
    /// and does not change the watermark.
    Clear,
}

/// Describes an item of a list.
pub enum Listed<T> {
    /// The decoded object, or the unchanged object from the cache.
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
    /// Returns the key of the object. Returns `None` for bookmarks, `Clear`, and the parts of a
    /// relist.
    pub fn key(&self) -> Option<&ObjectKey> {
        match self {
            Delta::Put(entry) => Some(entry.key()),
            Delta::Remove { id, .. } | Delta::Undecodable(id) => Some(&id.key),
            Delta::Begin { .. }
            | Delta::Page(_)
            | Delta::End { .. }
            | Delta::Bookmark(_)
            | Delta::Hold { .. }
            | Delta::Clear => None,
        }
    }

    /// Returns the weight of the delta in a queue with a limited capacity. The weight is the number
    /// of objects, but at least 1.
    pub fn weight(&self) -> usize {
        match self {
            Delta::Page(items) | Delta::Hold { gained: items, .. } => items.len().max(1),
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
            Delta::Begin { without_reuse } => {
                f.debug_struct("Begin").field("without_reuse", without_reuse).finish()
            }
            Delta::Page(items) => f.debug_tuple("Page").field(items).finish(),
            Delta::End { version, complete } => {
                f.debug_struct("End").field("version", version).field("complete", complete).finish()
            }
            Delta::Put(entry) => f.debug_tuple("Put").field(entry).finish(),
            Delta::Remove { id, .. } => f.debug_tuple("Remove").field(id).finish(),
            Delta::Undecodable(id) => f.debug_tuple("Undecodable").field(id).finish(),
            Delta::Bookmark(version) => f.debug_tuple("Bookmark").field(version).finish(),
            Delta::Hold { shard, gained } => {
                f.debug_struct("Hold").field("slots", &shard.slots).field("gained", gained).finish()
            }
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
            Delta::Begin { without_reuse } => Delta::Begin { without_reuse: *without_reuse },
            Delta::Page(items) => Delta::Page(items.clone()),
            Delta::End { version, complete } => Delta::End { version: version.clone(), complete: *complete },
            Delta::Put(entry) => Delta::Put(entry.clone()),
            Delta::Remove { id, last } => Delta::Remove { id: id.clone(), last: last.clone() },
            Delta::Undecodable(id) => Delta::Undecodable(id.clone()),
            Delta::Bookmark(version) => Delta::Bookmark(version.clone()),
            Delta::Hold { shard, gained } => Delta::Hold { shard: *shard, gained: gained.clone() },
            Delta::Clear => Delta::Clear,
        }
    }
}
