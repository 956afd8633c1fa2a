//! Getters polled by hand: each with a waker that only counts, so that a test sees who was woken and how often.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use kube_workqueue::{Item, WorkQueue};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A `get` that is under way.
pub(crate) struct Getter {
    future: Pin<Box<dyn Future<Output = Option<Item<u8>>>>>,
    wakes: Arc<Count>,
    seen: usize,
}

impl Getter {
    /// Not polled yet.
    pub(crate) fn new(queue: &WorkQueue<u8>) -> Self {
        let queue = queue.clone();
        Getter { future: Box::pin(async move { queue.get().await }), wakes: Arc::default(), seen: 0 }
    }

    /// How often it was woken in all.
    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }

    /// It was woken since the last poll.
    pub(crate) fn is_woken(&self) -> bool {
        self.wakes() > self.seen
    }

    /// One poll.
    pub(crate) fn poll(&mut self) -> Poll<Option<Item<u8>>> {
        self.seen = self.wakes();
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}
