//! A source of objects in memory, so that the figures contain no network and no decoding.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use kube_informer::listwatch::{
    Decoded, ListEnd, ListPart, ListRequest, ListWatchError, WatchEvent, WatchRequest,
};
use kube_informer::{Entry, ListerWatcher, Object, ResourceVersion};
use kube_object::CacheProbe;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The number of objects that a list returns together, like a page of a server.
const PAGE_SIZE: usize = 500;
/// The maximum number of sent events that no watch has received yet.
pub(super) const MAX_WAITING_EVENTS: usize = 1024;
/// The resourceVersion of the list.
const LIST_VERSION: u64 = 1;

/// Lists its objects once. Then a watch sends the events of the channel, one by one.
pub(super) struct MemorySource<T> {
    objects: Vec<Entry<T>>,
    events: Arc<Mutex<Receiver<Entry<T>>>>,
}

impl<T> MemorySource<T> {
    /// Creates a source, and the sender of changed objects.
    pub(super) fn new(objects: Vec<Entry<T>>) -> (Self, Sender<Entry<T>>) {
        let (sender, receiver) = channel(MAX_WAITING_EVENTS);
        (Self { objects, events: Arc::new(Mutex::new(receiver)) }, sender)
    }
}

impl<T: Object> ListerWatcher<T> for MemorySource<T> {
    fn list(
        &self,
        _: ListRequest,
        _: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<ListPart<T>, ListWatchError>> {
        let items = |page: &[Entry<T>]| ListPart::Items {
            items: page.iter().cloned().map(Decoded::Object).collect(),
            nameless: Vec::new(),
        };
        let mut parts: Vec<ListPart<T>> = self.objects.chunks(PAGE_SIZE).map(items).collect();
        parts.push(ListPart::End(ListEnd {
            version: ResourceVersion::from(LIST_VERSION),
            next: None,
            remaining: None,
        }));
        stream::iter(parts).map(Ok).boxed()
    }

    fn watch(
        &self,
        _: WatchRequest,
        _: Arc<dyn CacheProbe<T>>,
    ) -> BoxStream<'static, Result<Vec<WatchEvent<T>>, ListWatchError>> {
        // A later watch continues with the remaining events.
        let events = Arc::clone(&self.events).lock_owned().map(|events| {
            stream::unfold(events, |mut events| async move {
                let event = WatchEvent::Modified(Decoded::Object(events.recv().await?));
                Some((Ok(vec![event]), events))
            })
        });
        stream::iter([Ok(vec![WatchEvent::Opened])]).chain(events.flatten_stream()).boxed()
    }

    fn streams_lists(&self) -> bool {
        false
    }
}
