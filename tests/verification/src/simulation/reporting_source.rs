//! A source that reports to the recorder each delivery to the reflector. The cache must never have
//! later data.

use std::sync::Arc;

use futures_util::{StreamExt, stream::BoxStream};
use kube_informer::{ListWatchError, ListerWatcher, Object};
use kube_listwatch::{Decoded, ListAt, ListPart, ListRequest, WatchEvent, WatchFrom, WatchRequest};
use kube_object::{CacheProbe, ResourceVersion};
use parking_lot::Mutex;

use super::{history::Recorder, opaque_versions::number_of};

pub(super) struct ReportingSource<S> {
    pub(super) inner: S,
    pub(super) recorder: Arc<Mutex<Recorder>>,
    /// True if lists have versions. Otherwise, the position is not observed.
    pub(super) has_versions: bool,
}

fn number(version: &ResourceVersion) -> u64 {
    number_of(version).unwrap_or(0)
}

impl<T: Object, S: ListerWatcher<T>> ListerWatcher<T> for ReportingSource<S> {
    fn list(
        &self,
        request: ListRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>> {
        // A check of the server's version does not change the cache.
        let is_check = request.at == ListAt::Consistent && request.limit == Some(1);
        if is_check {
            self.recorder.lock().checks_version();
        }
        if is_check || !self.has_versions {
            return self.inner.list(request, known);
        }
        let recorder = Arc::clone(&self.recorder);
        recorder.lock().requests(false);
        let first = !matches!(request.at, ListAt::Continue(_));
        let consistent = matches!(request.at, ListAt::Consistent | ListAt::Continue(_));
        let shows = move |part: &Result<ListPart<T>, ListWatchError>| match part {
            Ok(ListPart::Items { items, nameless }) => {
                let is_nameless = |item: &Decoded<T>| item.id().key.name().is_empty();
                if !nameless.is_empty() || items.iter().any(is_nameless) {
                    recorder.lock().list_is_incomplete();
                }
            }
            Ok(ListPart::End(end)) => {
                recorder.lock().page(number(&end.version), first, end.next.is_none(), consistent);
            }
            Ok(ListPart::OtherSlots { .. }) | Err(_) => {}
        };
        self.inner.list(request, known).inspect(shows).boxed()
    }

    fn watch(
        &self,
        request: WatchRequest,
        known: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>> {
        if !self.has_versions {
            return self.inner.watch(request, known);
        }
        let recorder = Arc::clone(&self.recorder);
        let mut initial = matches!(request.from, WatchFrom::InitialEvents(_));
        let consistent = matches!(request.from, WatchFrom::InitialEvents(None));
        recorder.lock().requests(!initial);
        let mut is_over = false;
        let mut show = move |event: &WatchEvent<T>| {
            let mut recorder = recorder.lock();
            // The reflector closes the watch at an object without a name.
            is_over |= event.object_id().is_some_and(|id| !id.has_name());
            match event {
                _ if is_over => {}
                WatchEvent::Bookmark { version, initial_events_end: true } if initial => {
                    initial = false;
                    recorder.page(number(version), true, true, consistent);
                }
                WatchEvent::Bookmark { version, .. } if !initial => {
                    recorder.handed(number(version), true);
                }
                WatchEvent::Added(object) | WatchEvent::Modified(object) if !initial => {
                    recorder.handed(number(&object.id().version), false);
                }
                WatchEvent::Deleted { id, .. } if !initial => recorder.handed(number(&id.version), false),
                _ => {}
            }
        };
        let shows = move |events: &Result<Vec<WatchEvent<T>>, ListWatchError>| {
            events.iter().flatten().for_each(&mut show);
        };
        self.inner.watch(request, known).inspect(shows).boxed()
    }

    fn path(&self) -> String {
        self.inner.path()
    }
}
