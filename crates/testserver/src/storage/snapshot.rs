//! The objects of one resource at a revision: the current objects and the changes to undo.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::storage::entry::Entry;
use crate::storage::log::Key;

/// A view of one revision. It is read in key order and does not copy unchanged objects.
pub(crate) struct Snapshot<'a> {
    objects: &'a BTreeMap<Key, Arc<Entry>>,
    /// The changed objects with their state at the revision; `None` if they did not exist.
    undone: BTreeMap<Key, Option<Arc<Entry>>>,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(
        objects: &'a BTreeMap<Key, Arc<Entry>>,
        undone: BTreeMap<Key, Option<Arc<Entry>>>,
    ) -> Self {
        Self { objects, undone }
    }

    /// Returns the objects under `prefix` whose key is at or after `start`, in key order.
    pub(crate) fn walk<'s>(&'s self, prefix: &'s str, start: &str) -> impl Iterator<Item = &'s Arc<Entry>> {
        let from: Key = start.max(prefix).into();
        let bounds = (Bound::Included(from), Bound::Unbounded);
        let mut now = self.objects.range(bounds.clone()).peekable();
        let mut then = self.undone.range(bounds).peekable();
        let merged = std::iter::from_fn(move || {
            let undone_first = match (now.peek(), then.peek()) {
                (Some((now, _)), Some((then, _))) => then <= now,
                (None, Some(_)) => true,
                (_, None) => false,
            };
            if !undone_first {
                return now.next().map(|(key, entry)| (key, Some(entry)));
            }
            let (key, entry) = then.next()?;
            now.next_if(|(other, _)| *other == key);
            Some((key, entry.as_ref()))
        });
        merged.take_while(move |(key, _)| key.starts_with(prefix)).filter_map(|(_, entry)| entry)
    }
}
