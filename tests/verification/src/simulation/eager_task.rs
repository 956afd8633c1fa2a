//! A future that is polled inside of its waker. It therefore observes each change before other tasks
//! run.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio::task::unconstrained;

pub(super) struct EagerTask(Mutex<Option<BoxFuture<'static, ()>>>);

impl EagerTask {
    /// Polls it for the first time.
    pub(super) fn new(watching: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        // A future with a task budget could miss a change.
        let task = Arc::new(Self(Mutex::new(Some(unconstrained(watching).boxed()))));
        task.poll();
        task
    }

    /// Breaks the reference cycle between this value and its future.
    pub(super) fn end(&self) {
        self.0.lock().take();
    }

    fn poll(self: &Arc<Self>) {
        // If the lock is held, the future is being dropped.
        let Some(mut watching) = self.0.try_lock() else { return };
        let waker = Waker::from(Arc::clone(self));
        let polled = watching.as_mut().map(|watching| watching.poll_unpin(&mut Context::from_waker(&waker)));
        if polled == Some(Poll::Ready(())) {
            *watching = None;
        }
    }
}

impl Wake for EagerTask {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}
