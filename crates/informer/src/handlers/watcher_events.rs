//! `WatcherEvents`: converts the events of an informer to events of kube-runtime's watcher.
//! Requires the feature `kube-runtime`.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::Stream;
use kube_object::{Event, Object};
use kube_runtime::watcher;

use super::EventStream;
use crate::Informer;

impl<T: Object + Clone> Informer<T> {
    /// Returns the events as a stream with the item type of kube-runtime's `watcher`. You can pass
    /// this stream to kube-runtime's `reflector` and then to its `Controller`. Many controllers can
    /// thus share the watch of one informer.
    ///
    /// The stream yields exactly one `Init`. If the watch is lost, the stream does not yield
    /// another `Init`. It yields the missed changes as `Apply` and `Delete`. A resync yields an
    /// `Apply` for each object.
    ///
    /// The stream yields no errors, because the informer retries. For failures, see
    /// [`Informer::status`]. The stream clones each object, because kube-runtime owns its objects.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube_informer::Informer;
    /// use kube_runtime::{WatchStreamExt, reflector};
    ///
    /// # use futures_util::StreamExt;
    /// # async fn example(informer: Informer<ConfigMap>) {
    /// let (reader, writer) = reflector::store::<ConfigMap>();
    /// let touched = reflector(writer, informer.watcher_events()).applied_objects();
    /// // kube_runtime::Controller::for_stream(touched, reader) ...
    /// # touched.count().await;
    /// # drop(reader);
    /// # }
    /// ```
    pub fn watcher_events(&self) -> WatcherEvents<T> {
        WatcherEvents { events: self.events(), phase: InitPhase::Before, ready: VecDeque::new() }
    }
}

/// Yields the events of an informer as events of kube-runtime's `watcher`.
/// [`Informer::watcher_events`] creates this stream.
///
/// After the informer is stopped, the stream yields its queued events, and then `None`. If you drop
/// the stream, the informer no longer queues events for it.
pub struct WatcherEvents<T: Object> {
    events: EventStream<T>,
    phase: InitPhase,
    ready: VecDeque<watcher::Event<T>>,
}

/// The progress of the initial list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InitPhase {
    Before,
    Initial,
    After,
}

impl<T: Object + Clone> WatcherEvents<T> {
    /// Converts an event. Initial adds precede all other events, so any other event completes the
    /// initial list.
    fn convert(&mut self, event: Event<T>) {
        match (self.phase, event) {
            (InitPhase::Initial, Event::Added { object, initial: true }) => {
                self.ready.push_back(watcher::Event::InitApply(Arc::unwrap_or_clone(object.object)));
            }
            (_, event) => {
                self.end_initial();
                self.ready.push_back(match event {
                    Event::Added { object, .. } => watcher::Event::Apply(Arc::unwrap_or_clone(object.object)),
                    Event::Updated { new, .. } => watcher::Event::Apply(Arc::unwrap_or_clone(new.object)),
                    Event::Deleted { last, .. } => watcher::Event::Delete(Arc::unwrap_or_clone(last.object)),
                });
            }
        }
    }

    fn end_initial(&mut self) {
        if self.phase != InitPhase::After {
            self.phase = InitPhase::After;
            self.ready.push_back(watcher::Event::InitDone);
        }
    }
}

impl<T: Object + Clone> Stream for WatcherEvents<T> {
    type Item = watcher::Result<watcher::Event<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.phase == InitPhase::Before {
            self.phase = InitPhase::Initial;
            return Poll::Ready(Some(Ok(watcher::Event::Init)));
        }
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            let polled = Pin::new(&mut self.events).poll_next(context);
            // The initial list is complete, and all of its events were yielded.
            if polled.is_pending() && self.events.has_synced() && self.phase == InitPhase::Initial {
                self.end_initial();
                continue;
            }
            match ready!(polled) {
                Some(event) => self.convert(event),
                None => return Poll::Ready(None),
            }
        }
    }
}

// No field is pinned.
impl<T: Object> Unpin for WatcherEvents<T> {}
