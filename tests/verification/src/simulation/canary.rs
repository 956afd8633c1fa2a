//! Canaries: a source that corrupts its output in one way, which the simulation must detect.

use std::sync::Arc;

use futures_util::{StreamExt, stream::BoxStream};
use kube_informer::{ListWatchError, ListerWatcher, Object};
use kube_listwatch::{Decoded, ListPart, ListRequest, WatchEvent, WatchRequest};
use kube_object::CacheProbe;

/// The corruption of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// A DELETED is lost.
    LoseDelete,
    /// Swaps two consecutive changes.
    SwapChanges,
    /// Repeats a change with the version of a later change.
    RepeatAsNew,
}

/// A source with a canary.
pub(super) struct CorruptingSource<S> {
    pub(super) inner: S,
    pub(super) canary: Canary,
}

impl<T: Object, S: ListerWatcher<T>> ListerWatcher<T> for CorruptingSource<S> {
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>> {
        self.inner.list(request, known)
    }

    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>> {
        let mut spoiling = CorruptingStream { canary: self.canary, held: None, last: None };
        let events = self.inner.watch(request, known);
        events
            .map(move |events| Ok(events?.into_iter().flat_map(|event| spoiling.pass(event)).collect()))
            .boxed()
    }

    fn path(&self) -> String {
        self.inner.path()
    }
}

struct CorruptingStream<T> {
    canary: Canary,
    /// The event that is delivered after the next event.
    held: Option<WatchEvent<T>>,
    last: Option<kube_object::Entry<T>>,
}

impl<T> CorruptingStream<T> {
    fn pass(&mut self, event: WatchEvent<T>) -> Vec<WatchEvent<T>> {
        match (self.canary, event) {
            (Canary::LoseDelete, WatchEvent::Deleted { .. }) => Vec::new(),
            (Canary::SwapChanges, event) if event.object_id().is_some() => match self.held.take() {
                Some(held) => vec![event, held],
                None => {
                    self.held = Some(event);
                    Vec::new()
                }
            },
            (Canary::RepeatAsNew, WatchEvent::Modified(Decoded::Object(entry))) => {
                let before = self.last.replace(entry.clone());
                let again = before.map(|mut before| {
                    before.id.version = entry.id.version.clone();
                    WatchEvent::Modified(Decoded::Object(before))
                });
                again.into_iter().chain([WatchEvent::Modified(Decoded::Object(entry))]).collect()
            }
            (_, event) => vec![event],
        }
    }
}
