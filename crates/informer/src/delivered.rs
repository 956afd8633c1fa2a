//! `DeliveredEvents`: the latest delivered events, which the task of the informer retains and frees.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use kube_delta_fifo::Receiver;
use kube_object::{Delta, Event};
use tokio::time::timeout;

/// The maximum number of retained events. The replaced states of more objects could need much memory.
const MAX_EVENTS: usize = 1024;

/// The events are dropped after this time without a change.
const IDLE: Duration = Duration::from_millis(100);

/// Retains delivered events while handlers read them. The task of the informer therefore frees the replaced
/// states.
///
/// On a runtime with several threads, a handler often runs on another thread than the informer. To free the
/// memory of another thread is slow, because threads contend for locks of the allocator. A handler that
/// frees replaced states could therefore fall behind while objects change fast, and its queue would grow.
///
/// The number of retained events is bounded. A slower handler frees its events itself.
pub(crate) struct DeliveredEvents<T> {
    /// In the order of delivery.
    batches: VecDeque<Arc<[Event<T>]>>,
    /// The number of events in `batches`.
    len: usize,
}

impl<T> DeliveredEvents<T> {
    pub(crate) fn new() -> Self {
        Self { batches: VecDeque::new(), len: 0 }
    }

    /// Adds the events of a write. Drops events that all handlers have released, and the oldest events if
    /// there are too many.
    pub(crate) fn push(&mut self, events: Arc<[Event<T>]>) {
        self.len += events.len();
        self.batches.push_back(events);
        while let Some(oldest) = self.batches.front()
            && (self.len > MAX_EVENTS || Arc::strong_count(oldest) == 1)
        {
            self.len -= oldest.len();
            self.batches.pop_front();
        }
    }

    /// Receives the next deltas. Drops all events if no delta arrives.
    pub(crate) async fn recv(&mut self, deltas: &mut Receiver<T>) -> Option<Vec<Delta<T>>> {
        if !self.batches.is_empty() {
            if let Ok(batch) = timeout(IDLE, deltas.recv()).await {
                return batch;
            }
            *self = Self::new();
        }
        deltas.recv().await
    }
}

#[cfg(test)]
mod tests {
    use kube_delta_fifo::channel;
    use kube_object::{Entry, ObjectId, ObjectKey};

    use super::*;

    fn events(count: usize) -> Arc<[Event<u8>]> {
        let id =
            ObjectId { key: ObjectKey::new(None, "a"), uid: kube_object::Uid::new("1"), version: 1.into() };
        let object = Entry::new(id, Arc::new(0));
        vec![Event::Added { object, initial: false }; count].into()
    }

    #[test]
    fn events_are_retained_until_handlers_release_them() {
        let mut delivered = DeliveredEvents::new();
        let (first, second) = (events(3), events(2));
        delivered.push(Arc::clone(&first));
        delivered.push(Arc::clone(&second));
        drop(second);
        assert_eq!(delivered.len, 5, "a handler still holds the oldest events");
        drop(first);
        let last = events(1);
        delivered.push(Arc::clone(&last));
        assert_eq!((delivered.len, delivered.batches.len()), (1, 1));
    }

    #[test]
    fn number_of_retained_events_is_bounded() {
        let mut delivered = DeliveredEvents::new();
        let held: Vec<_> = (0..10).map(|_| events(MAX_EVENTS / 4)).collect();
        held.iter().for_each(|events| delivered.push(Arc::clone(events)));
        assert_eq!((delivered.len, delivered.batches.len()), (MAX_EVENTS, 4));
        delivered.push(events(MAX_EVENTS + 1));
        assert_eq!((delivered.len, delivered.batches.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_dropped_if_no_delta_arrives() {
        let (mut delivered, (_sender, mut deltas)) = (DeliveredEvents::new(), channel(1));
        let held = events(1);
        delivered.push(Arc::clone(&held));
        let receiving = timeout(IDLE * 2, delivered.recv(&mut deltas)).await;
        assert!(receiving.is_err(), "no delta was sent");
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
