//! `EventStream`: the events of an informer as a `Stream`.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use super::resync::Resync;
use crate::{
    shared::Shared,
    subscription::{Subscription, Unsubscribe},
};
use futures_util::Stream;
use kube_delta_fifo::Delivery;
use kube_object::{Event, Object};

/// Yields the events of an informer as a [`Stream`]. [`Informer::events`](crate::Informer::events)
/// creates it. The contract of [`EventHandler`](crate::EventHandler) applies: an event counts as
/// handled when the reader polls for the next event.
///
/// If the reader lags, its events are coalesced. The queue therefore holds at most one change per
/// object, in addition to a bounded number of events. After the informer is stopped, the stream
/// yields its queued events, and then `None`. If you drop the stream, the informer no longer queues
/// events for it.
///
/// On a tokio runtime, each event uses a part of the budget of the task. If the budget is used up, a
/// poll returns `Pending` and wakes the task, so that other tasks can run.
///
/// If the informer has a resync period, poll the stream on a tokio runtime. Otherwise, a poll
/// panics.
pub struct EventStream<T: Object> {
    subscription: Subscription<T>,
    /// Keeps the state of an informer that is not started.
    shared: Arc<Shared<T>>,
    /// The current delivery, and the number of yielded events.
    current: Option<(Delivery<T>, usize)>,
    resync: Resync,
}

impl<T: Object> EventStream<T> {
    pub(crate) fn new(
        subscription: Subscription<T>,
        shared: Arc<Shared<T>>,
        period: Option<Duration>,
    ) -> Self {
        Self { subscription, shared, current: None, resync: Resync::new(period) }
    }

    /// Sets the name of the stream in the status of the informer. The default is `#` and the number
    /// of the registration, for example `#3`.
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Self {
        self.subscription.mailbox.set_name(name.as_ref());
        self
    }

    /// Returns whether the reader has handled each object of the initial list.
    pub fn has_synced(&self) -> bool {
        *self.subscription.mailbox.synced().borrow()
    }

    /// Returns the number of queued events. Coalesced events count once per object.
    pub fn pending(&self) -> usize {
        let remaining = self.current.as_ref().map_or(0, |(delivery, yielded)| delivery.len() - yielded);
        remaining + self.subscription.mailbox.pending()
    }

    /// Returns the next event of the current delivery. After the last event, acknowledges the
    /// delivery and returns `None`.
    fn next_of_current(&mut self) -> Option<Event<T>> {
        let (delivery, yielded) = self.current.as_mut()?;
        if let Some(event) = delivery.get(*yielded).cloned() {
            *yielded += 1;
            return Some(event);
        }
        if let Some((delivery, _)) = self.current.take() {
            self.subscription.mailbox.acknowledge(delivery);
        }
        None
    }
}

impl<T: Object> Stream for EventStream<T> {
    type Item = Event<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        // A long list must not block other tasks of this worker thread.
        ready!(pin!(tokio::task::consume_budget()).poll(context));
        loop {
            if let Some(event) = self.next_of_current() {
                return Poll::Ready(Some(event));
            }
            let Self { subscription, shared, resync, .. } = &mut *self;
            match resync.poll_take(context, &subscription.mailbox, || Some(Arc::clone(shared))) {
                Poll::Ready(Some(delivery)) => self.current = Some((delivery, 0)),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<T: Object> Drop for EventStream<T> {
    fn drop(&mut self) {
        self.subscription.cancel(Unsubscribe::DropQueued);
    }
}
