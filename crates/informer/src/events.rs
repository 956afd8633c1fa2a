//! `EventStream`: events for those who want to await between them.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::Stream;
use kube_delta_fifo::Delivery;
use kube_object::{Event, Object};
use tokio::time::Interval;

use crate::{
    mailbox::{Mailbox, Queued},
    resync,
    shared::Shared,
};

/// The events of an informer as a [`Stream`], with the promises of an
/// [`EventHandler`](crate::EventHandler); an event counts as handled when the next is asked for.
///
/// Far behind, changes are merged: memory is bounded by the objects, not by the events. Ends when
/// the informer is stopped. Dropping it unregisters it. With a resync period it must be polled on a
/// tokio runtime.
pub struct EventStream<T: Object> {
    id: u64,
    shared: Arc<Shared<T>>,
    mailbox: Arc<Mailbox<T>>,
    /// The delivery in hand, and how many of its events have been given out.
    current: Option<(Delivery<T>, usize)>,
    /// Taken in the first poll: a stream may be made before there is a runtime with a clock.
    period: Option<Duration>,
    resync: Option<Interval>,
}

impl<T: Object> EventStream<T> {
    pub(crate) fn new(
        id: u64,
        shared: Arc<Shared<T>>,
        mailbox: Arc<Mailbox<T>>,
        period: Option<Duration>,
    ) -> Self {
        Self { id, shared, mailbox, current: None, period, resync: None }
    }

    /// Gives the stream a name, by which the status of its informer calls it. Until then it is `#` and the number of its
    /// registration.
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Self {
        self.mailbox.set_name(name.as_ref());
        self
    }

    /// Whether each object of the initial list has been handled.
    pub fn has_synced(&self) -> bool {
        *self.mailbox.synced().borrow()
    }

    /// Events that wait to be read; far behind, one for each changed object.
    pub fn pending(&self) -> usize {
        let in_hand = self.current.as_ref().map_or(0, |(delivery, given)| delivery.len() - given);
        in_hand + self.mailbox.pending()
    }

    /// The next event of the delivery in hand; hands the delivery back after its last.
    fn next_in_hand(&mut self) -> Option<Event<T>> {
        let (delivery, given) = self.current.as_mut()?;
        if let Some(event) = delivery.get(*given).cloned() {
            *given += 1;
            return Some(event);
        }
        if let Some((delivery, _)) = self.current.take() {
            self.mailbox.returned(delivery);
        }
        None
    }
}

impl<T: Object> Stream for EventStream<T> {
    type Item = Event<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        if let Some(period) = self.period.take() {
            self.resync = resync::ticks(period);
        }
        loop {
            if let Some(event) = self.next_in_hand() {
                return Poll::Ready(Some(event));
            }
            let ticked = self.resync.as_mut().is_some_and(|ticks| ticks.poll_tick(context).is_ready());
            if ticked {
                self.shared.resync(&self.mailbox);
                continue;
            }
            match self.mailbox.poll_take(context) {
                Poll::Ready(Some(delivery)) => self.current = Some((delivery, 0)),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<T: Object> Drop for EventStream<T> {
    fn drop(&mut self) {
        self.shared.remove(self.id);
        self.mailbox.close(Queued::Drop);
    }
}
