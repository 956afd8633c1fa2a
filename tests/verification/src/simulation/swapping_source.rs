//! A source that swaps two consecutive events of different objects in an open watch.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt, stream::BoxStream};
use kube_informer::{ListWatchError, ListerWatcher, Object};
use kube_listwatch::{ListPart, ListRequest, WatchEvent, WatchFrom, WatchRequest};
use kube_object::CacheProbe;
use parking_lot::Mutex;

use super::{history::Recorder, opaque_versions::number_of};

pub(super) struct SwappingSource<S> {
    pub(super) inner: S,
    pub(super) recorder: Arc<Mutex<Recorder>>,
}

type Events<T> = Result<Vec<WatchEvent<T>>, ListWatchError>;

impl<T: Object, S: ListerWatcher<T>> ListerWatcher<T> for SwappingSource<S> {
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
        let initial = matches!(request.from, WatchFrom::InitialEvents(_));
        let events = self.inner.watch(request, known);
        SwappingStream { events, recorder: Arc::clone(&self.recorder), initial, held: None }.boxed()
    }

    fn path(&self) -> String {
        self.inner.path()
    }
}

struct SwappingStream<T> {
    events: BoxStream<'static, Events<T>>,
    recorder: Arc<Mutex<Recorder>>,
    /// True before the end of the initial events, which have no order.
    initial: bool,
    /// The event that is swapped with the next event, if the next event is of another object.
    held: Option<WatchEvent<T>>,
}

impl<T: Object> Stream for SwappingStream<T> {
    type Item = Events<T>;

    /// If the watch ends or fails before the next event, the held event is lost with the connection.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Events<T>>> {
        loop {
            match self.events.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(events))) => {
                    let passed = self.pass(events);
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(passed)));
                    }
                }
                Poll::Pending => {
                    return self.held.take().map_or(Poll::Pending, |held| Poll::Ready(Some(Ok(vec![held]))));
                }
                ended => return ended,
            }
        }
    }
}

impl<T: Object> SwappingStream<T> {
    fn pass(&mut self, events: Vec<WatchEvent<T>>) -> Vec<WatchEvent<T>> {
        let mut passed = Vec::with_capacity(events.len() + 1);
        for event in events {
            let held = self.held.take();
            if let Some(held) = held {
                if let Some((first, next)) = held.object_id().zip(event.object_id())
                    && first.key != next.key
                {
                    self.recorder.lock().swapped(number_of(&next.version));
                    passed.extend([event, held]);
                    continue;
                }
                passed.push(held);
            }
            let is_end = matches!(event, WatchEvent::Bookmark { initial_events_end: true, .. });
            self.initial &= !is_end;
            match event.object_id().is_some() && !self.initial && self.recorder.lock().swaps_next {
                true => self.held = Some(event),
                false => passed.push(event),
            }
        }
        passed
    }
}
