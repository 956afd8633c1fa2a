//! `ListObserver`: reports the first lists of the informer to handlers with a checkpoint.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kube_object::{Delta, Listed, ObjectKey, ResourceVersion};
use parking_lot::Mutex;
use tokio::sync::watch;

/// A list that is in the store.
#[derive(Debug)]
pub(crate) struct AppliedList {
    pub(crate) version: ResourceVersion,
    /// Whether the identity of each item was readable.
    pub(crate) complete: bool,
    /// The objects that exist, but are not in the store, because they could not be decoded.
    pub(crate) undecodable: HashSet<ObjectKey>,
}

/// Reads the deltas of the informer until the first complete list. Does nothing if no handler has a
/// checkpoint.
pub(crate) struct ListObserver {
    is_enabled: AtomicBool,
    undecodable: Mutex<HashSet<ObjectKey>>,
    applied: watch::Sender<Option<Arc<AppliedList>>>,
}

impl ListObserver {
    pub(crate) fn new() -> Self {
        Self {
            is_enabled: AtomicBool::new(false),
            undecodable: Mutex::default(),
            applied: watch::Sender::new(None),
        }
    }

    /// Starts to observe. Must be called before the informer starts.
    pub(crate) fn enable(&self) -> watch::Receiver<Option<Arc<AppliedList>>> {
        self.is_enabled.store(true, Ordering::Release);
        self.applied.subscribe()
    }

    /// Returns whether a handler waits for a list.
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Acquire)
    }

    /// Reads the deltas of a batch before the store. Returns a list that the store applies with this batch.
    pub(crate) fn observe<T>(&self, batch: &[Delta<T>]) -> Option<AppliedList> {
        if !self.is_enabled() {
            return None;
        }
        let mut undecodable = self.undecodable.lock();
        let mut applied = None;
        for delta in batch {
            match delta {
                Delta::Begin { .. } | Delta::Clear => undecodable.clear(),
                Delta::Page(items) => {
                    let keys = items.iter().filter_map(|item| match item {
                        Listed::Undecodable(id) => Some(id.key.clone()),
                        Listed::Object(_) => None,
                    });
                    undecodable.extend(keys);
                }
                Delta::Undecodable(id) => drop(undecodable.insert(id.key.clone())),
                Delta::Put(entry) => drop(undecodable.remove(entry.key())),
                Delta::Remove { id, .. } => drop(undecodable.remove(&id.key)),
                // A sharded informer has no checkpoints.
                Delta::Bookmark(_) | Delta::Hold { .. } => {}
                Delta::End { version, complete } => {
                    let undecodable = undecodable.clone();
                    applied =
                        Some(AppliedList { version: version.clone(), complete: *complete, undecodable });
                }
            }
        }
        applied
    }

    /// Reports a list, after the store contains it and its events are in the mailboxes.
    pub(crate) fn report(&self, list: AppliedList) {
        if list.complete {
            self.is_enabled.store(false, Ordering::Release);
            self.undecodable.lock().clear();
        }
        self.applied.send_replace(Some(Arc::new(list)));
    }
}
