//! A future that is polled in the middle of whatever wakes it: who watches with one sees each change, and before anybody
//! else acts on it.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio::task::unconstrained;

pub(super) struct Spy(Mutex<Option<BoxFuture<'static, ()>>>);

impl Spy {
    /// Polls it for the first time.
    pub(super) fn new(watching: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        // Whoever waits for a task's budget would miss a change.
        let spy = Arc::new(Self(Mutex::new(Some(unconstrained(watching).boxed()))));
        spy.poll();
        spy
    }

    /// What it waits for and this hold each other until this.
    pub(super) fn end(&self) {
        self.0.lock().take();
    }

    fn poll(self: &Arc<Self>) {
        // What is taken already is ending.
        let Some(mut watching) = self.0.try_lock() else { return };
        let waker = Waker::from(Arc::clone(self));
        let polled = watching.as_mut().map(|watching| watching.poll_unpin(&mut Context::from_waker(&waker)));
        if polled == Some(Poll::Ready(())) {
            *watching = None;
        }
    }
}

impl Wake for Spy {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}
