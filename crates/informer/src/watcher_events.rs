//! `WatcherEvents`: an informer as the watcher of kube-runtime. With the feature `kube-runtime`.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::Stream;
use kube_object::{Event, Object};
use kube_runtime::watcher;

use crate::{EventStream, Informer};

impl<T: Object + Clone> Informer<T> {
    /// The events in the words of kube-runtime's `watcher`, for what is built on one: its `reflector` and with it its
    /// `Controller`. Many controllers share this informer's watch and cache.
    ///
    /// kube-runtime owns its objects, so that each is cloned. There is one `Init`, as what was missed is told as changes
    /// and deletions; and no error, as the informer goes on by itself ([`Informer::status`] says how it is). A resync
    /// period shows each object again as an `Apply`.
    ///
    /// ```no_run
    /// # use futures_util::StreamExt;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube_informer::Informer;
    /// # async fn example(informer: Informer<ConfigMap>) {
    /// use kube_runtime::{WatchStreamExt, reflector};
    ///
    /// let (reader, writer) = reflector::store::<ConfigMap>();
    /// let touched = reflector(writer, informer.watcher_events()).applied_objects();
    /// // kube_runtime::Controller::for_stream(touched, reader) ...
    /// # touched.count().await;
    /// # drop(reader);
    /// # }
    /// ```
    pub fn watcher_events(&self) -> WatcherEvents<T> {
        WatcherEvents { events: self.events(), phase: Phase::Before, ready: VecDeque::new() }
    }
}

/// See [`Informer::watcher_events`]. Ends when the informer is stopped; dropping it unregisters it.
pub struct WatcherEvents<T: Object> {
    events: EventStream<T>,
    phase: Phase,
    ready: VecDeque<watcher::Event<T>>,
}

/// How far the initial state is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Initial,
    After,
}

impl<T: Object + Clone> WatcherEvents<T> {
    /// Initial adds come before anything else, so whatever else comes ends the initial state.
    fn translate(&mut self, event: Event<T>) {
        match (self.phase, event) {
            (Phase::Initial, Event::Added { object, initial: true }) => {
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
        if self.phase != Phase::After {
            self.phase = Phase::After;
            self.ready.push_back(watcher::Event::InitDone);
        }
    }
}

impl<T: Object + Clone> Stream for WatcherEvents<T> {
    type Item = watcher::Result<watcher::Event<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.phase == Phase::Before {
            self.phase = Phase::Initial;
            return Poll::Ready(Some(Ok(watcher::Event::Init)));
        }
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            let polled = Pin::new(&mut self.events).poll_next(context);
            // No event is left of an initial state that is complete.
            if polled.is_pending() && self.events.has_synced() && self.phase == Phase::Initial {
                self.end_initial();
                continue;
            }
            match ready!(polled) {
                Some(event) => self.translate(event),
                None => return Poll::Ready(None),
            }
        }
    }
}

// Nothing of it is referred to from within.
impl<T: Object> Unpin for WatcherEvents<T> {}
