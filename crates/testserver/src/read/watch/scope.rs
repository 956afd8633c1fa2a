//! The scope of a watch: the selected objects, and their encoding as frames.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::encoding::object_encoder::ObjectEncoder;
use crate::read::list::prefix;
use crate::read::options::Selection;
use crate::state::{Served, State};
use crate::storage::entry::{Change, Entry};
use crate::storage::log::{Event, TableId};

pub(super) struct WatchScope {
    pub(super) served: Served,
    /// The prefix of the keys in the namespace.
    prefix: String,
    select: Selection,
    /// True if the selection contains all objects. The watch then skips the selectors.
    everything: bool,
    pub(super) encoder: ObjectEncoder,
}

impl WatchScope {
    pub(super) fn new(
        served: Served,
        namespace: Option<&str>,
        select: Selection,
        encoder: ObjectEncoder,
    ) -> Self {
        Self { served, prefix: prefix(namespace), everything: select.is_everything(), select, encoder }
    }

    /// Returns whether the resource is still served. If its CRD is deleted and created again, it counts as
    /// another resource.
    pub(super) fn is_served(&self, state: &State) -> bool {
        state.store.table(self.table()).serves(self.served.incarnation)
    }

    /// Returns the table that the watch follows.
    pub(super) fn table(&self) -> TableId {
        self.served.table
    }

    /// Returns the selected objects at a revision.
    pub(super) fn objects_at(&self, state: &State, revision: u64) -> VecDeque<Arc<Entry>> {
        let table = state.store.table(self.table());
        if revision == state.store.revision() {
            let objects = table.under(&self.prefix).map(|(_, entry)| entry);
            return objects.filter(|entry| self.selects(entry)).cloned().collect();
        }
        let then = table.then(revision);
        then.walk(&self.prefix, "").filter(|entry| self.selects(entry)).cloned().collect()
    }

    fn selects(&self, entry: &Entry) -> bool {
        self.everything || self.select.matches(&entry.essentials)
    }

    /// Encodes an event, if the watch selects its object. An object that starts to match is added. An object
    /// that stops to match is deleted.
    pub(super) fn frame(&self, event: &Event) -> Option<Bytes> {
        if !event.object.key().starts_with(&self.prefix) {
            return None;
        }
        if self.everything {
            return Some(self.encoder.frame(event.change, &event.object));
        }
        let is_selected = event.change != Change::Deleted && self.selects(&event.object);
        let previous = event.previous.as_ref().filter(|previous| self.selects(previous));
        match (previous, is_selected) {
            (None, false) => None,
            (None, true) => Some(self.encoder.frame(Change::Added, &event.object)),
            (Some(_), true) => Some(self.encoder.frame(Change::Modified, &event.object)),
            (Some(previous), false) => {
                let last = previous.with_change(Change::Deleted, event.revision());
                Some(self.encoder.frame(Change::Deleted, &last))
            }
        }
    }
}
