//! `channel`: the async face of a `DeltaFifo`, which makes the sender wait while it is full.

use std::{collections::VecDeque, sync::Arc};

use kube_object::Delta;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::DeltaFifo;

/// A [`DeltaFifo`] of this bound (see there) between one sender and one receiver.
///
/// # No wake-up is lost
/// Each side looks at the queue under the lock and waits only after it has let go of it. The
/// dangerous interleaving is
///
/// ```text
/// sender    looks: full, unlocks
/// receiver      takes a batch, unlocks, wakes the sender, finds the queue empty, waits
/// sender    begins to wait
/// ```
///
/// after which both would wait for ever if waking reached only those who wait already.
/// [`Notify::notify_one`] stores a permit when nobody waits, so the sender's wait ends at once.
/// One permit is enough because each direction has one waiter (`&mut self`), who looks again
/// after every wake-up. A permit left over from an earlier change costs one more look; a waiter
/// cancelled after it was woken loses nothing, because the next call looks before it waits.
pub fn channel<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        fifo: Mutex::new(DeltaFifo::new(bound)),
        // Fires when the queue has lost a batch or its receiver.
        room: Notify::new(),
        // Fires when the queue has gained a delta or lost its sender.
        data: Notify::new(),
    });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

struct Shared<T> {
    fifo: Mutex<DeltaFifo<T>>,
    room: Notify,
    data: Notify,
}

/// The receiver is gone, so nobody will apply what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the receiver of the deltas is gone")]
pub struct Closed;

/// The reflector's end. Dropping it lets the receiver drain the queue and then end.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Moves all of `deltas` into the queue, in order, waiting for room as needed.
    ///
    /// # Errors
    /// [`Closed`] if the receiver is gone; what was not queued stays in `deltas`.
    ///
    /// # Cancel safety
    /// Cancel safe: at each moment a delta is either in the queue or still in `deltas`. After a
    /// cancelled call the prefix that was queued has left `deltas`, and calling again with the
    /// same `deltas` goes on where it stopped.
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

    /// Waits until the receiver is gone, for a sender that has nothing to send.
    ///
    /// # Cancel safety
    /// Cancel safe: it changes nothing.
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

/// The store's end. Dropping it discards what is queued and makes the sender's calls fail.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Receiver<T> {
    /// The next batch, as [`DeltaFifo`] cuts it, never empty; `None` once the sender is gone and
    /// the queue is drained.
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
        // The old queue is dropped after the lock is free: its objects may be many.
        let _queued = std::mem::replace(&mut *self.shared.fifo.lock(), closed);
        self.shared.room.notify_one();
    }
}

#[cfg(test)]
mod tests;
