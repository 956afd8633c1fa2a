//! The events of a snapshot: the initial adds of a new handler, and the deletes of a removed handler.
//! They are created in pages, so a join takes the same time and memory for each size of the cache.

use std::sync::Arc;

use kube_delta_fifo::EventPages;
use kube_object::{Event, Object, Removal};
use kube_store::Snapshot;

/// An initial add of each object.
pub(crate) struct InitialAdds<T>(pub(crate) Snapshot<T>);

/// A delete of each object.
pub(crate) struct FinalDeletes<T>(pub(crate) Snapshot<T>);

impl<T: Object> EventPages<T> for InitialAdds<T> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_initial(&self) -> bool {
        true
    }

    fn page(&self, cursor: usize, limit: usize) -> (Arc<[Event<T>]>, Option<usize>) {
        let (entries, next) = self.0.page(cursor, limit);
        (entries.into_iter().map(|object| Event::Added { object, initial: true }).collect(), next)
    }
}

impl<T: Object> EventPages<T> for FinalDeletes<T> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_initial(&self) -> bool {
        false
    }

    fn page(&self, cursor: usize, limit: usize) -> (Arc<[Event<T>]>, Option<usize>) {
        let (entries, next) = self.0.page(cursor, limit);
        let delete = |last| Event::Deleted { last, removal: Removal::Left };
        (entries.into_iter().map(delete).collect(), next)
    }
}
