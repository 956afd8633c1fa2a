//! `channel`: the async interface of a `DeltaFifo`. The sender waits while the queue is full.

use std::{collections::VecDeque, sync::Arc};

use kube_object::Delta;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::DeltaFifo;

/// Creates a [`DeltaFifo`] of this capacity between one sender and one receiver. The capacity
/// counts objects ([`Delta::weight`]).
///
/// # No wake-up is lost
/// Each side checks the queue under the lock, and waits only after it has released the lock. In the
/// following order of operations, a wake-up could be lost:
///
/// ```text
/// sender    checks: full, unlocks
/// receiver      takes a batch, unlocks, wakes the sender, finds the queue empty, waits
/// sender    starts to wait
/// ```
///
/// Here the receiver calls wake before the sender waits. Without a stored permit, both sides would then
/// wait indefinitely. [`Notify::notify_one`] therefore stores a permit if there is no waiter, and the
/// sender continues immediately. One permit is sufficient, because each direction has
/// only one waiter (`&mut self`). The waiter checks the queue again after every wake-up. A permit from
/// an earlier change costs only one more check. If a waiter is cancelled after its wake-up, the next
/// call checks the queue before it waits.
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

/// Reports that the receiver was dropped, so that deltas cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("receiver of the deltas was dropped")]
pub struct SendError;

/// Sends deltas into a [`channel`]. The reflector owns the sender.
///
/// After the sender is dropped, the receiver returns the queued deltas, and then `None`.
pub struct Sender<T> {
    shared: Arc<ChannelState<T>>,
}

impl<T> Sender<T> {
    /// Moves all `deltas` into the queue, in order. Waits while the queue is full.
    ///
    /// # Errors
    /// Returns [`SendError`] if the receiver was dropped. Deltas that were not queued remain in
    /// `deltas`.
    ///
    /// # Cancel safety
    /// Cancel safe: a delta is always either in the queue or in `deltas`. To continue, call the
    /// method again with the same `deltas`.
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
    /// Cancel safe: the method only waits.
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
/// If the receiver is dropped, the queue is discarded, and calls of the sender fail.
pub struct Receiver<T> {
    shared: Arc<ChannelState<T>>,
}

impl<T> Receiver<T> {
    /// Waits for the next batch of the [`DeltaFifo`]. A batch is never empty. Returns `None` after
    /// the sender was dropped and the queue is empty.
    ///
    /// # Cancel safety
    /// Cancel safe: a batch is removed from the queue only in the poll that returns the batch.
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
