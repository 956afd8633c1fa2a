//! `channel`: the async interface of a `DeltaFifo`. The sender waits while the queue is full.

use std::{collections::VecDeque, sync::Arc};

use kube_object::Delta;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::DeltaFifo;

/// Creates a [`DeltaFifo`] with one sender and one receiver. The capacity is a number of objects
/// ([`Delta::weight`]).
///
/// # No wake-up is lost
/// Each side checks the queue under the lock, releases the lock, and then waits. Between the check
/// and the wait, the other side can change the queue and wake a task that does not wait yet:
///
/// ```text
/// sender    checks: full, unlocks
/// receiver      takes a batch, unlocks, wakes the sender, finds the queue empty, waits
/// sender    starts to wait
/// ```
///
/// [`Notify::notify_one`] stores a permit if no task waits. In this example, the sender takes the
/// permit and continues immediately. Without the permit, both sides would wait indefinitely.
///
/// One permit is sufficient, because each side has only one waiter (`&mut self`). A waiter checks
/// the queue again after each wake-up, so a permit of an earlier change only causes an additional
/// check. If a waiter is cancelled after its wake-up, the next call checks the queue before it
/// waits.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(ChannelState {
        fifo: Mutex::new(DeltaFifo::new(capacity)),
        // Notified after a batch was removed or the receiver was dropped.
        room: Notify::new(),
        // Notified after a delta was queued or the sender was dropped.
        data: Notify::new(),
    });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

struct ChannelState<T> {
    fifo: Mutex<DeltaFifo<T>>,
    room: Notify,
    data: Notify,
}

/// Reports that the receiver was dropped, so the deltas cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot queue deltas, because the receiver was dropped")]
pub struct SendError;

/// Sends deltas into a [`channel`]. The reflector owns the sender.
///
/// After the sender is dropped, [`Receiver::recv`] returns the queued deltas, and then `None`.
pub struct Sender<T> {
    shared: Arc<ChannelState<T>>,
}

impl<T> Sender<T> {
    /// Moves all `deltas` into the queue, in order. Waits while the queue is full.
    ///
    /// # Errors
    /// Returns [`SendError`] if the receiver was dropped. `deltas` then contains the deltas that
    /// were not queued.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Each delta is either in the queue or still in `deltas`. To
    /// continue, call the method again with the same `deltas`.
    pub async fn send(&mut self, deltas: &mut VecDeque<Delta<T>>) -> Result<(), SendError> {
        loop {
            self.fill(deltas)?;
            if deltas.is_empty() {
                return Ok(());
            }
            self.shared.room.notified().await;
        }
    }

    fn fill(&self, deltas: &mut VecDeque<Delta<T>>) -> Result<(), SendError> {
        let mut fifo = self.shared.fifo.lock();
        if fifo.is_closed() {
            return Err(SendError);
        }
        fifo.push_all(deltas);
        drop(fifo);
        self.shared.data.notify_one();
        Ok(())
    }

    /// Waits until the receiver is dropped.
    ///
    /// # Cancel safety
    /// This method is cancel safe, because it only waits and does not change any state.
    pub async fn closed(&mut self) {
        while !self.shared.fifo.lock().is_closed() {
            self.shared.room.notified().await;
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.fifo.lock().close();
        self.shared.data.notify_one();
    }
}

/// Receives deltas from a [`channel`]. The task that writes the store owns the receiver.
///
/// If the receiver is dropped, the queued deltas are discarded, and [`Sender::send`] returns
/// [`SendError`].
pub struct Receiver<T> {
    shared: Arc<ChannelState<T>>,
}

impl<T> Receiver<T> {
    /// Waits until the queue contains deltas, and returns the next batch
    /// ([`DeltaFifo::pop_batch`]). A batch is never empty. Returns `None` if the queue is empty and
    /// the sender was dropped.
    ///
    /// # Cancel safety
    /// This method is cancel safe. It removes a batch from the queue only in the poll that returns
    /// the batch.
    pub async fn recv(&mut self) -> Option<Vec<Delta<T>>> {
        loop {
            let (batch, closed) = self.take();
            if !batch.is_empty() {
                self.shared.room.notify_one();
                return Some(batch);
            }
            if closed {
                return None;
            }
            self.shared.data.notified().await;
        }
    }

    fn take(&self) -> (Vec<Delta<T>>, bool) {
        let mut fifo = self.shared.fifo.lock();
        (fifo.pop_batch(usize::MAX), fifo.is_closed())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut closed = DeltaFifo::new(0);
        closed.close();
        // The old queue can hold many objects. It is dropped after the lock is released.
        let _queued = std::mem::replace(&mut *self.shared.fifo.lock(), closed);
        self.shared.room.notify_one();
    }
}

#[cfg(test)]
mod tests;
