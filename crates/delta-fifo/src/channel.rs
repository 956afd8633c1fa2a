//! `channel`: the async interface of a `DeltaFifo`. The sender waits while the queue is full.

use std::{collections::VecDeque, sync::Arc};

use kube_object::Delta;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::DeltaFifo;

/// Creates a [`DeltaFifo`] of this capacity between one sender and one receiver.
///
/// # No wake-up is lost
/// Each side checks the queue under the lock, and waits only after it has released the lock. The
/// dangerous interleaving is
///
/// ```text
/// sender    checks: full, unlocks
/// receiver      takes a batch, unlocks, wakes the sender, finds the queue empty, waits
/// sender    begins to wait
/// ```
///
/// If a wake-up reached only a side that already waits, both would now wait indefinitely. But
/// [`Notify::notify_one`] stores a permit if there is no waiter, so the sender's wait ends
/// immediately. One permit is enough: each direction has one waiter (`&mut self`), which checks again
/// after every wake-up. A permit from an earlier change costs one more check. A waiter that is
/// cancelled after its wake-up loses nothing, because the next call checks before it waits.
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        fifo: Mutex::new(DeltaFifo::new(capacity)),
        // Notified when a batch or the receiver has left.
        room: Notify::new(),
        // Notified when a delta was queued or the sender has left.
        data: Notify::new(),
    });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

struct Shared<T> {
    fifo: Mutex<DeltaFifo<T>>,
    room: Notify,
    data: Notify,
}

/// The receiver was dropped, so the deltas cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("receiver of the deltas was dropped")]
pub struct Closed;

/// The reflector's end of a [`channel`]. After it is dropped, the receiver drains the queue and ends.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Moves all of `deltas` into the queue, in order. Waits for room as needed.
    ///
    /// # Errors
    /// [`Closed`] if the receiver was dropped. Deltas that were not queued stay in `deltas`.
    ///
    /// # Cancel safety
    /// Cancel safe: at each moment a delta is either in the queue or still in `deltas`. Another call
    /// with the same `deltas` continues.
    pub async fn send(&mut self, deltas: &mut VecDeque<Delta<T>>) -> Result<(), Closed> {
        loop {
            self.fill(deltas)?;
            if deltas.is_empty() {
                return Ok(());
            }
            self.shared.room.notified().await;
        }
    }

    fn fill(&self, deltas: &mut VecDeque<Delta<T>>) -> Result<(), Closed> {
        let mut fifo = self.shared.fifo.lock();
        if fifo.is_closed() {
            return Err(Closed);
        }
        fifo.push_all(deltas);
        drop(fifo);
        self.shared.data.notify_one();
        Ok(())
    }

    /// Waits until the receiver is dropped.
    ///
    /// # Cancel safety
    /// Cancel safe: this changes nothing.
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

/// The store's end of a [`channel`]. Dropping it discards the queue and makes the sender's calls fail.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Receiver<T> {
    /// Waits for the next batch of the [`DeltaFifo`], which is never empty. Returns `None` once the
    /// sender is dropped and the queue is empty.
    ///
    /// # Cancel safety
    /// Cancel safe: a batch leaves the queue only in the poll that returns it.
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
        // The old queue is dropped after the lock is free: it can hold many objects.
        let _queued = std::mem::replace(&mut *self.shared.fifo.lock(), closed);
        self.shared.room.notify_one();
    }
}

#[cfg(test)]
mod tests;
