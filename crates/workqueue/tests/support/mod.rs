//! `Getter`: a `get` that a test polls by hand, with a waker that counts wake-ups.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use kube_workqueue::{Item, WorkQueue};

#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A pending call of `get`.
pub(crate) struct Getter {
    future: Pin<Box<dyn Future<Output = Option<Item<u8>>>>>,
    wakes: Arc<WakeCount>,
    wakes_at_last_poll: usize,
}

impl Getter {
    /// Creates a getter that was not polled yet.
    pub(crate) fn new(queue: &WorkQueue<u8>) -> Self {
        let queue = queue.clone();
        Getter {
            future: Box::pin(async move { queue.get().await }),
            wakes: Arc::default(),
            wakes_at_last_poll: 0,
        }
    }

    /// Returns the number of wake-ups since the getter was created.
    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }

    /// Returns true if the getter was woken since the last poll.
    pub(crate) fn is_woken(&self) -> bool {
        self.wakes() > self.wakes_at_last_poll
    }

    /// Polls once.
    pub(crate) fn poll(&mut self) -> Poll<Option<Item<u8>>> {
        self.wakes_at_last_poll = self.wakes();
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}
