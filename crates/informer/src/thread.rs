//! A thread for a handler that may block. It is handed one delivery at a time and hands it back; everything else (waiting,
//! resyncs, the end) stays with the handler's task.

use std::{io, sync::Arc, thread};

use kube_delta_fifo::Delivery;
use kube_object::Object;
use tokio::{runtime::Handle, sync::mpsc};

use crate::{EventHandler, delivery::call_unless_abandoned, mailbox::Mailbox};

/// Events, the mailbox that they are of, and the runtime that the informer runs on.
type Work<T> = (Arc<Mailbox<T>>, Delivery<T>, Handle);

/// Dropped without [`HandlerThread::end`] the thread ends too, after the call that is running.
pub(crate) struct HandlerThread<T> {
    deliveries: mpsc::Sender<Work<T>>,
    returned: mpsc::Receiver<Delivery<T>>,
    thread: thread::JoinHandle<()>,
}

impl<T: Object> HandlerThread<T> {
    /// Starts the thread, which waits. `held` is dropped after the handler, at the thread's end.
    pub(crate) fn spawn(
        mut handler: impl EventHandler<T>,
        held: impl Send + 'static,
    ) -> Result<Self, io::Error> {
        let (deliveries, mut work) = mpsc::channel::<Work<T>>(1);
        let (give_back, returned) = mpsc::channel(1);
        let working = move || {
            while let Some((mailbox, delivery, runtime)) = work.blocking_recv() {
                let _entered = runtime.enter();
                for event in delivery.iter() {
                    if !call_unless_abandoned(&mailbox, &mut handler, event) {
                        break;
                    }
                }
                if give_back.blocking_send(delivery).is_err() {
                    break;
                }
            }
            drop(handler);
            drop(held);
        };
        let thread = thread::Builder::new().name("informer-handler".to_owned()).spawn(working)?;
        Ok(Self { deliveries, returned, thread })
    }

    /// Has the handler called with each event. `None` if the thread is gone, which only a panic of
    /// what an object does when it is dropped can bring about.
    pub(crate) async fn call(
        &mut self,
        mailbox: &Arc<Mailbox<T>>,
        delivery: Delivery<T>,
    ) -> Option<Delivery<T>> {
        self.deliveries.send((Arc::clone(mailbox), delivery, Handle::current())).await.ok()?;
        self.returned.recv().await
    }

    /// Ends the thread, and waits until it has ended.
    pub(crate) async fn end(self) {
        let Self { deliveries, mut returned, thread } = self;
        drop(deliveries);
        while returned.recv().await.is_some() {}
        // It has left its function: this waits no longer than its destructors take.
        if thread.join().is_err() {
            tracing::error!("an event handler panicked when it was dropped");
        }
    }
}
